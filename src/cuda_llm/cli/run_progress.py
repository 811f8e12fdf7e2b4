"""Progress of a run on stderr: live on a terminal, otherwise a plain line an event that matters."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from cuda_llm.figure_wording import describe_attempt_speed, describe_largest
from cuda_llm.outcomes import Passed
from cuda_llm.redaction import printable
from cuda_llm.search import Attempt
from cuda_llm.traces.ending_text import describe_check
from cuda_llm.traces.events import (
    AgentFailed,
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    IncumbentChosen,
    KernelInspected,
    ModelCalled,
    ModelRetried,
    RoundBegan,
    Routed,
    RunFinished,
    RunInterrupted,
    RunStarted,
    StageEntered,
    StageLeft,
    TunerSearched,
    WinnerRemeasured,
)
from cuda_llm.traces.run_text import describe_duel
from cuda_llm.traces.text import (
    describe_end,
    describe_stop,
    describe_time_source,
    duration,
    inspection_lines,
    plural,
    tokens,
    us,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

LAST_CHECK = "judging the winner once more"
RUN_STAGES = {
    "generate": "generating",
    "compile": "compiling",
    "validate": "validating",
    "profile": "profiling",
}

FRAMES_PER_S = 4
KEPT = (
    AttemptJudged,
    AttemptRepeated,
    IncumbentChosen,
    AgentFailed,
    ModelRetried,
    WinnerRemeasured,
)
"""Events whose lines stay above the board."""


@dataclass
class RunStatus:
    """The state of a run, kept up by calling it with each event."""

    rounds: int = 0
    round: int = 0
    doing: str = "starting"
    """What the run does while no candidate is at work."""
    rows: dict[str, str] = field(default_factory=dict)
    """This round's candidates and where each of them is."""
    attempts: dict[str, Attempt] = field(default_factory=dict)
    incumbent: str | None = None
    """As chosen last."""
    landed: set[str] = field(default_factory=set)
    """Judged since then."""
    tokens: int = 0
    usd: float | None = 0.0
    """None as soon as one price is unknown."""
    calls: int = 0
    started_s: float = field(default_factory=time.monotonic)

    def __call__(self, event: Event) -> None:
        """Update the state by one event."""
        match event:
            case RunStarted(rounds=rounds):
                self.rounds = rounds
                self.doing = "timing the baseline"
            case BaselineJudged():
                self.doing = "writing briefs"
            case RoundBegan(round=number, briefs=briefs):
                self.round, self.doing = number, ""
                self.rows = {brief.id: "waiting" for brief in briefs}
            case StageEntered(candidate=name, stage=stage):
                self.rows[name] = RUN_STAGES.get(stage, stage)
            case StageLeft(candidate=name, outcome=outcome) if outcome not in {"ok", Passed.code}:
                self.rows[name] = outcome
            case CandidateLate(candidate=name):
                self.rows[name] = "cut off: the minutes are over"
            case AttemptJudged(attempt=attempt) | AttemptRepeated(attempt=attempt):
                self.attempts[attempt.id] = attempt
                self.rows[attempt.id] = outcome_text(attempt)
                self.landed.add(attempt.id)
            case ContestHeld(contender=name, incumbent=before):
                self.rows[name] = f"timed beside {before}"
            case IncumbentChosen(incumbent=incumbent):
                self.choose(incumbent or self.incumbent)
                self.doing = "reflecting"
            case Routed(to=to):
                self.doing = "writing briefs" if to == "strategy" else LAST_CHECK
            case ModelCalled():
                self.count(event)
            case WinnerRemeasured(attempt=name) if not event.stands:
                self.attempts.pop(name, None)
            case RunFinished(best=best):
                self.choose(best)
            case _:
                pass

    def choose(self, incumbent: str | None) -> None:
        """Take the choice of a round, or the result."""
        self.incumbent = incumbent
        self.landed.clear()

    @property
    def best(self) -> Attempt | None:
        """The kernel to beat, or what has landed since and is faster where it was judged."""
        known = [self.attempts.get(name) for name in (self.incumbent or "", *sorted(self.landed))]
        passed = [one for one in known if one is not None and one.passed]
        return max(passed, key=lambda one: one.speedup or 0.0, default=None)

    def count(self, event: ModelCalled) -> None:
        """Add what one call cost."""
        self.calls += 1
        self.tokens += event.input_tokens + event.output_tokens
        unknown = self.usd is None or (event.usd is None and event.outcome == "ok")
        self.usd = None if unknown else (self.usd or 0.0) + (event.usd or 0.0)

    @property
    def headline(self) -> str:
        """Round, best so far and spend, in one line."""
        where = f"round {self.round}/{self.rounds}" if self.round else ""
        doing = ", ".join(filter(None, (where, self.doing)))
        return f"{doing}  {best_line(self.best)}  spent {self.spent}"

    @property
    def spent(self) -> str:
        """Tokens and money where a model was asked, and time."""
        parts = []
        if self.calls:
            money = "price unknown" if self.usd is None else f"${self.usd:.2f}"
            parts += [f"{tokens(self.tokens)} tokens", money]
        return ", ".join([*parts, duration(time.monotonic() - self.started_s)])


def best_line(attempt: Attempt | None) -> str:
    """Describe the fastest kernel so far beside the baseline."""
    if attempt is None or not attempt.times_us:
        return "no kernel has passed yet"
    return f"best {outcome_text(attempt)} ({attempt.id})"


