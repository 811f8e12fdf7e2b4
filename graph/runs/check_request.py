"""What can be wrong with a request before anything is loaded or started."""

import math
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunOption, RunRequest, run_options
from cuda_llm.source_file import read_source


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
