"""What a run decided, event by event, in a form in which a replay can be compared with it."""

from collections import defaultdict
from dataclasses import fields, is_dataclass
from typing import Any

from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import (
    AttemptJudged,
    CandidateLate,
    Event,
    ModelCalled,
    ModelRetried,
    RunInterrupted,
    RunResumed,
    StageEntered,
    StageLeft,
)
from cuda_llm.traces.run_folder import RunFolder

NOT_COMPARED = {"run_id", "seconds", "wait_s", "replayed"}
"""Ids, durations, and what is said of the replay itself."""


NOT_REPEATED = (ModelRetried, RunInterrupted, RunResumed)
"""Retries of calls and stops, which no replay repeats; trial calls are skipped by their name."""


def decisions(run: RunFolder) -> dict[str, Any]:
    """Every event: of each candidate and each call in order, all others in order beside them.

    Candidates of a round overlap, so that nothing is said of who comes before whom.
    """
    found: dict[str, list[Any]] = defaultdict(list)
    for recorded in read_events(run.events):
        event = recorded.event
        is_trial = isinstance(event, ModelCalled) and event.call == "preflight"
        if not is_trial and not isinstance(event, NOT_REPEATED):
            found[place_of(event)].append(plain(event))
    return dict(found)


def place_of(event: Event) -> str:
    """Whose event it is."""
    match event:
        case (
            StageEntered(candidate=name) | StageLeft(candidate=name) | CandidateLate(candidate=name)
        ):
            return f"candidate {name}"
        case AttemptJudged(attempt=attempt):
            return f"attempt {attempt.id}"
        case ModelCalled(call=call):
            return f"call {call}"
        case _:
            return "the run"


def plain(value: Any) -> Any:
    """The value without what is not compared, at any depth."""
    if is_dataclass(value) and not isinstance(value, type):
        kept = (one.name for one in fields(value) if one.name not in NOT_COMPARED)
        return (type(value).__name__, {name: plain(getattr(value, name)) for name in kept})
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value
