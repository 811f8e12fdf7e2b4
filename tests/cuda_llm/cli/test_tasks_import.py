"""`cuda-llm tasks import`, as a user types it."""

import shutil
import subprocess
import sys
from pathlib import Path

PROBLEMS = Path(__file__).parents[2] / "fixtures/kernelbench"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cuda_llm", "tasks", "import", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_folder_is_imported_and_each_refusal_says_why(tmp_path: Path) -> None:
    for name in ("5_Argmax.py", "7_Dropout.py"):
        shutil.copy(PROBLEMS / name, tmp_path)
    out = tmp_path / "tasks"
    done = run("kernelbench", str(tmp_path), "--to", str(out))
    assert done.returncode == 0, done.stderr
    assert f"5_Argmax.py: {out / 'argmax_5'}" in done.stdout
    assert "7_Dropout.py: not taken: its results are random" in done.stdout
    assert "1 of 2 taken" in done.stdout
    assert (out / "argmax_5/task.toml").is_file()


def test_a_path_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    done = run("kernelbench", str(tmp_path / "nothing"))
    assert done.returncode == 2
    assert "nothing: not found; expected a .py file or a folder of them" in done.stderr
