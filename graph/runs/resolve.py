"""A request checked and resolved: nothing is left open, so a resumed run finds the same from any
folder.
"""

import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from numbers import Integral, Real
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from cuda_llm.components import Components
from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.run_options import RunOption, run_options
from cuda_llm.source_file import read_source
from cuda_llm.tasks.loader import list_tasks
from cuda_llm.traces.find import RUNS

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def make_request(given: Mapping[str, Any]) -> RunRequest:
    """Build a request from plain data by field name, as Python or JSON have it.

    Raises UsageError naming the first field whose value is of a wrong type.
    """
    from cuda_llm.codec import decode

    for option in run_options():
        if option.name in given and not _fits(option, given[option.name]):
            value = " ".join(repr(given[option.name]).split())[:_LONGEST_SHOWN]
            raise UsageError(f"{option.name}={value}: expected {_expected(option)}")
    _check_switches(given.get("components"))
    try:
        return decode(RunRequest, given)
    except ValueError as error:
        raise UsageError(f"the run's options do not fit: {error}") from None


_LONGEST_SHOWN = 60
"""Characters of a value that does not fit."""

_PLAIN: Mapping[Any, tuple[type, str]] = {
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    bool: (bool, "True or False"),
    str: (str, "text"),
}


def _fits(option: RunOption, value: object) -> bool:
    """Return whether a value has the type of its field: text is no number, and True is none."""
    if option.is_choice:
        return value in get_args(option.kind)
    if option.is_list:
        kind = _PLAIN[option.item_kind][0]
        if not isinstance(value, (list, tuple)):
            return False
        return all(isinstance(one, kind) and not isinstance(one, bool) for one in value)
    if option.is_mapping:
        return isinstance(value, Mapping)
    if option.kind is Components:
        return isinstance(value, (Mapping, Components))
    kinds = get_args(option.kind) or (option.kind,)
    if value is None or kinds[0] not in _PLAIN:
        return value is not None or None.__class__ in kinds
    fits = isinstance(value, _PLAIN[kinds[0]][0])
    return fits and (kinds[0] is bool or not isinstance(value, bool))


def _check_switches(given: object) -> None:
    """Raise UsageError for a switch of `components` that there is none of."""
    known = Components.__dataclass_fields__
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if name not in known:
            raise UsageError(f"components has no {name!r}; {nearest(str(name), known)}")
        if not isinstance(value, bool):
            raise UsageError(f"components[{name!r}]={value!r}: expected True or False")


def _expected(option: RunOption) -> str:
    """Describe what a field takes."""
    if option.is_choice:
        return " or ".join(repr(one) for one in get_args(option.kind) if one)
    if option.is_list:
        return f"a list, each {_PLAIN[option.item_kind][1]}"
    if option.is_mapping:
        return "a dict of texts"
    if option.kind is Components:
        return "a Components, or a dict of its switches"
    kinds = get_args(option.kind) or (option.kind,)
    words = _PLAIN[kinds[0]][1]
    return f"{words} or None" if None.__class__ in kinds else words


def check_request(request: RunRequest) -> None:
    """Check every option. Raises UsageError naming the option, its value and what it may be."""
    for option in run_options():
        _check_value(option, getattr(request, option.name))
    _check_range("--round-quorum", request.round_quorum, (0, request.candidates))
    if any(not hint.strip() for hint in request.hints):
        raise UsageError("--hint is empty; expected a sentence for the generator")
    for agent, model in request.agent_models.items():
        if not agent.strip() or not model.strip():
            raise UsageError(f"--agent-model {agent}={model}: expected NAME=MODEL")
    if request.start:
        read_source(Path(request.start).expanduser())
    if request.base_url:
        _check_url(request.base_url)


def _check_value(option: RunOption, value: object) -> None:
    """Check a value against the range or the words of its field."""
    text, choices = option.text, get_args(option.kind)
    if text.within and isinstance(value, int):
        _check_range(option.flag, value, text.within)
    if text.above_zero and isinstance(value, (int, float)):
        _check_above_zero(option.flag, value)
    if option.is_choice and value not in choices:
        *others, last = filter(None, choices)
        raise UsageError(f"{option.flag} {value}: expected {', '.join(others)} or {last}")


def _check_range(flag: str, value: int, within: tuple[int, int]) -> None:
    least, most = within
    if not least <= value <= most:
        raise UsageError(f"{flag} {value}: expected a whole number from {least} to {most:,}")


def _check_above_zero(flag: str, value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{flag} {value:g}: expected a number above 0")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"--base-url {url}: expected an address as in http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        # The address is kept in run.json.
        held = "a query" if parts.query else "a password"
        raise UsageError(f"--base-url holds {held}; put the key into OPENAI_API_KEY instead")


def resolve_request(request: RunRequest) -> RunRequest:
    """Fill in what the settings decide, name the run, and make every path absolute.

    The command line, `optimize` and the bare graph come through here, a resumed run does not: what
    was decided stays. Raises UsageError for a name of a run that is none.
    """
    # A cluster is named in place of the device that the settings name.
    request = with_one_device(request) if request.cluster else request
    # What is not said of a replay is as in the recorded run, not as these settings are.
    request = with_one_device(request if request.replay else apply_settings(request))
    if request.run_id and not RUN_NAME.fullmatch(request.run_id):
        msg = f"run name {request.run_id!r}: expected letters, digits, '.', '_' and '-'"
        raise UsageError(msg)
    folder = Path(request.task).expanduser()
    return replace(
        request,
        task=resolve_task(request.task),
        device=absolute_code(request.device),
        generator=absolute_code(request.generator),
        strategy=absolute_code(request.strategy),
        agents=tuple(map(absolute_code, request.agents)),
        start=_absolute(request.start),
        prompts=_absolute(request.prompts),
        out=_absolute(request.out or str(RUNS)),
        run_id=request.run_id or name_run(folder.name, datetime.now(UTC)),
    )


def with_one_device(request: RunRequest) -> RunRequest:
    """Return the request with cluster, workers and number of GPUs in the text of its device.

    Raises UsageError where they contradict each other.
    """
    from cuda_llm.tools.device_options import compose_device

    text = compose_device(request.device, request.cluster, request.workers, request.max_gpus)
    return replace(request, device=text, cluster="", workers="", max_gpus=None)


def apply_settings(request: RunRequest) -> RunRequest:
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


def resolve_task(task: str) -> str:
    """Return the name of a shipped task, whatever lies in the current folder; else the path."""
    folder = Path(task).expanduser()
    return str(folder.absolute()) if task not in list_tasks() and folder.exists() else task


def name_run(task: str, now: datetime) -> str:
    """Make a run's name, which sorts by time and is unique: `20260131-100000-reduction-3f2a`."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-") or "run"
    return f"{now:%Y%m%d-%H%M%S}-{plain[:40]}-{secrets.token_hex(2)}"


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


def absolute_code(spec: str) -> str:
    """Make the path of `path/to/file.py:attribute` absolute; other names stay as they are."""
    path, colon, rest = spec.partition(".py:")
    return f"{_absolute(path)}.py:{rest}" if colon and path else spec
