"""The events of a run put in order: what concerns the run, and what concerns each round.

A killed and resumed run records some things twice. What has an id counts once, the last time it was
recorded; model calls count each time, because each was paid for.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cuda_llm.search import Attempt, Brief, Hint
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    AttemptJudged,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    HintGiven,
    IncumbentChosen,
    KernelInspected,
    ModelCalled,
    ModelRetried,
    RoundBegan,
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


@dataclass(kw_only=True)
class Chapter:
    """One round, or what came before the first."""

    round: int
    before: str | None = None
    """The kernel to beat."""
    briefs: dict[str, Brief] = field(default_factory=dict)
    joined: tuple[str, ...] = ()
    """Attempts of earlier rounds that were still at work."""
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Judged in this round, by id, in the order recorded."""
    late: dict[str, str] = field(default_factory=dict)
    """Stage at which the round went on without a candidate, by its id."""
    decided: dict[AgentDecided, None] = field(default_factory=dict)
    failed: dict[AgentFailed, None] = field(default_factory=dict)
    calls: list[ModelCalled] = field(default_factory=list)
    retries: list[ModelRetried] = field(default_factory=list)
    tuned: dict[str, TunerSearched] = field(default_factory=dict)
    """By parent."""
    hints: dict[tuple[str, Hint], None] = field(default_factory=dict)
    """Channel and hint, in the order recorded."""
    contests: dict[str, ContestHeld] = field(default_factory=dict)
    """By contender."""
    inspected: dict[str, KernelInspected] = field(default_factory=dict)
    """By attempt."""
    choice: IncumbentChosen | None = None


@dataclass(kw_only=True)
class Story:
    """A whole run, as far as it has got."""

    started: RunStarted | None = None
    forked: RunForked | None = None
    began_at: str = ""
    ended_at: str = ""
    """Of the last event."""
    baseline: BaselineJudged | None = None
    chapters: dict[int, Chapter] = field(default_factory=dict)
    """By round; 0 for what came before the first."""
    stages: dict[str, str] = field(default_factory=dict)
    """The stage each candidate is in; empty between two."""
    resumed: int = 0
    """How often the run went on after it had stopped."""
    remeasured: WinnerRemeasured | None = None
    finished: RunFinished | None = None
    interrupted: RunInterrupted | None = None
    """Why it stopped, where it was not resumed since."""

    @property
    def attempts(self) -> dict[str, Attempt]:
        """All that were judged, by id."""
        return {
            name: attempt
            for chapter in self.chapters.values()
            for name, attempt in chapter.attempts.items()
        }

    @property
    def calls(self) -> list[ModelCalled]:
        """All calls to models."""
        return [call for chapter in self.chapters.values() for call in chapter.calls]

    @property
    def generator(self) -> str:
        """Name of who writes."""
        return self.started.generator if self.started else ""

    @property
    def incumbent(self) -> str | None:
        """The best kernel so far, or the result."""
        if self.finished is not None:
            return self.finished.best
        choices = [one.choice for one in self.chapters.values() if one.choice is not None]
        return choices[-1].incumbent if choices else None


def gather(recorded: Iterable[tuple[str, Event]]) -> Story:
    """The story of events, each with the time it was recorded at."""
    story, at_work = Story(), 0
    for at, event in recorded:
        story.began_at = story.began_at or at
        story.ended_at = at
        if isinstance(event, RoundBegan):
            at_work = event.round
        _add(story, story.chapters.setdefault(at_work, Chapter(round=at_work)), event)
    return story


def _add(story: Story, chapter: Chapter, event: Event) -> None:
    match event:
        case RunStarted():
            story.started = event
        case RunForked():
            story.forked = event
        case RunResumed():
            story.resumed += 1
            story.interrupted = story.finished = None
        case BaselineJudged():
            story.baseline = event
        case RoundBegan(incumbent=incumbent, briefs=briefs, late=late):
            chapter.before, chapter.joined = incumbent, late
            chapter.briefs.update({brief.id: brief for brief in briefs})
        case AgentDecided():
            chapter.decided[event] = None
        case AgentFailed():
            chapter.failed[event] = None
        case ModelCalled():
            chapter.calls.append(event)
        case ModelRetried():
            chapter.retries.append(event)
        case StageEntered(candidate=candidate, stage=stage):
            story.stages[candidate] = stage
        case StageLeft(candidate=candidate):
            story.stages[candidate] = ""
        case CandidateLate(candidate=candidate, stage=stage):
            chapter.late[candidate] = stage
        case AttemptJudged(attempt=attempt):
            chapter.attempts[attempt.id] = attempt
        case TunerSearched(parent=parent):
            chapter.tuned[parent] = event
        case HintGiven(channel=channel, hint=hint):
            chapter.hints[channel, hint] = None
        case ContestHeld(contender=contender):
            chapter.contests[contender] = event
        case KernelInspected(attempt=name):
            chapter.inspected[name] = event
        case IncumbentChosen():
            chapter.choice = event
        case WinnerRemeasured():
            story.remeasured = event
        case RunFinished():
            story.finished = event
        case RunInterrupted():
            story.interrupted = event
