"""What became of a run, read from its folder: finished, interrupted or under way, and where its
time went.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from cuda_llm.agents.llm.budget import Budget, Spent
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.payback import launches_to_pay
from cuda_llm.graph.runs.result_table import CandidateTable, html_table, make_rows
from cuda_llm.redaction import printable
from cuda_llm.search import Attempt
from cuda_llm.traces.best import SOLUTION
from cuda_llm.traces.event_log import Recorded, read_events
from cuda_llm.traces.event_table import Events
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
    StopCause,
    WinnerRemeasured,
)
from cuda_llm.traces.find import find_run
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import describe_stop, plural, us

SAID = ("task", "device", "hardware", "time_source", "generator", "model", "strategy", "note")
"""Fields that a result has from run.json under the same names."""
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


@dataclass(frozen=True, kw_only=True, repr=False)
class Result:
    """The result of one run, finished or not."""

    run_id: str
    run_dir: Path
    task: str
    device: str
    """Name of the device for a person, as `emulated RTX 3090 Ti`."""
    hardware: str
    time_source: str
    """`modelled` or `measured`."""
    l2: str = ""
    """State of L2 when a measured call began, `cold` or `warm`; empty for modelled times."""
    generator: str
    model: str
    strategy: str
    seed: int
    note: str
    """Notes for the user on the generator and the device."""
    finished: bool
    """Whether the run came to its end. A run that is interrupted or at work is not finished;
    `cuda-llm resume` continues an interrupted run."""
    stopped: StopCause | None = None
    """Cause for which the run stopped before its end; None for a run that did not stop early."""
    reason: str
    """Reason why the run ended, in words."""
    rounds: int
    """Number of rounds that began."""
    attempts: tuple[Attempt, ...]
    """All attempts, by round and index."""
    best: Attempt | None
    """Fastest kernel that passed; None before a candidate has passed: the task's baseline is then
    the answer."""
    source: str
    """Source of `best`; empty without `best`."""
    remeasured: WinnerRemeasured | None
    baseline_us: tuple[float, ...] = ()
    """Time of the task's baseline at each timed size; empty before the baseline was timed."""
    usage: Spent
    seconds: Mapping[str, float]
    """`total`, `model`, `compile`, `validate`, `profile`, `baseline`, `own` (see `time_by_stage`).
    """
    calls: tuple[ModelCalled, ...] = ()
    """All calls to models; each was paid for."""

    def __repr__(self) -> str:
        """Return task, device, the best kernel with its certainty, the number of attempts, and the
        folder."""
        folder = printable(str(self.run_dir))
        return f"<Result {self._headline}: {self._outcome}; {self._tried}\n {folder}>"

    def _repr_html_(self) -> str:
        """Return the same for a notebook, with the fastest candidates; no script."""
        lines = (
            f"<b>{escape(self._headline)}</b><br>{escape(self._outcome)}; {escape(self._tried)}",
            html_table(self.table()),
            f"<code>{escape(printable(str(self.run_dir)))}</code>",
        )
        return f"<div>{'<br>'.join(lines)}</div>"

    @property
    def _headline(self) -> str:
        return printable(f"{self.task} · {self.device} (times are {self.time_source})")

    @property
    def _outcome(self) -> str:
        best = self.best
        if best is None:
            return "no kernel passed, the baseline is the answer" if self.finished else "none yet"
        sure = f" ±{best.spread:.1%}" if best.spread else ""
        time = f", {us(best.times_us[-1])}{sure} at the largest size" if best.times_us else ""
        again = self.remeasured
        once_more = f", {again.speedup:.2f}x when judged again" if again and again.speedup else ""
        factor = f"{best.speedup or 0:.2f}x the baseline over all sizes"
        return printable(f"best {best.id} {factor}{time}{once_more}")

    @property
    def _tried(self) -> str:
        passed = sum(one.passed for one in self.attempts)
        rounds = plural(self.rounds, "round")
        state = "" if self.finished else f", not finished: {self.reason or 'at work, or killed'}"
        tried = f"{passed} of {plural(len(self.attempts), 'candidate')} passed in {rounds}"
        return printable(f"{tried}{state}")

    def table(self) -> CandidateTable:
        """Return a table with a row for each attempt; `print()` shows the table."""
        return make_rows(self.attempts, self.calls, self.best.id if self.best else None)

    def to_dataframe(self, library: Literal["", "pandas", "polars"] = "") -> Any:
        """Return `table()` as a DataFrame of pandas or polars, whichever is installed.

        Raises MissingError where neither is.
        """
        return self.table().to_dataframe(library)

    def events(self) -> Events:
        """Return the events of the run, which are read line by line during iteration."""
        return Events(RunFolder(self.run_dir).events)

    @property
    def speedup(self) -> float | None:
        """Speed-up of `best` over the baseline: weighted geometric mean over the timed sizes."""
        return None if self.best is None else self.best.speedup

    def launches_to_pay(self, place: int | None = None) -> int | None:
        """Return the launches of `best` after which the search has paid (`payback`): over all timed
        sizes, or at the size of that index; None where `best` saves nothing."""
        best_us = self.best.times_us if self.best is not None else ()
        base_us, spent_s = self.baseline_us, self.seconds["total"]
        if place is None:
            return launches_to_pay(spent_s, base_us, best_us)
        if place >= min(len(base_us), len(best_us)):
            return None
        return launches_to_pay(spent_s, base_us[place : place + 1], best_us[place : place + 1])

    @property
    def written_by(self) -> str:
        """Author of `best`: `model`, `playbook` or `human`; empty without `best`."""
        return "" if self.best is None else self.best.written_by

    @property
    def file(self) -> Path | None:
        """Path of the file with `source`, beside the report; None without `best`."""
        return None if self.best is None else self.run_dir / "best" / SOLUTION


