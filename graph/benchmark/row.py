"""One task of a benchmark as a row: what its run's folder says, and nothing else."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import Any, Literal

from cuda_llm.agents.llm.budget import Budget, Spent
from cuda_llm.codec import SPARSE
from cuda_llm.graph.benchmark.sweep import Setting, spell_setting
from cuda_llm.graph.measurements import read_last_check
from cuda_llm.graph.runs.payback import launches_to_pay
from cuda_llm.graph.runs.result import Result, read_result, time_by_stage
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Objective, SizeTime, TimeSource
from cuda_llm.search import Kind
from cuda_llm.tasks.sizes import least_time
from cuda_llm.tasks.task import PublishedSpeedup, Task
from cuda_llm.traces.event_log import Recorded, read_events
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    ContestHeld,
    Event,
    IncumbentChosen,
    KernelInspected,
)
from cuda_llm.traces.run_folder import RunFolder

State = Literal["done", "stopped", "failed", "waiting"]
"""`stopped` can go on; `failed` ended with an error that is no kernel's."""

STAGES = ("total", "model", "compile", "validate", "profile", "contest", "baseline", "own")
"""Wall times of a run, in seconds; all but `total` and `own` are summed over work that overlaps."""

ASKED = (Kind.FIRST, Kind.FIX, Kind.IMPROVE, Kind.DEPART)
"""Kinds of candidates that a generator is asked for."""


@dataclass(frozen=True, kw_only=True)
class LibraryTime:
    """A library's own call at one size, timed as kernels are."""

    name: str
    time_us: float


@dataclass(frozen=True, kw_only=True)
class TimedLibraries:
    """The fastest library and a plain copy of as many bytes at each timed size, in order."""

    fastest: tuple[LibraryTime | None, ...] = ()
    copies_us: tuple[float | None, ...] = ()
    note: str = ""
    """Reason why no library was timed; empty where a library was timed."""


NONE_TIMED = TimedLibraries()


@dataclass(frozen=True, kw_only=True)
class SizeRow:
    """One timed size of a task."""

    dims: Mapping[str, int]
    baseline_us: float
    best_us: float | None = None
    """Time of the run's winner when it was judged again at the end; None without a winner."""
    speedup: float | None = None
    """Speed-up of the winner over the baseline; where both were timed in one contest, from that
    contest."""
    least_us: float
    """Attainable time on this GPU: at the bandwidth of a large copy, with one launch."""
    library: LibraryTime | None = None
    """Time of the fastest library for this size; None where no library can be called."""
    copy_us: float | None = None
    """Time of a plain copy of as many bytes as the size has to move; None where no copy was
    timed."""

    @property
    def roofline_share(self) -> float | None:
        """Attainable time over the winner's time: 1 is as fast as the GPU allows. None without a
        winner."""
        return None if not self.best_us else self.least_us / self.best_us

    @property
    def baseline_roofline_share(self) -> float:
        """Attainable time over the baseline's time: 1 is as fast as the GPU allows."""
        return self.least_us / self.baseline_us

    @property
    def over_library(self) -> float | None:
        """Time of the library over time of the winner: above 1 the winner is faster. None without
        either."""
        if self.library is None or not self.best_us:
            return None
        return self.library.time_us / self.best_us


