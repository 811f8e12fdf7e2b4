"""Progress on stderr: live on a terminal, one plain line a stage otherwise."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from cuda_llm.tools.open_device import FIRST_USE, announce_when_slow

JUDGE_STAGES = {
    "compile": "compiling",
    "validate": "validating",
    "time": "timing",
}


class Progress(Protocol):
    """Receives what a command is doing."""

    def prepare(self, build: Callable[[], None]) -> None:
        """Run `build`, and say so when it takes its time."""
        ...

    def enter(self, name: str, stage: str) -> None:
        """`name` is now in `stage`."""
        ...


class PlainProgress:
    """Prints a line for each stage."""

    def prepare(self, build: Callable[[], None]) -> None:
        """Print a line when it takes its time."""
        announce_when_slow(build, lambda: print(FIRST_USE, file=sys.stderr, flush=True))

    def enter(self, name: str, stage: str) -> None:
        """Print the stage."""
        print(f"{name}: {JUDGE_STAGES[stage]}", file=sys.stderr, flush=True)


class LiveProgress:
    """Shows a line for each candidate, rewritten in place."""

    def __init__(self, names: Sequence[str]) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bars
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self.bars = Bars(*columns, console=Console(stderr=True), transient=True)
        self.rows = {
            name: self.bars.add_task(f"{name}  waiting", total=None)
            for name in dict.fromkeys(names)
        }

    def prepare(self, build: Callable[[], None]) -> None:
        """Show a line of its own when it takes its time, and remove it."""
        row = self.bars.add_task(FIRST_USE, total=None, visible=False)
        announce_when_slow(build, lambda: self.bars.update(row, visible=True))
        self.bars.remove_task(row)

    def enter(self, name: str, stage: str) -> None:
        """Rewrite the candidate's line."""
        self.bars.update(self.rows[name], description=f"{name}  {JUDGE_STAGES[stage]}")


@contextmanager
def open_progress(names: Sequence[str]) -> Iterator[Progress]:
    """Show progress while the context is open."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    live = LiveProgress(names)
    with live.bars:
        yield live
