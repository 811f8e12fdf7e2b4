"""Completion in a shell: names of tasks and runs that begin with what was typed.

What reads tasks and runs is imported when a shell asks: every command's help imports this module.
"""

from pathlib import Path
from typing import Annotated

import typer


def task_names(incomplete: str) -> list[str]:
    """Return the tasks that ship and the folders of tasks here that begin with `incomplete`."""
    from cuda_llm.tasks.loader import list_tasks

    own = (str(one.parent) for one in Path().glob("*/task.toml"))
    return [name for name in (*list_tasks(), *own) if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Return runs of the usual folder that begin with `incomplete`, newest first; also `latest`."""
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
