"""One event as a line of the log, and what makes two lines the same event's."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.search import Attempt, Brief, Hint
from cuda_llm.traces.events import VERSION, Event

FIELDS_BY_ID: Mapping[str, type[Attempt | Brief | Hint]] = {
    "attempt_judged.attempt": Attempt,
    "attempt_repeated.attempt": Attempt,
    "hint_given.hint": Hint,
    "round_began.briefs": Brief,
}
"""By `kind.field`: what a line holds by its id. `briefs` is a list of them."""

RECORDED_ONCE: Mapping[str, tuple[str, ...]] = {
    "run_started": (),
    "baseline_judged": (),
    "agent_decided": ("agent", "round", "decisions", "note"),
    "agent_failed": ("agent", "round", "error"),
    "generator_failed": ("candidate",),
    "round_began": ("round",),
    "stage_entered": ("candidate", "stage"),
    "stage_left": ("candidate", "stage"),
    "candidate_late": ("candidate", "stage"),
    "attempt_judged": ("attempt",),
    "attempt_repeated": ("attempt",),
    "tuner_searched": ("round", "parent"),
    "hint_given": ("channel", "hint"),
    "hints_tried": ("candidate",),
    "round_reviewed": ("round",),
    "contest_held": ("round", "number", "contender"),
    "kernel_inspected": ("round", "attempt"),
    "incumbent_chosen": ("round",),
    "routed": ("round",),
    "winner_remeasured": ("attempt",),
    "run_finished": (),
}
"""By kind: the fields that say which event it is. A step that a kill cut off is done again, and
records none of them twice. Of other kinds each record is an event of its own."""


def identity_of(event: Event) -> str | None:
    """Return what an event is known by; None where each is an event of its own."""
    if event.kind not in RECORDED_ONCE:
        return None
    fields = fields_of(event)
    return json.dumps([event.kind, *(fields[name] for name in RECORDED_ONCE[event.kind])])


def fields_of(event: Event) -> dict[str, Any]:
    """Return the fields of an event as its line holds them, some values by id."""
    fields: dict[str, Any] = {}
    for name, value in vars(event).items():
        if f"{event.kind}.{name}" not in FIELDS_BY_ID:
            fields[name] = encode(value)
        else:
            fields[name] = [one.id for one in value] if isinstance(value, tuple) else value.id
    return fields


def to_line(event: Event, seq: int, at: str) -> bytes:
    """Return one line of the file. What it names by id must lie in the run's folder already."""
    fields = {"v": VERSION, "seq": seq, "at": at, "kind": event.kind, **fields_of(event)}
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Half of a surrogate pair, as a model may send, is no text that anybody could read back.
    return text.encode(errors="replace") + b"\n"


def now() -> str:
    """Return the UTC time to the millisecond, `2026-01-31T10:00:00.123Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
