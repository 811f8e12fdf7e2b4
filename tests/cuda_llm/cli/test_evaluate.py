import json
import sys
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
from commands import Command, Ran
from tiny_tasks import tiny_task

from cuda_llm.cli.evaluate_output import CERTAINTY
from cuda_llm.profile import SizeTime

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/kernels"
SCHEMA = json.loads((ROOT / "docs/schemas/evaluate.schema.json").read_text())


@pytest.fixture
def transpose(tmp_path: Path) -> Path:
    """Its last size is the one at which the example without padding has its bank conflicts."""
    return tiny_task(tmp_path, "matrix_transpose", of="matrix_transpose")


def test_a_correct_kernel_is_explained_to_a_person(command: Command, transpose: Path) -> None:
    kernel = EXAMPLES / "transpose_unpadded.cu"
    ran = command("evaluate", transpose, kernel, "--device", "emulated")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert "emulated RTX 3090 Ti (times are modelled)" in ran.stdout
    assert "transpose: " in ran.stdout
    assert "every element" in ran.stdout
    assert "x faster" in ran.stdout
    assert "bank conflicts" in ran.stdout
    assert "transpose_unpadded.cu:24" in ran.stdout
    assert ran.stderr.splitlines()[-3:] == [
        f"{EXAMPLES / 'transpose_unpadded.cu'}: {stage}"
        for stage in ("compiling", "validating", "timing")
    ]


def test_a_wrong_kernel_is_located_and_fails(command: Command, transpose: Path) -> None:
    ran = command("evaluate", transpose, EXAMPLES / "transpose_missing_barrier.cu")
    assert ran.code == 1
    assert "DATA_RACE" in ran.stdout
    assert "transpose_missing_barrier.cu:1" in ran.stdout


