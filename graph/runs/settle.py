"""Resolves a request, so that a resumed run finds the same from any folder."""

import re
import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunRequest, run_options
from cuda_llm.tasks.loader import list_tasks
from cuda_llm.traces.find import RUNS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def settle(request: RunRequest) -> RunRequest:
    """Fill in what the settings decide, name the run, and make every path absolute.

    The command line, `optimize` and the bare graph come through here, a resumed run does not: what
    was decided stays. Raises UsageError for a name of a run that is none.
    """
    request = with_settings(request)
    if request.run_id and not NAME.fullmatch(request.run_id):
        msg = f"run name {request.run_id!r}: expected letters, digits, '.', '_' and '-'"
        raise UsageError(msg)
    folder = Path(request.task).expanduser()
    return replace(
        request,
        task=place(request.task),
        device=_absolute_code(request.device),
        generator=_absolute_code(request.generator),
        strategy=_absolute_code(request.strategy),
        agents=tuple(map(_absolute_code, request.agents)),
        start=_absolute(request.start),
        prompts=_absolute(request.prompts),
        out=_absolute(request.out or str(RUNS)),
        run_id=request.run_id or name_run(folder.name, datetime.now(UTC)),
    )


def with_settings(request: RunRequest) -> RunRequest:
    """Replace defaults by the settings that decide them."""
    from cuda_llm.settings import settings

    now = settings()
    undecided = [
        one
        for one in run_options()
        if one.text.setting and not one.text.read_later
        if getattr(request, one.name) == one.default
    ]
    return replace(request, **{one.name: getattr(now, one.text.setting) for one in undecided})


def place(task: str) -> str:
    """Return the name of a shipped task, whatever lies in the current folder; else the path."""
    folder = Path(task).expanduser()
    return str(folder.absolute()) if task not in list_tasks() and folder.exists() else task


def name_run(task: str, now: datetime) -> str:
    """Make a run's name, which sorts by time and is unique: `20260131-100000-reduction-3f2a`."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-") or "run"
    return f"{now:%Y%m%d-%H%M%S}-{plain[:40]}-{secrets.token_hex(2)}"


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


def _absolute_code(spec: str) -> str:
    """Make the path of `path/to/file.py:attribute` absolute; other names stay as they are."""
    path, colon, rest = spec.partition(".py:")
    return f"{_absolute(path)}.py:{rest}" if colon and path else spec
