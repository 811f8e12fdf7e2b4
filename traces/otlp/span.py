"""A span of a run as a value, and its ids.

Ids follow from the run and from what a span is about: a run that is sent twice, or was resumed by
another process, gives the same spans.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime

from cuda_llm.traces.otlp.attributes import Attributes
from cuda_llm.traces.run_folder import RunFolder

RUN = "run"
"""Key of the outermost span."""


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened at one time, within a span."""

    name: str
    at_ns: int
    attributes: Attributes


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that took time. `key` names it within the run: `candidate/r1-c2`."""

    key: str
    name: str
    parent: str | None
    """Key of the span above it; None for the run."""
    start_ns: int
    """Since the epoch."""
    end_ns: int
    attributes: Attributes
    error: str | None = None
    """What went wrong, in a line; None where nothing did."""
    is_client: bool = False
    """It waited for somebody else's server."""
    links: tuple[str, ...] = ()
    """Keys of spans that it builds upon."""
    moments: tuple[Moment, ...] = ()


@dataclass(kw_only=True)
class AgentWork:
    """What one agent did in one round."""

    start_ns: int
    end_ns: int
    decisions: list[str] = field(default_factory=list)
    error: str | None = None


def trace_id(folder: RunFolder, began_at: str) -> int:
    """Return the 128-bit id of a run that began then."""
    return _number(f"{folder.name} {began_at}", 16)


def span_id(trace: int, key: str) -> int:
    """Return the 64-bit id of a span of that trace."""
    return _number(f"{trace:032x} {key}", 8)


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:size]) or 1


def nanoseconds(at: str) -> int:
    """Return an event's time in nanoseconds since the epoch."""
    time = datetime.fromisoformat(at)
    since = (time if time.tzinfo else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