@dataclass(frozen=True, kw_only=True)
class FirstAppeared:
    """Spending of the run when the winner had its first verdict."""

    seconds: float
    """At work, since the run began; pauses between its processes do not count."""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None where the price of a call is unknown."""


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    """The result of one task: its run, its sizes, its tokens, money and time."""

    task: str
    state: State
    error: str = ""
    """Reason why the run stopped or failed; empty for a run that is finished."""
    run: str = ""
    """Folder of the run; empty where no run began."""
    device: str = ""
    time_source: TimeSource | None = None
    """Source of the times. Rows with different sources are never in one mean."""
    objective: Objective = "geomean"
    sizes: tuple[SizeRow, ...] = ()
    speedup: float | None = None
    """Score of the winner over all sizes, as judged again at the end."""
    over_playbook: float | None = None
    """Speed-up over the playbook's speed-up on the same task (`beside`); None where no run of the
    playbook stands beside."""
    best: str = ""
    """Id of the winning candidate."""
    best_round: int = 0
    """Round of the winning candidate, from 1; 0 without a winner and for the user's own kernel."""
    spread: float = 0.0
    """Largest relative half-width of an interval around a time of the winner."""
    written_by: str = ""
    """`model`, `playbook` or `human`; empty where the baseline stays the answer."""
    model: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """Number of candidates by the code of their verdict."""
    asked_as_published: int = 0
    """Candidates of which the answer of the published check is known."""
    passes_theirs_fails_ours: tuple[str, ...] = ()
    """Ids of candidates that the published check accepts and ours refuses."""
    rounds: int = 0
    limiters: tuple[str, ...] = ()
    """Code of what limits the incumbent at the largest timed size, after each round in order; empty
    text where no incumbent or no limiter is known."""
    first_round_evaluations: int = 0
    """Candidates of the first round that a generator was asked for."""
    first_round_passed: int = 0
    """Candidates of the first round that passed every check, of `first_round_evaluations`."""
    evaluations: int = 0
    """Candidates that were judged, repetitions and unusable answers included."""
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = 0.0
    """None where the price of a call is unknown."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the run by stage, as `STAGES` names the stages."""
    first_appeared: FirstAppeared | None = None
    not_inspected: str = ""
    """Reason why the winner was not inspected by sanitizers and at large sizes; empty for an
    inspected winner and for modelled times."""
    libraries_note: str = ""
    """Why no library was timed, where none was."""
    published: tuple[PublishedSpeedup, ...] = ()
    """Figures of others for this task, on other GPUs, over a baseline of their own."""
    setting: Setting = field(default_factory=dict, metadata=SPARSE)
    """Setting of the run in a sweep; empty without a sweep."""

    @property
    def passed(self) -> int:
        """Candidates that passed every check."""
        return self.verdicts.get(Passed.code, 0)

    @property
    def name(self) -> str:
        """The task, in a sweep with the setting."""
        return f"{self.task} ({spell_setting(self.setting)})" if self.setting else self.task

    @property
    def is_timed(self) -> bool:
        """Whether the run is done and its sizes have times, so that the row counts in a mean."""
        return self.state == "done" and bool(self.sizes)

    @property
    def over_library(self) -> float | None:
        """Library's time over the winner's: geometric mean over the sizes that have both; None
        without such a size."""
        return mean_of(one.over_library for one in self.sizes)

    @property
    def roofline_share(self) -> float | None:
        """Attainable time over the winner's time: geometric mean over the sizes; None without a
        winner."""
        return mean_of(one.roofline_share for one in self.sizes)

    def launches_to_pay(self, sizes: Sequence[SizeRow]) -> int | None:
        """Return the launches at these sizes after which the search has paid (`payback`); None
        without a saving."""
        winner_us = [one.best_us for one in sizes if one.best_us]
        base_us = [one.baseline_us for one in sizes]
        return launches_to_pay(self.seconds.get("total", 0.0), base_us, winner_us)


