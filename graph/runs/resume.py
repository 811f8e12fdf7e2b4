"""Resumes a run from Python with the caller's own parts, as `cuda-llm resume` does without any."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.keywords import PARTS, WATCHERS, name_task, split_keywords
from cuda_llm.graph.runs.result import Result
from cuda_llm.graph.runs.start import resume as resume_folder
from cuda_llm.own_thread import await_here
from cuda_llm.run_config import shown
from cuda_llm.tasks.task import Task
from cuda_llm.traces.find import find_run

BROUGHT = (*PARTS, *WATCHERS, "agents", "agent_models")
"""Keywords of what a caller passes again: objects, of which `run.json` keeps the names alone."""


async def aresume(run: str | Path, *, task: Task | None = None, **keywords: Any) -> Result:
    """Go on with a run that was cancelled, interrupted or killed, to its end.

    `run` is the run's name or folder. Keywords are those of `optimize` that take objects; the
    objects that `optimize` was called with have to be passed again. Options stay as recorded.
    A run that is finished gives its result. Raises UsageError: no such run, at work in another
    process, an option or a name among the keywords, or an object that is not passed again;
    TypeError for a keyword that is none.
    """
    _, brought, observers = split_keywords("", keywords)
    for name, value in keywords.items():
        if name not in BROUGHT or isinstance(value, str):
            raise UsageError(f"{name}={shown(value)}: a resumed run keeps the options it has")
    own_task = None if task is None else name_task(task)[1]
    return await resume_folder(
        find_run(str(run)),
        brought=replace(brought, task=own_task),
        observers=observers,
        reviewer=keywords.get("reviewer"),
    )


def resume(run: str | Path, *, task: Task | None = None, **keywords: Any) -> Result:
    """`aresume` for callers that do not await, as `optimize` is for `aoptimize`."""
    return await_here(aresume(run, task=task, **keywords))
