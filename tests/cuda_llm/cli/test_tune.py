"""`tune`: the tuner alone, on a kernel of the user's."""

import json
from pathlib import Path

import jsonschema
import pytest
from commands import Command
from tiny_tasks import tiny_task

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schemas/run.schema.json").read_text())
KERNEL = """\
#define BLOCK 1  // tunable: 1 256
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(a, b, c, n);
}
"""
EMULATED = ("--device", "emulated")


def test_the_best_values_are_found_printed_and_written(command: Command, tmp_path: Path) -> None:
    task = tiny_task(tmp_path, "vector_add")
    (tmp_path / "k.cu").write_text(KERNEL)
    ran = command(
        "tune",
        task,
        "k.cu",
        *EMULATED,
        "--rounds",
        3,
        "--write",
        "tuned.cu",
        "--objective",
        "largest",
    )
    assert ran.code == 0, ran.stderr
    assert "x at the largest size" in ran.stdout
    assert "every combination was tried" in ran.stdout
    assert "the kernel as given (modelled)" in ran.stdout
    assert "  changed      BLOCK 256" in ran.stdout
    written = (tmp_path / "tuned.cu").read_text()
    assert written == KERNEL.replace("BLOCK 1 ", "BLOCK 256 ")
    (run,) = (tmp_path / "traces/runs").iterdir()
    assert (run / "best/solve.cu").read_text() == written
    shown = command("trace", "show", "latest")
    assert "tunes r0-c1" in shown.stdout
    again = command("tune", task, "k.cu", "--write", "tuned.cu")
    assert (again.code, "overwrite it with --force" in again.complaint) == (2, True)


PLAIN = """\
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + 31) / 32, 32>>>(a, b, c, n);
}
"""


def test_a_plain_kernel_is_rewritten_where_nobody_else_writes(
    command: Command, tmp_path: Path
) -> None:
    task = tiny_task(tmp_path, "vector_add")
    (task / "playbook.cu").unlink(missing_ok=True)
    (tmp_path / "k.cu").write_text(PLAIN)
    ran = command(
        "run", task, "--start", "k.cu", *EMULATED, "--rounds", 1, "--candidates", 4, "--json"
    )
    assert ran.code == 0, ran.stderr
    assert "k.cu itself is searched" in ran.stderr
    whole = json.loads(ran.stdout)
    given, *rewritten = [one for each in whole["rounds"] for one in each["candidates"]]
    assert len(rewritten) == 4
    assert "round 1/1: the tuner searches" in ran.stderr
    assert "round 1/1: of r0-c1, the best of 4 points is" in ran.stderr
    assert {one["code"] for one in rewritten} == {"PASSED"}
    assert whole["best"]["speedup"] >= given["speedup"]
    (run,) = (tmp_path / "traces/runs").iterdir()
    sources = {one.read_text() for one in run.glob("candidates/*/source.cu")}
    assert PLAIN in sources and len(sources) == 1 + 4


def test_a_run_of_a_kernel_that_few_rewrites_fit_ends_when_all_were_tried(
    command: Command, tmp_path: Path
) -> None:
    task = tiny_task(tmp_path, "vector_add")
    computed = PLAIN.replace("32>>>", "n < 64 ? 32 : 64>>>")
    (tmp_path / "k.cu").write_text(computed)
    ran = command("tune", task, "k.cu", *EMULATED)
    assert ran.code == 0, ran.stderr
    assert "every combination was tried" in ran.stdout


def test_a_kernel_that_fails_is_not_tuned(command: Command, tmp_path: Path) -> None:
    task = tiny_task(tmp_path, "vector_add")
    (tmp_path / "k.cu").write_text(KERNEL.replace("+ b[i]", "- b[i]"))
    ran = command("tune", task, "k.cu", *EMULATED, "--json")
    assert ran.code == 1
    whole = json.loads(ran.stdout)
    jsonschema.validate(whole, SCHEMA)
    assert (whole["reason"], whole["best"]) == ("the kernel to tune did not pass", None)
    assert [len(one["candidates"]) for one in whole["rounds"]] == [1]


@pytest.mark.parametrize(
    ("source", "named"),
    [
        (
            'extern "C" void solve(const float* a, const float* b, float* c, int n) {}\n',
            "k.cu: nothing to search: it declares no tunables (docs/playbook.md), and no rewrite "
            "fits; looked for a constant block size",
        ),
        (KERNEL.replace("1 256", "32 256"), "k.cu:1: the default 1 of BLOCK is not among its"),
    ],
)
def test_what_declares_nothing_to_tune_is_refused_before_a_run_begins(
    command: Command, tmp_path: Path, source: str, named: str
) -> None:
    (tmp_path / "k.cu").write_text(source)
    ran = command("tune", "vector_add", "k.cu", *EMULATED)
    assert (ran.code, named in ran.complaint) == (2, True)
    assert not (tmp_path / "traces").exists()


def test_tunings_beside_written_kernels_are_refused_where_nobody_writes(
    command: Command, tmp_path: Path
) -> None:
    task = tiny_task(tmp_path, "vector_add")
    (tmp_path / "k.cu").write_text(PLAIN)
    options = ("--generator", "tuner", "--start", "k.cu", "--tune", 3)
    ran = command("run", task, *options, *EMULATED)
    assert (ran.code, "how many kernels a round tries with --candidates" in ran.complaint) == (
        2,
        True,
    )


def test_the_tuner_needs_a_kernel(command: Command) -> None:
    ran = command("run", "vector_add", "--generator", "tuner", *EMULATED)
    assert (ran.code, "name one with --start FILE.cu" in ran.complaint) == (2, True)
