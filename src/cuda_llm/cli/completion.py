"""Completion in a shell: which commands to load, and words that stand for tasks and runs.

The shell asks by calling `cuda-llm` with the line so far in its environment.
"""

import os
from collections.abc import Mapping
from typing import Annotated

import typer

ASKED = "_CUDA_LLM_COMPLETE"
"""Set by the shell's script: what it wants."""


def asked_words(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the words of the line that a shell asks about; none unless one does."""
    if ASKED not in environment:
        return []
    # Bash has a variable of its own; the others share one.
    line = environment.get("COMP_WORDS") or environment.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def task_names(incomplete: str) -> list[str]:
    """Return the tasks that ship and the folders of tasks here that begin so."""
    from pathlib import Path

    from cuda_llm.tasks.loader import list_tasks

    own = (str(one.parent) for one in Path().glob("*/task.toml"))
    return [name for name in (*list_tasks(), *own) if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Return the runs of the usual folder that begin so, newest first, and `latest`."""
    from cuda_llm.traces.find import list_runs

    names = ["latest", *(one.name for one in reversed(list_runs(None)))]
    return [name for name in names if name.startswith(incomplete)]


TaskName = Annotated[
    str, typer.Argument(help="Name of a task, or its folder.", autocompletion=task_names)
]
RunName = Annotated[
    str,
    typer.Argument(
        help="Id of a run, its beginning, its folder, or `latest`.", autocompletion=run_names
    ),
]
