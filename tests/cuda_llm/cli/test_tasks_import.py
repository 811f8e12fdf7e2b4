"""`cuda-llm tasks import`, as a user types it."""

import shutil
from pathlib import Path

import pytest
from commands import Command

from cuda_llm.cli.app import run

PROBLEMS = Path(__file__).parents[2] / "fixtures/kernelbench"


@pytest.mark.evidence
def test_a_folder_is_imported_and_each_refusal_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """PyTorch takes seconds, and leaves a folder of its own among temporary files."""
    for name in ("5_Argmax.py", "7_Dropout.py"):
        shutil.copy(PROBLEMS / name, tmp_path)
    out = tmp_path / "tasks"
    assert run(["tasks", "import", "kernelbench", str(tmp_path), "--to", str(out)]) == 0
    told = capsys.readouterr().out
    assert f"5_Argmax.py: {out / 'argmax_5'}" in told
    assert "7_Dropout.py: not taken: its results are random" in told
    assert "1 of 2 taken" in told
    assert (out / "argmax_5/task.toml").is_file()


def test_a_path_that_is_not_there_is_told_in_one_line(command: Command, tmp_path: Path) -> None:
    done = command("tasks", "import", "kernelbench", str(tmp_path / "nothing"))
    assert done.code == 2
    assert "nothing: not found; expected a .py file or a folder of them" in done.stderr


def test_a_function_without_example_is_told_how_one_looks(command: Command) -> None:
    done = command("tasks", "import", "torch", "mine.py:swiglu")
    assert done.code == 2
    assert "--example is missing" in done.complaint
    assert "--example 'randn(2048, 4096, dtype=bfloat16)" in done.complaint


def test_a_problem_of_kernelbench_takes_no_example(command: Command, tmp_path: Path) -> None:
    done = command("tasks", "import", "kernelbench", str(tmp_path), "--example", "randn(4)")
    assert done.code == 2
    assert "have get_inputs(); leave it out" in done.complaint