def test_a_kernel_may_come_by_stdin(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is no kernel, and one that is not there: the judge sees the text, and its name."""
    from_stdin = ("evaluate", "vector_add", "-", "--device", "emulated")

    def given(text: bytes) -> Ran:
        (tmp_path / "given").write_bytes(text)
        with (tmp_path / "given").open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            return command(*from_stdin)

    ran = given(b"int x =;\n")
    assert ran.code == 1
    assert ran.stdout.startswith("stdin · vector_add")
    assert "stdin:1: expected an expression" in ran.stdout
    assert given(b"").complaint.startswith("error: stdin: empty")
    assert given(b"\0" * (1 << 21)).complaint.startswith("error: stdin: larger than")
    assert "stdin is one source" in command(*from_stdin, "-").complaint


def test_several_files_are_compared_in_a_table(command: Command, transpose: Path) -> None:
    names = ("padded", "missing_barrier", "unpadded")
    files = [EXAMPLES / f"transpose_{name}.cu" for name in names]
    ran = command("evaluate", transpose, *files, COLUMNS="160")
    assert ran.code == 1, "one of three did not pass"
    assert command("evaluate", transpose, *files[:2], "--any").code == 0
    table = ran.stdout[ran.stdout.index("largest size") :]
    order = [table.index(f"transpose_{name}.cu") for name in ("padded", "unpadded")]
    assert order == sorted(order)
    assert table.index("DATA_RACE") > order[-1]


def test_json_is_one_document_of_the_published_shape(command: Command, transpose: Path) -> None:
    files = [EXAMPLES / "transpose_padded.cu", EXAMPLES / "transpose_missing_barrier.cu"]
    ran = command("evaluate", transpose, *files, "--json")
    document = json.loads(ran.stdout)
    jsonschema.validate(document, SCHEMA)
    good, bad = document["results"]
    assert good["verdict"]["code"] == "PASSED"
    assert good["speedup"] > 1
    assert {size["source"] for size in good["sizes"]} == {"modelled"}
    assert bad["verdict"]["code"] == "DATA_RACE"
    assert bad["speedup"] is None


def test_the_device_is_chosen_by_exact_name(command: Command, tmp_path: Path) -> None:
    task = tiny_task(tmp_path, "vector_add")
    times = {}
    for gpu in ("H200", "RTX 3090 Ti"):
        ran = command(
            "evaluate",
            task,
            ROOT / "tasks/vector_add/baseline.cu",
            "--device",
            f"emulated:{gpu}",
            "--json",
        )
        document = json.loads(ran.stdout)
        assert gpu in document["hardware"]
        times[gpu] = document["results"][0]["sizes"][-1]["time_us"]
    assert times["H200"] != times["RTX 3090 Ti"]


def test_the_same_kernel_judged_twice_has_the_same_time(command: Command, transpose: Path) -> None:
    arguments = ("evaluate", transpose, EXAMPLES / "transpose_padded.cu", "--json")
    first, second = (json.loads(command(*arguments).stdout)["results"][0] for _ in range(2))
    assert first["sizes"] == second["sizes"]


def test_all_that_is_known_of_a_size_is_published() -> None:
    published = SCHEMA["$defs"]["size"]["properties"].keys()
    assert {field.name for field in fields(SizeTime)} - {"paired_speedup"} <= published
    assert set(CERTAINTY) <= published


def test_the_objective_makes_the_speedup_and_is_said_beside_it(
    command: Command, transpose: Path
) -> None:
    kernels = [EXAMPLES / f"transpose_{name}.cu" for name in ("padded", "unpadded")]
    told = command("evaluate", transpose, *kernels, "--objective", "worst", "--json")
    document = json.loads(told.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["objective"] == "worst"
    for one in document["results"]:
        assert one["speedup"] == min(size["speedup"] for size in one["sizes"])
    shown = command("evaluate", transpose, *kernels, "--objective", "largest")
    assert "speedup at the largest size" in " ".join(shown.stdout.split())
    refused = command("evaluate", transpose, kernels[0], "--weight", "2")
    assert refused.code == 2 and "--weight: 1 given, but matrix_transpose has" in refused.stderr


RACES = """\
__global__ void transpose(const float* in, float* out, int rows, int cols)
{
    __shared__ float tile[32][33];
    __shared__ float shift[32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    if (x < cols && y < rows) tile[threadIdx.y][threadIdx.x] = in[(size_t)y * cols + x];
    if (threadIdx.y == 31) shift[threadIdx.x] = 0.0f;
    BARRIER
    int r = blockIdx.y * 32 + threadIdx.x, c = blockIdx.x * 32 + threadIdx.y;
    if (r >= rows || c >= cols) return;
    float moved = tile[threadIdx.x][threadIdx.y];
    moved += shift[threadIdx.y];
    out[(size_t)c * rows + r] = moved;
}
extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 blocks((cols + 31) / 32, (rows + 31) / 32), threads(32, 32);
    transpose<<<blocks, threads>>>(input, output, rows, cols);
}
"""


def test_all_faults_are_printed_once_the_verdict_first(
    command: Command, transpose: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(RACES.replace("BARRIER", ""))
    ran = command("evaluate", transpose, wrong, "--device", "emulated", "--all")
    assert ran.code == 1
    codes = [line.split()[0] for line in ran.stdout.splitlines() if line.startswith("  DATA_RACE")]
    assert len(codes) == 2
    assert all(f"shared array {name}" in ran.stdout for name in ("tile", "shift"))
    assert "  all " in ran.stdout
    assert "2 distinct; " in ran.stdout
    ran = command("evaluate", transpose, wrong, "--device", "emulated", "--all", "--json")
    document = json.loads(ran.stdout)
    jsonschema.validate(document, SCHEMA)
    (result,) = document["results"]
    first, second = result["findings"]
    assert first["verdict"] == result["verdict"]
    assert second["calls"] > 0


def test_a_right_kernel_has_no_fault_with_all(
    command: Command, transpose: Path, tmp_path: Path
) -> None:
    right = tmp_path / "right.cu"
    right.write_text(RACES.replace("BARRIER", "__syncthreads();"))
    ran = command("evaluate", transpose, right, "--device", "emulated", "--all")
    assert ran.code == 0, ran.stdout
    assert "0 distinct; " in ran.stdout
    assert "further" not in ran.stdout