def mean_of(figures: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the figures that are known and above 0; None without one."""
    known = [one for one in figures if one]
    return geometric_mean(known) if known else None


def failed_row(task: str, error: str, state: State = "failed") -> TaskRow:
    """Return the row of a task whose run never began, or cannot be read."""
    return TaskRow(task=task, state=state, error=error)


def read_row(
    folder: RunFolder,
    task: Task,
    hardware: Hardware,
    *,
    error: str = "",
    libraries: TimedLibraries = NONE_TIMED,
) -> TaskRow:
    """Return the row of a run, finished or not.

    Raises UsageError where the folder is no run.
    """
    result, recorded = read_result(folder), read_events(folder.events)
    events = [one.event for one in recorded]
    best, again = result.best, result.remeasured
    judged_again = again is not None and best is not None and again.attempt == best.id
    known = [one for one in result.attempts if one.published_check is not None]
    state: State = "done" if result.finished else "failed" if error else "stopped"
    first = None if best is None else first_appeared(recorded, best.id)
    first_round = [one for one in result.attempts if one.round == 1 and one.kind in ASKED]
    return TaskRow(
        task=task.name,
        state=state,
        error=error or ("" if result.finished else result.reason or "killed"),
        run=str(folder.path),
        device=result.device,
        time_source="measured" if result.time_source == "measured" else "modelled",
        objective=task.objective,
        sizes=tuple(read_sizes(folder, result, events, task, hardware, libraries)),
        speedup=again.speedup if judged_again and again is not None else result.speedup,
        best=best.id if best else "",
        best_round=best.round if best else 0,
        spread=best.spread if best else 0.0,
        written_by=result.written_by,
        model=result.model,
        verdicts=dict(sorted(Counter(one.code for one in result.attempts).items())),
        asked_as_published=len(known),
        passes_theirs_fails_ours=tuple(
            one.id
            for one in known
            if one.published_check and one.published_check.accepts and not one.passed
        ),
        rounds=result.rounds,
        limiters=limiters(result, events),
        first_round_evaluations=len(first_round),
        first_round_passed=sum(one.passed for one in first_round),
        evaluations=len(result.attempts),
        **spent_fields(result.usage),
        seconds={**result.seconds, "contest": contest_seconds(events)},
        first_appeared=first,
        not_inspected=why_not_inspected(events, best.id) if best else "",
        libraries_note=libraries.note,
        published=() if task.published is None else task.published.speedups,
    )


def read_sizes(
    folder: RunFolder,
    result: Result,
    events: Iterable[Event],
    task: Task,
    hardware: Hardware,
    libraries: TimedLibraries,
) -> list[SizeRow]:
    """Return the timed sizes; none where the baseline was not timed yet."""
    base = next((one for one in events if isinstance(one, BaselineJudged)), None)
    if base is None:
        return []
    timed = winner_sizes(folder, result)
    unknown = [None] * len(base.sizes)
    named, copies = [*libraries.fastest, *unknown], [*libraries.copies_us, *unknown]
    rows = []
    for place, (dims, baseline_us) in enumerate(zip(base.sizes, base.times_us, strict=True)):
        own = timed[place] if place < len(timed) else None
        rows.append(
            SizeRow(
                dims=dims,
                baseline_us=(own and own.baseline_us) or baseline_us,
                best_us=own.time_us if own else None,
                speedup=own.speedup if own else None,
                least_us=least_time(task, hardware, dims).attainable_us,
                library=named[place],
                copy_us=copies[place],
            )
        )
    return rows


def winner_sizes(folder: RunFolder, result: Result) -> tuple[SizeTime, ...]:
    """Return the answer's times as judged again, else as judged first; none without an answer."""
    if result.best is None:
        return ()
    again = read_last_check(folder, folder.source(result.best.id))
    for verdict in (again, folder.kept_verdict(result.best.id)):
        if isinstance(verdict, Passed) and verdict.profile is not None:
            return verdict.profile.sizes
    return ()


def limiters(result: Result, events: Iterable[Event]) -> tuple[str, ...]:
    """Return what limits the incumbent after each round, in order."""
    known = {one.id: one.limited_by for one in result.attempts}
    chosen = {one.round: one.incumbent for one in events if isinstance(one, IncumbentChosen)}
    return tuple(known.get(name or "", "") for _, name in sorted(chosen.items()))


def first_appeared(recorded: Sequence[Recorded], name: str) -> FirstAppeared | None:
    """Return what had been spent when the candidate's first verdict landed."""
    for place, one in enumerate(recorded):
        if isinstance(one.event, AttemptJudged) and one.event.attempt.id == name:
            before = recorded[: place + 1]
            budget = Budget()
            budget.restore(event.event for event in before)
            spent = spent_fields(budget.spent)
            return FirstAppeared(seconds=time_by_stage(before)["total"], **spent)
    return None


def why_not_inspected(events: Iterable[Event], name: str) -> str:
    """Return the reason why the last inspection of a candidate failed; empty where it succeeded."""
    found = [one for one in events if isinstance(one, KernelInspected) and one.attempt == name]
    return found[-1].not_inspected if found else ""


def contest_seconds(events: Iterable[Event]) -> float:
    """Sum the wall time of contests; every contender of a contest has the contest's wall time."""
    held = {
        (one.round, one.incumbent, one.seconds) for one in events if isinstance(one, ContestHeld)
    }
    return round(sum(seconds for _, _, seconds in held), 3)


def spent_fields(spent: Spent) -> dict[str, Any]:
    """Return calls, tokens and money as the fields that rows have."""
    return {
        "model_calls": spent.model_calls,
        "input_tokens": spent.input_tokens,
        "output_tokens": spent.output_tokens,
        "usd": None if spent.unpriced_calls else spent.usd,
    }
