"""Where the time of a run went, from its events."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from cuda_llm.traces.events import (
    BaselineJudged,
    ModelCalled,
    RunForked,
    RunResumed,
    RunStarted,
    StageLeft,
)
from cuda_llm.traces.read import Recorded

STAGES = ("model", "compile", "validate", "profile", "baseline")


def time_by_stage(recorded: Sequence[Recorded]) -> dict[str, float]:
    """Sum the wall time of a run by stage, in seconds.

    `total` is what all processes of the run took. `model`, `compile`, `validate`, `profile` and
    `baseline` are summed over candidates and calls, which overlap. `own` is the part of `total` in
    which none of them was at work: agents, the graph, state and trace.
    """
    sessions = list(_sessions(recorded))
    total = sum(end - begin for begin, end in sessions)
    work = [one for one in map(_interval, recorded) if one is not None]
    sums = {
        stage: sum(end - begin for name, begin, end in work if name == stage) for stage in STAGES
    }
    busy = sum(end - begin for begin, end in _merged([one[1:] for one in work], sessions))
    own = max(0.0, total - busy)
    return {name: round(value, 3) for name, value in {"total": total, **sums, "own": own}.items()}


def _interval(recorded: Recorded) -> tuple[str, float, float] | None:
    """Return the stage that ended with this event, its begin and its end in seconds."""
    end = seconds_of(recorded.at)
    match recorded.event:
        case StageLeft(stage=stage, seconds=seconds) if stage in STAGES:
            return stage, end - seconds, end
        case ModelCalled(seconds=seconds):
            return "model", end - seconds, end
        case BaselineJudged(seconds=seconds):
            return "baseline", end - seconds, end
        case _:
            return None


def _sessions(recorded: Sequence[Recorded]) -> Iterator[tuple[float, float]]:
    """Yield begin and end of each process of the run, in seconds."""
    begins = [
        place
        for place, one in enumerate(recorded)
        if isinstance(one.event, (RunStarted, RunResumed, RunForked))
    ]
    for begin, after in pairwise([*begins, len(recorded)]):
        # A clock that was set back meanwhile gives no time, never less than none.
        first = seconds_of(recorded[begin].at)
        yield first, max(first, seconds_of(recorded[after - 1].at))


def _merged(
    intervals: Sequence[tuple[float, float]], within: Sequence[tuple[float, float]]
) -> Iterator[tuple[float, float]]:
    """The intervals without their overlaps, cut to the sessions."""
    for first, last in within:
        reached = first
        for begin, end in sorted(intervals):
            begin, end = max(begin, reached), min(end, last)
            if end > begin:
                yield begin, end
                reached = end


def seconds_of(at: str) -> float:
    """Return an event's time in seconds since the epoch."""
    return datetime.fromisoformat(at).timestamp()
