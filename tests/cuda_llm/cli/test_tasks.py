"""`cuda-llm tasks`: what ships, and the way to a task of one's own."""

import re
from pathlib import Path

import pytest
from commands import Command

from cuda_llm.cli.app import run
from cuda_llm.tasks.loader import list_tasks, load_task

KERNEL = """\
__global__ void triple(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = 3.0f * x[i]; }
}
"""


def test_list_names_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tasks", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(list_tasks())


def test_show_describes_what_a_task_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tasks", "show", "conv2d"]) == 0
    shown = capsys.readouterr().out
    assert "void solve(const float* input, const float* filter, float* output" in shown
    assert "[H - R + 1, W - S + 1]" in shown
    assert "H >= R and W >= S" in shown
    assert "H=2,048 W=2,048 R=24 S=24" in shown


def test_new_refuses_to_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tasks", "new", "mine", "--out", str(tmp_path)]) == 0
    kept = (tmp_path / "mine/task.toml").read_text()
    assert run(["tasks", "new", "mine", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "mine/task.toml").read_text() == kept


@pytest.mark.parametrize("name", ["", "Mine", "../Mine", "my task", "9lives", "a/B"])
def test_new_refuses_odd_names(name: str, tmp_path: Path) -> None:
    assert run(["tasks", "new", name, "--out", str(tmp_path / "here")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_new_refuses_the_name_of_a_task_that_ships(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever a task is named the shipped one would be taken, and the new one never be seen."""
    assert run(["tasks", "new", "histogram", "--out", str(tmp_path / "here")]) == 2
    complaint = "histogram is a task that ships; take another name, as in my_histogram"
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_line_of_the_readme_drafts_a_task(tmp_path: Path, command: Command) -> None:
    page = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"`cuda-llm (tasks new [^`]*)`", page)
    (tmp_path / "kernel.cu").write_text(KERNEL)
    ran = command(*line.split())
    assert ran.code == 0, ran.stderr
    assert "my_task: triple is the baseline" in ran.stdout


def test_new_from_says_what_it_needs_beside_the_file(tmp_path: Path, command: Command) -> None:
    (tmp_path / "two.cu").write_text(KERNEL + KERNEL.replace("triple", "other"))
    (tmp_path / "none.cu").write_text("// __global__ void k(float* x) { }\n")
    for arguments, complaint in {
        "--from two.cu": "two.cu: has kernels triple, other: add --entry triple",
        "--from none.cu": "none.cu: has no kernel; expected a __global__ function or a solve",
        "--from missing.cu": "missing.cu: No such file",
        "--from missing.cu --entry triple": "missing.cu: No such file",
        "--entry triple": "--entry triple: expected --from FILE too",
    }.items():
        ran = command("tasks", "new", "mine", *arguments.split())
        assert ran.code == 2
        assert complaint in ran.complaint
    assert not (tmp_path / "mine").exists()


def test_check_of_a_task_that_was_never_made_says_how_to_make_it(
    tmp_path: Path, command: Command
) -> None:
    complaint = command("tasks", "check", "my_relu").complaint
    assert complaint.startswith("error: my_relu: no such task or folder; make it first: ")
    assert command(*complaint.partition("cuda-llm ")[2].split()).code == 0
    assert load_task(tmp_path / "my_relu").name == "my_relu"


def test_a_path_is_taken_for_a_name(tmp_path: Path, command: Command) -> None:
    ran = command("tasks", "new", "work/mine")
    assert ran.code == 0, ran.stderr
    assert load_task(tmp_path / "work/mine").name == "mine"
    ran = command("tasks", "new", "work/My-Task")
    assert (ran.code, "'My-Task' is no task name" in ran.complaint) == (2, True)


def test_the_skeleton_is_admissible(tmp_path: Path, command: Command) -> None:
    assert command("tasks", "new", "mine").code == 0
    ran = command("tasks", "check", tmp_path / "mine", "--device", "emulated")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert "mine: admissible; the baseline agrees with the reference on" in ran.stdout


def test_a_drafted_kernel_is_admissible_against_itself(tmp_path: Path, command: Command) -> None:
    (tmp_path / "k.cu").write_text(KERNEL)
    ran = command("tasks", "new", "mine", "--from", "k.cu", "--entry", "triple")
    assert "look at the" in ran.stdout
    assert load_task(tmp_path / "mine").reference is None
    ran = command("tasks", "check", "mine", "--device", "emulated")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert "differential" in ran.stdout
    guesses = [line for line in ran.stdout.splitlines() if ": still a guess: " in line]
    assert any(re.match(r"warning: \S+/mine/task.toml:\d+: ", line) for line in guesses)
    # Another kernel than the baseline is timed between calls whose number follows from their work.
    other = (tmp_path / "mine/baseline.cu").read_text().replace("3.0f * x[i]", "x[i] * 3.0f + 0.0f")
    (tmp_path / "other.cu").write_text(other)
    ran = command("evaluate", "mine", "other.cu", "--device", "emulated", "--json")
    assert ran.code == 0, ran.stdout + ran.stderr
    assert '"PASSED"' in ran.stdout


def test_a_baseline_that_is_wrong_is_named(tmp_path: Path, command: Command) -> None:
    assert command("tasks", "new", "mine").code == 0
    baseline = tmp_path / "mine/baseline.cu"
    baseline.write_text(baseline.read_text().replace("2.0f * x[i]", "2.5f * x[i]"))
    ran = command("tasks", "check", "mine", "--device", "emulated")
    assert ran.code == 1
    assert "mine: not admissible" in ran.stdout
    assert "WRONG_RESULT" in ran.stdout


def test_a_roofline_that_asks_too_much_is_refused(tmp_path: Path, command: Command) -> None:
    assert command("tasks", "new", "mine").code == 0
    description = tmp_path / "mine/task.toml"
    description.write_text(description.read_text().replace('"8 * n"', '"40 * n"'))
    ran = command("tasks", "check", "mine", "--device", "emulated")
    assert ran.code == 1
    assert "mine/task.toml: [roofline] asks too much: at n=16,777,216 the baseline" in ran.stdout


CANCELS = """\
__global__ void k(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = x[i] * x[(i + 1) % n] - 1.25f; }
}
extern "C" void solve(const float* x, float* y, int n) { k<<<(n + 255) / 256, 256>>>(x, y, n); }
"""


def test_a_tolerance_that_refuses_products_rounded_on_their_own_is_refused(
    tmp_path: Path, command: Command
) -> None:
    """The baseline itself passes: nvcc contracts its product and its sum."""
    assert command("tasks", "new", "mine").code == 0
    (tmp_path / "mine/baseline.cu").write_text(CANCELS)
    reference = "def reference(xp, *, x):\n    return {'y': x * xp.roll(x, -1) - 1.25}\n"
    (tmp_path / "mine/reference.py").write_text(reference)
    description = tmp_path / "mine/task.toml"
    text = description.read_text().replace("linear = true", "linear = false")
    text = re.sub(r"(?m)^probe = .*$", "", text)
    description.write_text(re.sub(r"(?m)^distributions = .*$", 'distributions = ["normal"]', text))
    ran = command("tasks", "check", "mine", "--device", "emulated")
    assert ran.code == 1
    assert "WRONG_RESULT when compiled without FMA contraction (-fmad=false)" in ran.stdout
    assert '`kind = "dot"` or `"reduction"` of [tolerance], and scale()' in ran.stdout