def read_run(run: str | Path, out: str | Path | None = None) -> Result:
    """Return a run of this machine: its id, a unique beginning of it, its folder, or `latest`.

    `out` is the folder of runs, `traces/runs` without one. Raises UsageError where there is none.
    """
    return read_result(find_run(str(run), None if out is None else Path(out)))


def read_result(folder: RunFolder) -> Result:
    """Read the result from the run's folder. Raises UsageError where that is no run."""
    run, recorded = folder.read_run(), read_events(folder.events)
    lacking = [name for name in (*SAID, "request") if name not in run]
    if lacking:
        path = folder.path / "run.json"
        raise UsageError(f"{path}: lacks {', '.join(lacking)}; expected what a run writes")
    events = [one.event for one in recorded]
    attempts = judged_attempts(recorded)
    finished = [one for one in events if isinstance(one, RunFinished)]
    chosen = [one.incumbent for one in events if isinstance(one, IncumbentChosen)]
    name = finished[-1].best if finished else next(reversed(chosen), None)
    ends = [one for one in events if isinstance(one, (RunFinished, RunInterrupted))]
    last = next(reversed(ends), None)
    stopped = last if isinstance(last, RunInterrupted) else None
    again = [one for one in events if isinstance(one, WinnerRemeasured)]
    return Result(
        run_id=folder.name,
        run_dir=folder.path,
        **{name: run[name] for name in SAID},
        l2=next((one.l2 for one in events if isinstance(one, RunStarted)), ""),
        seed=run["request"]["seed"],
        finished=bool(finished),
        stopped=stopped.cause if stopped else None,
        reason=describe_stop(stopped) if stopped else last.reason if last else "",
        rounds=max((one.round for one in events if isinstance(one, RoundBegan)), default=0),
        attempts=attempts,
        best=find_best(folder, attempts, name),
        source=folder.source(name) if name else "",
        remeasured=next(reversed(again), None),
        baseline_us=next((one.times_us for one in events if isinstance(one, BaselineJudged)), ()),
        usage=total_spent(events),
        seconds=time_by_stage(recorded),
        calls=tuple(one for one in events if isinstance(one, ModelCalled)),
    )


def find_best(folder: RunFolder, attempts: Sequence[Attempt], name: str | None) -> Attempt | None:
    """Return the attempt of that id; from the attempt's own file where the trace lacks the
    attempt."""
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
