"""Digests of a task's files: a resumed run must go on with the same task."""

import hashlib
from collections.abc import Mapping

from cuda_llm.errors import UsageError
from cuda_llm.tasks.task import Task

DECIDING = ("task.toml", "description.md", "reference.py", "baseline.cu", "host.cu", "playbook.cu")


def print_task(task: Task) -> dict[str, str]:
    """Return the SHA-256 of each file of the task that decides a run, by file name."""
    found = (task.folder / name for name in DECIDING)
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in found if file.is_file()
    }


def check_unchanged(task: Task, before: Mapping[str, str]) -> None:
    """Compare digests. Raises UsageError naming the files that changed since the run began."""
    now = print_task(task)
    changed = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
    if changed:
        files = ", ".join(changed)
        msg = f"task {task.name} has changed since the run began ({files}); start a new run"
        raise UsageError(msg)
