"""The events of a run put in order, by round.

Model calls count each time, because each was paid for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cuda_llm.search import Attempt, Brief, Hint
from cuda_llm.traces.event_log import Trace, read_trace
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    GeneratorFailed,
    HintGiven,
    HintsTried,
    IncumbentChosen,
    KernelInspected,
    ModelCalled,
    ModelRetried,
    RoundBegan,
    RoundReviewed,
    Routed,
    RunFinished,
    RunForked,
    RunInterrupted,
    RunResumed,
    RunStarted,
    StageEntered,
    StageLeft,
    TunerSearched,
    WinnerRemeasured,
)
from cuda_llm.traces.run_folder import RunFolder


@dataclass(kw_only=True)
class RoundHistory:
    """One round, or what came before the first."""

    round: int
    before: str | None = None
    """The kernel to beat."""
    briefs: dict[str, Brief] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Judged in this round, by id, in the order of round and index."""
    late: dict[str, str] = field(default_factory=dict)
    """Stage at which the minutes of the run cut a candidate off, by its id."""
    decided: dict[AgentDecided, None] = field(default_factory=dict)
    failed: dict[AgentFailed, None] = field(default_factory=dict)
    calls: list[ModelCalled] = field(default_factory=list)
    retries: list[ModelRetried] = field(default_factory=list)
    tuned: dict[str, TunerSearched] = field(default_factory=dict)
    """By parent."""
    hints: dict[tuple[str, Hint], None] = field(default_factory=dict)
    """Channel and hint, in the order recorded."""
    duels: dict[str, ContestHeld] = field(default_factory=dict)
    """By contender."""
    inspected: dict[str, KernelInspected] = field(default_factory=dict)
    """By attempt."""
    choice: IncumbentChosen | None = None
    broken: dict[str, GeneratorFailed] = field(default_factory=dict)
    """By candidate: the generator raised."""
    tried: dict[str, HintsTried] = field(default_factory=dict)
    """By candidate: what its hints promised, and what came of them."""
    reviews: dict[int, RoundReviewed] = field(default_factory=dict)
    """By the round that follows."""
    route: Routed | None = None
    """Where the run went behind this round."""


@dataclass(kw_only=True)
class RunHistory:
    """A whole run, as far as it has got."""

    started: RunStarted | None = None
    forked: RunForked | None = None
    began_at: str = ""
    ended_at: str = ""
    """Of the last event."""
    baseline: BaselineJudged | None = None
    rounds: dict[int, RoundHistory] = field(default_factory=dict)
    """By round; 0 for what came before the first."""
    stages: dict[str, str] = field(default_factory=dict)
    """The stage each candidate is in; empty between two."""
    resumed: int = 0
    """How often the run went on after it had stopped."""
    rechecked: dict[str, WinnerRemeasured] = field(default_factory=dict)
    """By attempt: the last check of a winner, and of those that failed it before."""
    finished: RunFinished | None = None
    interrupted: RunInterrupted | None = None
    """Why it stopped, where it was not resumed since."""

    @property
    def attempts(self) -> dict[str, Attempt]:
        """All that were judged, by id."""
        return {
            name: attempt
            for round_ in self.rounds.values()
            for name, attempt in round_.attempts.items()
        }

    @property
    def calls(self) -> list[ModelCalled]:
        """All calls to models."""
        return [call for round_ in self.rounds.values() for call in round_.calls]

    @property
    def remeasured(self) -> WinnerRemeasured | None:
        """The last check made."""
        return next(reversed(self.rechecked.values()), None)

    @property
    def generator(self) -> str:
        """Name of who writes."""
        return self.started.generator if self.started else ""

    @property
    def incumbent(self) -> str | None:
        """The best kernel so far, or the result."""
        if self.finished is not None:
            return self.finished.best
        choices = [one.choice for one in self.rounds.values() if one.choice is not None]
        return choices[-1].incumbent if choices else None


def history_of(recorded: Iterable[tuple[str, Event]]) -> RunHistory:
    """Return the history of events, each with the time it was recorded at."""
    history, at_work = RunHistory(), 0
    for at, event in recorded:
        history.began_at = history.began_at or at
        history.ended_at = at
        if isinstance(event, RoundBegan):
            at_work = event.round
        _add(history, history.rounds.setdefault(at_work, RoundHistory(round=at_work)), event)
    for round_ in history.rounds.values():
        order = sorted(round_.attempts.values(), key=lambda one: (one.round, one.index))
        round_.attempts = {one.id: one for one in order}
    return history


def _add(history: RunHistory, round_: RoundHistory, event: Event) -> None:
    match event:
        case RunStarted():
            history.started = event
        case RunForked():
            history.forked = event
        case RunResumed():
            history.resumed += 1
            history.interrupted = history.finished = None
        case BaselineJudged():
            history.baseline = event
        case RoundBegan(incumbent=incumbent, briefs=briefs):
            round_.before = incumbent
            round_.briefs.update({brief.id: brief for brief in briefs})
        case AgentDecided():
            round_.decided[event] = None
        case AgentFailed():
            round_.failed[event] = None
        case ModelCalled():
            round_.calls.append(event)
        case ModelRetried():
            round_.retries.append(event)
        case StageEntered(candidate=candidate, stage=stage):
            history.stages[candidate] = stage
        case StageLeft(candidate=candidate):
            history.stages[candidate] = ""
        case CandidateLate(candidate=candidate, stage=stage):
            round_.late[candidate] = stage
        case AttemptJudged(attempt=attempt) | AttemptRepeated(attempt=attempt):
            round_.attempts[attempt.id] = attempt
        case GeneratorFailed(candidate=name):
            round_.broken[name] = event
        case HintsTried(candidate=name):
            round_.tried[name] = event
        case RoundReviewed(round=number):
            round_.reviews[number] = event
        case Routed():
            round_.route = event
        case TunerSearched(parent=parent):
            round_.tuned[parent] = event
        case HintGiven(channel=channel, hint=hint):
            round_.hints[channel, hint] = None
        case ContestHeld(contender=contender):
            round_.duels[contender] = event
        case KernelInspected(attempt=name):
            round_.inspected[name] = event
        case IncumbentChosen():
            round_.choice = event
        case WinnerRemeasured(attempt=name):
            history.rechecked[name] = event
        case RunFinished():
            history.finished = event
        case RunInterrupted():
            history.interrupted = event


def read_history(run: RunFolder) -> tuple[RunHistory, Trace]:
    """Return the history of a run; an empty one where nothing has happened yet."""
    trace = read_trace(run.events) if run.events.exists() else Trace()
    return history_of((one.at, one.event) for one in trace.events), trace
