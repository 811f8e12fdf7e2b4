"""Progress on stderr: live on a terminal, one plain line a stage otherwise."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

WORDS = {
    "compile": "compiling",
    "load": "loading",
    "validate": "validating",
    "time": "timing",
}


class Progress(Protocol):
    """Who is told that a candidate enters a stage."""

    def enter(self, name: str, stage: str) -> None:
        """`name` is now in `stage`."""
        ...


class PlainProgress:
    """One line a stage."""

    def enter(self, name: str, stage: str) -> None:
        """Print the stage."""
        print(f"{name}: {WORDS[stage]}", file=sys.stderr, flush=True)


class LiveProgress:
    """One line a candidate, rewritten in place."""

    def __init__(self, names: Sequence[str]) -> None:
        from rich.console import Console
        from rich.progress import Progress as Bars
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.bars = Bars(*columns, console=Console(stderr=True), transient=True)
        self.rows = {name: self.bars.add_task(f"{name}  waiting", total=None) for name in names}

    def enter(self, name: str, stage: str) -> None:
        """Rewrite the candidate's line."""
        self.bars.update(self.rows[name], description=f"{name}  {WORDS[stage]}")


@contextmanager
def open_progress(names: Sequence[str]) -> Iterator[Progress]:
    """Show progress while the context is open."""
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    live = LiveProgress(names)
    with live.bars:
        yield live
