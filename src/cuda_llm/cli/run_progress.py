"""Progress of a run on stderr: live on a terminal, one plain line an event that matters else."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cuda_llm.cli.run_board import Board, best, told
from cuda_llm.traces.chapter_text import say
from cuda_llm.traces.events import (
    AgentFailed,
    AttemptJudged,
    CandidateLate,
    ContestHeld,
    Event,
    IncumbentChosen,
    KernelInspected,
    ModelRetried,
    RoundBegan,
    RunFinished,
    RunInterrupted,
    RunStarted,
)
from cuda_llm.traces.figures import plural, say_end, say_times_of
from cuda_llm.wording import printable

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from cuda_llm.traces.recorder import Observer

FRAMES_PER_S = 4


class Plain:
    """Prints a line for each event that matters."""

    def __init__(self, earlier: Sequence[Event] = ()) -> None:
        self.status = board_after(earlier)

    def __call__(self, event: Event) -> None:
        """Print it."""
        self.status(event)
        for line in lines(event, self.status):
            print(printable(line), file=sys.stderr, flush=True)


class Live:
    """Redraws the state of the run in place; important lines stay above it."""

    def __init__(self, earlier: Sequence[Event] = ()) -> None:
        from rich.console import Console
        from rich.live import Live as Screen

        self.status = board_after(earlier)
        self.screen = Screen(
            self, console=Console(stderr=True), refresh_per_second=FRAMES_PER_S, transient=True
        )

    def __call__(self, event: Event) -> None:
        """Update the state; the screen redraws itself."""
        self.status(event)
        if isinstance(event, (IncumbentChosen, AgentFailed, ModelRetried)):
            for line in lines(event, self.status):
                self.screen.console.print(printable(line), markup=False, highlight=False)

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """The headline, and the candidates side by side as far as there is room."""
        from rich.columns import Columns
        from rich.text import Text

        yield Text(printable(self.status.headline), no_wrap=True, overflow="ellipsis")
        # A copy: events may come while it is drawn.
        cells = [Text(printable(f"{name}  {row}")) for name, row in [*self.status.rows.items()]]
        yield Columns(cells, padding=(0, 3))


def lines(event: Event, status: Board) -> Iterator[str]:
    """Yield the lines of a log for an event."""
    match event:
        case RunStarted(run_id=run, note=note, device=device, time_source=source, l2=l2):
            yield f"run {run}"
            yield f"{say_times_of(source, l2)} on {device}"
            if note:
                yield note
        case RoundBegan(round=number, briefs=briefs):
            yield f"round {number}/{status.rounds}: {plural(len(briefs), 'candidate')}"
        case AttemptJudged(attempt=attempt):
            yield told(attempt)
        case CandidateLate(candidate=name, stage=stage):
            yield f"{name}  is late ({stage}) and joins the next round"
        case ModelRetried(call=call, reason=reason, wait_s=wait_s):
            yield f"{call}: {reason}; asking again in {wait_s:.0f} s"
        case AgentFailed(agent=agent, error=error):
            yield f"agent {agent} failed and is left out: {error}"
        case ContestHeld(contender=name, incumbent=before):
            yield f"{name} against {before}, timed in turn: {say(event)}"
        case KernelInspected(attempt=name, code=code) if code:
            yield f"{name} is not crowned: {code}"
        case IncumbentChosen(round=number, reason=reason):
            yield f"round {number}/{status.rounds}: {best(status.best)}; {reason}"
        case RunInterrupted(reason=reason):
            yield f"stopped: {reason}"
        case RunFinished(reason=reason):
            yield f"finished: {say_end(reason)}"
        case _:
            pass


def board_after(events: Sequence[Event]) -> Board:
    """Return the state of a run after these events."""
    status = Board()
    for event in events:
        status(event)
    return status


@contextmanager
def open_run_progress(earlier: Sequence[Event] = ()) -> "Iterator[Observer]":
    """Show a run while the context is open; `earlier` are the events before it was resumed."""
    if not sys.stderr.isatty():
        yield Plain(earlier)
        return
    live = Live(earlier)
    with live.screen:
        yield live
