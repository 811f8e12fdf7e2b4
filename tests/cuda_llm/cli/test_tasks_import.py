"""`cuda-llm tasks import`, as a user types it."""

import shutil
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from cuda_llm.cli.tasks import tasks_app

PROBLEMS = Path(__file__).parents[2] / "fixtures/kernelbench"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(tasks_app, ["import", *arguments])


def test_a_folder_is_imported_and_each_refusal_says_why(tmp_path: Path) -> None:
    for name in ("5_Argmax.py", "7_Dropout.py"):
        shutil.copy(PROBLEMS / name, tmp_path)
    out = tmp_path / "tasks"
    done = run("kernelbench", str(tmp_path), "--to", str(out))
    assert done.exit_code == 0, done.output
    assert f"5_Argmax.py: {out / 'argmax_5'}" in done.output
    assert "7_Dropout.py: not taken: its results are random" in done.output
    assert "1 of 2 taken" in done.output
    assert (out / "argmax_5/task.toml").is_file()


def test_a_path_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    done = run("kernelbench", str(tmp_path / "nothing"))
    assert "not found; expected a .py file or a folder of them" in str(done.exception)
