"""`cuda-llm check`: faults of a kernel that has no reference, each by the real compiler and the
emulated device."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from cuda_llm.cli.app import run

SCHEMAS = Path(__file__).parents[3] / "docs/schemas"
SCHEMA = json.loads((SCHEMAS / "check.schema.json").read_text())
SUMS = """\
__global__ void sum_rows(const float* x, float* y, int rows, int cols)
{
    __shared__ float part[256];
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += x[blockIdx.x * cols + c];
    part[threadIdx.x] = s;
    BARRIER
    for (int k = 128; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
"""
SCATTER = """\
__global__ void scatter(const int* place, const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[place[i]] = x[i];
}
extern "C" void run(const int* place, const float* x, float* y, int n)
{
    float* unused;
    cudaMalloc(&unused, 4 * n);
    scatter<<<(n + 255) / 256, 256>>>(place, x, y, n);
}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.cu"
    path.write_text(text)
    return str(path)


def test_a_missing_barrier_is_a_race_at_both_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SUMS.replace("BARRIER", ""))
    options = ["--launch", "<<<rows, 256>>>", "--shape", "y=rows", "--size", "rows=3,cols=70"]
    assert run(["check", file, *options, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    found = [one["verdict"] for one in document["faults"]]
    assert [one["code"] for one in found] == ["DATA_RACE"]
    assert {found[0]["spot"]["line"], found[0]["other"]["line"]} == {6, 9}


def test_every_race_of_a_kernel_is_listed_once_with_its_array(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two barriers lack: one before the tree, one in it."""
    wrong = SUMS.replace("BARRIER", "").replace("        __syncthreads();\n", "")
    file = written(tmp_path, wrong)
    options = ["--launch", "<<<rows, 256>>>", "--shape", "y=rows", "--size", "rows=2,cols=300"]
    assert run(["check", file, *options]) == 1
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if line.startswith("  DATA_RACE")]
    assert len(lines) >= 2
    assert all("of the shared array part (1,024 bytes)" in line for line in lines)
    assert "in 4 of 4 calls" in shown


def test_a_finding_has_one_shape_in_check_and_evaluate() -> None:
    other = json.loads((SCHEMAS / "evaluate.schema.json").read_text())
    assert SCHEMA["$defs"]["finding"] == other["$defs"]["finding"]


def test_what_does_not_compile_is_a_fault_of_the_published_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SUMS)
    assert run(["check", file, "--launch", "<<<rows, 256>>>", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert [one["verdict"]["code"] for one in document["faults"]] == ["COMPILE_FAILED"]


def test_a_right_kernel_has_no_fault_at_its_small_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SUMS.replace("BARRIER", "__syncthreads();"))
    launch = "sum_rows<<<rows, 256>>>(x, y, rows, cols)"
    assert run(["check", file, "--launch", launch, "--shape", "y=rows"]) == 0
    shown = capsys.readouterr().out
    assert "no fault" in shown
    assert "note" not in shown


def test_memory_outside_of_a_buffer_is_named_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = SUMS.replace("BARRIER", "__syncthreads();").replace("c < cols", "c <= cols")
    file = written(tmp_path, wrong)
    options = ["--launch", "<<<rows, 256>>>", "--shape", "y=rows", "--size", "rows=2,cols=5"]
    assert run(["check", file, *options]) == 1
    shown = capsys.readouterr().out
    assert "ILLEGAL_ACCESS" in shown
    assert "mine.cu:5" in shown


def test_given_inputs_decide_what_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A permutation scatters without a race; the last place is left out, and memory is kept."""
    file, inputs = written(tmp_path, SCATTER), tmp_path / "in.npz"
    place = np.random.default_rng(0).permutation(300).astype(np.int32)
    place[place == 299] = 0
    place[np.flatnonzero(place == 0)[1:]] = 298
    np.savez(inputs, place=np.arange(300, dtype=np.int32), n=300)
    assert run(["check", file, "--entry", "run", "--inputs", str(inputs), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, SCHEMA)
    assert document["sizes"] == [{"n": 300}]
    assert [(one["kind"], one["count"]) for one in document["remarks"]] == [("held-memory", 1200)]
    np.savez(inputs, place=place, n=300)
    assert run(["check", file, "--entry", "run", "--inputs", str(inputs), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["faults"][0]["verdict"]["kind"] == "write-write"


def test_an_output_that_is_left_out_is_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SUMS.replace("BARRIER", "__syncthreads();"))
    options = ["--launch", "<<<rows - 1, 256>>>", "--shape", "y=rows", "--size", "rows=3,cols=5"]
    assert run(["check", file, *options, "--json"]) == 0
    (remark,) = json.loads(capsys.readouterr().out)["remarks"]
    assert (remark["kind"], remark["buffer"], remark["count"], remark["of"]) == (
        "unwritten",
        "y",
        1,
        3,
    )


def test_a_solve_is_checked_with_the_arguments_of_its_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path(__file__).parents[3] / "examples/kernels/transpose_missing_barrier.cu"
    size = ["--size", "rows=33,cols=40"]
    assert run(["check", str(file), "--task", "matrix_transpose", *size]) == 1
    assert "DATA_RACE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--launch", "sum_rows(x)"], "expected '<<<blocks, threads>>>' in it"),
        (["--shape", "z=rows"], "sum_rows has no pointer z"),
        (["--shape", "y"], "expected NAME=EXTENT"),
        (["--device", "cuda:0"], "expected emulated, or emulated:GPU"),
        (["--inputs", "absent.npz"], "expected a file that numpy.savez wrote"),
        (["--task", "histogram", "--entry", "sum_rows"], "--entry beside --task"),
        (["--size", "rows=3"], "cols not given"),
    ],
)
def test_an_option_that_does_not_fit_is_one_line(
    options: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, SUMS.replace("BARRIER", ""))
    assert run(["check", file, *options]) == 2
    stderr = capsys.readouterr().err.strip().splitlines()
    assert len(stderr) == 1
    assert complaint in stderr[0]
