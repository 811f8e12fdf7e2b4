"""What can be wrong with a request before anything is loaded or started."""

import math
from pathlib import Path
from urllib.parse import urlsplit

from cuda_llm.errors import UsageError
from cuda_llm.graph.request import MOST_CANDIDATES, MOST_ROUNDS, RunRequest
from cuda_llm.source_file import read_source


def check_request(request: RunRequest) -> None:
    """Raises UsageError naming the option, what it was and what it may be."""
    _within("--candidates", request.candidates, 1, MOST_CANDIDATES)
    _within("--rounds", request.rounds, 1, MOST_ROUNDS)
    _within("--seed", request.seed, 0, 2**32 - 1)
    _within("--patience", request.patience, 1, MOST_ROUNDS)
    _within("--round-quorum", request.round_quorum, 0, request.candidates)
    _within("--tune", request.tune, 0, MOST_CANDIDATES)
    _above_zero("--budget-usd", request.budget_usd)
    _above_zero("--max-tokens", request.max_tokens)
    _above_zero("--max-minutes", request.max_minutes)
    if request.hardware_context not in {"full", "name", "none"}:
        msg = f"--hardware-context {request.hardware_context}: expected full, name or none"
        raise UsageError(msg)
    if any(not hint.strip() for hint in request.hints):
        raise UsageError("--hint is empty; expected a sentence for the generator")
    if request.start:
        read_source(Path(request.start).expanduser())
    if request.base_url:
        _check_url(request.base_url)


def _within(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UsageError(f"{option} {value}: expected a whole number from {least} to {most:,}")


def _above_zero(option: str, value: float | None) -> None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{option} {value:g}: expected a number above 0")


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"--base-url {url}: expected an address as in http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        # The address is kept in run.json.
        held = "a query" if parts.query else "a password"
        raise UsageError(f"--base-url holds {held}; put the key into OPENAI_API_KEY instead")