def outcome_text(attempt: Attempt) -> str:
    """Describe a candidate's outcome in a few words."""
    if not attempt.passed:
        return attempt.code
    return f"{describe_attempt_speed(attempt)}, {time_text(attempt)}"


def time_text(attempt: Attempt) -> str:
    """Return `5.72 us at the largest`, the time at that size."""
    return describe_largest(us(attempt.times_us[-1]), len(attempt.times_us))


def attempt_line(attempt: Attempt) -> str:
    """Describe a candidate in one line of a log."""
    what = attempt.idea or attempt.direction or str(attempt.kind)
    why = "" if attempt.passed or not attempt.summary else f": {attempt.summary}"
    return printable(f"{attempt.id}  {outcome_text(attempt)}{why}  ({what})")


class PlainRunProgress:
    """Prints a line for each event that matters."""

    def __init__(self, earlier: Sequence[Event] = (), spent_s: float = 0.0) -> None:
        self.status = status_after(earlier, spent_s)

    def report(self, line: str) -> None:
        """Print what is being prepared."""
        print(printable(line), file=sys.stderr, flush=True)

    def __call__(self, event: Event) -> None:
        """Print it."""
        self.status(event)
        for line in event_lines(event, self.status):
            print(printable(line), file=sys.stderr, flush=True)


class LiveRunProgress:
    """Redraws the state of the run in place; verdicts and decisions stay above it."""

    def __init__(
        self,
        earlier: Sequence[Event] = (),
        spent_s: float = 0.0,
        console: "Console | None" = None,
    ) -> None:
        """Draw on `console`; on stderr without one."""
        from rich.console import Console
        from rich.live import Live as Screen

        self.status = status_after(earlier, spent_s)
        self.screen = Screen(
            self,
            console=console or Console(stderr=True),
            refresh_per_second=FRAMES_PER_S,
            transient=True,
        )

    def __call__(self, event: Event) -> None:
        """Update the state; the screen redraws itself."""
        self.status(event)
        if isinstance(event, KEPT):
            for line in event_lines(event, self.status):
                self.screen.console.print(printable(line), markup=False, highlight=False)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to another; the time is not counted."""
        began = time.monotonic()
        self.screen.stop()
        try:
            yield
        finally:
            self.screen.start(refresh=True)
            self.status.started_s += time.monotonic() - began

    def report(self, line: str) -> None:
        """Show what is being prepared, until the run begins."""
        self.status.doing = line

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield the headline, and the candidates side by side as far as there is room."""
        from rich.columns import Columns
        from rich.text import Text

        yield Text(printable(self.status.headline), no_wrap=True, overflow="ellipsis")
        # A copy: events may come while it is drawn.
        cells = [Text(printable(f"{name}  {row}")) for name, row in [*self.status.rows.items()]]
        yield Columns(cells, padding=(0, 3))


def event_lines(event: Event, status: RunStatus) -> Iterator[str]:
    """Yield the lines of a log for an event."""
    match event:
        case RunStarted(run_id=run, note=note, device=device, time_source=source, l2=l2):
            yield f"run {run}"
            yield f"{describe_time_source(source, l2)} on {device}"
            if note:
                yield note
        case RoundBegan(round=number, briefs=briefs):
            made = plural(len(briefs), "candidate") if briefs else "the tuner searches"
            yield f"round {number}/{status.rounds}: {made}"
        case AttemptJudged(attempt=attempt) | AttemptRepeated(attempt=attempt):
            yield attempt_line(attempt)
        case CandidateLate(candidate=name, stage=stage):
            yield f"{name}  cut off at {stage}: the minutes are over"
        case ModelRetried(call=call, reason=reason, wait_s=wait_s):
            yield f"{call}: {reason}; asking again in {wait_s:.0f} s"
        case AgentFailed(agent=agent, error=error):
            yield f"agent {agent} failed and is left out: {error}"
        case ContestHeld(contender=name, incumbent=before):
            yield f"{name} against {before}, timed in turn: {describe_duel(event)}"
        case KernelInspected(attempt=name, code=code, not_inspected=missed):
            yield from inspection_lines(name, code, missed)
        case TunerSearched(round=number, parent=parent, reason=reason):
            yield f"round {number}/{status.rounds}: of {parent}, {reason}"
        case IncumbentChosen(round=number, reason=reason):
            best = best_line(status.best)
            state = f"{best}; {reason}" if status.best else reason or best
            yield f"round {number}/{status.rounds}: {state}"
        case WinnerRemeasured(attempt=name) if not event.stands:
            yield f"{name} fails its last check: {describe_check(event)}"
        case RunInterrupted():
            yield f"stopped: {describe_stop(event)}"
        case RunFinished(reason=reason):
            yield f"finished: {describe_end(reason)}"
        case _:
            pass


def status_after(events: Sequence[Event], spent_s: float = 0.0) -> RunStatus:
    """Return the state of a run after these events, at which it was `spent_s` at work."""
    status = RunStatus(started_s=time.monotonic() - spent_s)
    for event in events:
        status(event)
    return status


RunProgress: TypeAlias = PlainRunProgress | LiveRunProgress
"""Shows a run: an observer, whose `report` takes what is done before the first event."""


@contextmanager
def open_run_progress(earlier: Sequence[Event] = (), spent_s: float = 0.0) -> Iterator[RunProgress]:
    """Show a run while the context is open; `earlier` are the events before it was resumed."""
    if not sys.stderr.isatty():
        yield PlainRunProgress(earlier, spent_s)
        return
    live = LiveRunProgress(earlier, spent_s)
    with live.screen:
        yield live
