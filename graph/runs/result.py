"""What became of a run, read from its folder: finished, interrupted or under way, and where its
time went.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from cuda_llm.agents.llm.budget import Budget, Spent
from cuda_llm.search import Attempt
from cuda_llm.traces.best import SOLUTION
from cuda_llm.traces.event_log import Recorded, read_events
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    Event,
    IncumbentChosen,
    ModelCalled,
    RoundBegan,
    RunFinished,
    RunForked,
    RunInterrupted,
    RunResumed,
    RunStarted,
    StageLeft,
    WinnerRemeasured,
)
from cuda_llm.traces.run_folder import RunFolder

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
    """Yield the intervals without their overlaps, cut to the sessions."""
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


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run. `source` is the fastest kernel that passed every check."""

    run_id: str
    run_dir: Path
    task: str
    device: str
    """What ran the kernels, as a person reads it."""
    hardware: str
    time_source: str
    """`modelled` or `measured`."""
    l2: str = ""
    """`cold` or `warm`: what L2 held when a measured call began; empty for modelled times."""
    generator: str
    model: str
    strategy: str
    seed: int
    note: str
    """What the user should know of how the run was set up."""
    finished: bool
    """False: it was interrupted, or is at work; `cuda-llm resume` goes on."""
    reason: str
    """Why it ended."""
    rounds: int
    """Rounds that began."""
    attempts: tuple[Attempt, ...]
    """All that were judged, by round and index."""
    best: Attempt | None
    """None while no candidate has passed: then the task's baseline is the answer."""
    source: str
    """Of `best`; empty without one."""
    remeasured: WinnerRemeasured | None
    usage: Spent
    seconds: Mapping[str, float]
    """`total`, `model`, `compile`, `validate`, `profile`, `baseline`, `own` (see `time_by_stage`).
    """

    @property
    def speedup(self) -> float | None:
        """Of `best` over the baseline: weighted geometric mean over the timed sizes."""
        return None if self.best is None else self.best.speedup

    @property
    def written_by(self) -> str:
        """`model`, `playbook` or `human`; empty without a kernel."""
        return "" if self.best is None else self.best.written_by

    @property
    def file(self) -> Path | None:
        """Where `source` lies, beside its report."""
        return None if self.best is None else self.run_dir / "best" / SOLUTION


def read_result(folder: RunFolder) -> Result:
    """Read the result from the run's folder. Raises UsageError where that is no run."""
    run, recorded = folder.read_run(), read_events(folder.events)
    events = [one.event for one in recorded]
    attempts = judged_attempts(recorded)
    finished = [one for one in events if isinstance(one, RunFinished)]
    chosen = [one.incumbent for one in events if isinstance(one, IncumbentChosen)]
    name = finished[-1].best if finished else next(reversed(chosen), None)
    ends = [one.reason for one in events if isinstance(one, (RunFinished, RunInterrupted))]
    again = [one for one in events if isinstance(one, WinnerRemeasured)]
    return Result(
        run_id=folder.name,
        run_dir=folder.path,
        task=run["task"],
        device=run["device"],
        hardware=run["hardware"],
        time_source=run["time_source"],
        l2=next((one.l2 for one in events if isinstance(one, RunStarted)), ""),
        generator=run["generator"],
        model=run["model"],
        strategy=run["strategy"],
        seed=run["request"]["seed"],
        note=run["note"],
        finished=bool(finished),
        reason=next(reversed(ends), ""),
        rounds=max((one.round for one in events if isinstance(one, RoundBegan)), default=0),
        attempts=attempts,
        best=find_best(folder, attempts, name),
        source=folder.source(name) if name else "",
        remeasured=next(reversed(again), None),
        usage=total_spent(events),
        seconds=time_by_stage(recorded),
    )


def find_best(folder: RunFolder, attempts: Sequence[Attempt], name: str | None) -> Attempt | None:
    """Return the attempt of that id; from its own file where the trace has lost it."""
    if name is None:
        return None
    return next((one for one in attempts if one.id == name), None) or folder.attempt(name)


def judged_attempts(recorded: Sequence[Recorded]) -> tuple[Attempt, ...]:
    """Return every attempt once, by round and index; a later record of it replaces an earlier."""
    found = {
        one.event.attempt.id: one.event.attempt
        for one in recorded
        if isinstance(one.event, AttemptJudged)
    }
    return tuple(sorted(found.values(), key=lambda one: (one.round, one.index)))


def total_spent(events: Iterable[Event]) -> Spent:
    """Return what all model calls cost together."""
    budget = Budget()
    budget.restore(events)
    return budget.spent
