"""Reads a task from its folder."""

import difflib
from pathlib import Path

from cuda_llm.errors import TaskError
from cuda_llm.tasks.schema import read_task
from cuda_llm.tasks.task import Task

_SHIPPED = Path(__file__).resolve().parent


def list_tasks() -> tuple[str, ...]:
    """Returns the names of the tasks that ship, sorted."""
    return tuple(sorted(file.parent.name for file in _SHIPPED.glob("*/task.toml")))


def load_task(name_or_path: str | Path) -> Task:
    """Reads a shipped task by name, or any task folder by path.

    Raises TaskError: one line naming the file, the key, what was found and what was expected.
    """
    return read_task(_find(name_or_path))


def _find(name_or_path: str | Path) -> Path:
    names = list_tasks()
    if isinstance(name_or_path, str) and name_or_path in names:
        return _SHIPPED / name_or_path
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.name == "task.toml" and path.is_file():
        return path.resolve().parent
    close = difflib.get_close_matches(str(name_or_path), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
    raise TaskError(f"{name_or_path}: no such task or folder; {hint}")
