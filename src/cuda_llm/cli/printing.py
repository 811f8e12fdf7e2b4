"""Printing on stdout: lines whose parts have tones, and tables as wide as what they hold."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from cuda_llm.traces.text import Line

PIPE_WIDTH = 10_000
"""Columns of a table in a pipe, which has no width of its own: no cell is wrapped or cut."""
STYLES: dict[str, dict[str, Any]] = {
    "strong": {"bold": True},
    "faint": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
}
"""By tone."""
CUT = "…"


def open_console() -> "Console":
    """Return a console on stdout: as wide as the terminal; without one, as what it prints."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def print_lines(lines: "Iterable[str | Line]") -> None:
    """Print them all; a pipe that closes early, as `head` does, ends it.

    On a terminal lines of parts have colours (unless NO_COLOR is set) and end at its edge.
    Elsewhere they are whole.
    """
    on_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if on_terminal else None
    colours = on_terminal and not os.environ.get("NO_COLOR")
    try:
        for line in lines:
            typer.echo(line if isinstance(line, str) else join(line, width, colours=colours))
    except BrokenPipeError:
        # What is left in the buffer would complain again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def join(line: "Line", width: int | None, *, colours: bool) -> str:
    """Return the parts as one text, cut at `width`; a line of one part is left to the terminal."""
    parts, left = [], width if width is not None and len(line) > 1 else None
    for text, tone in line:
        if left is not None and len(text) > left:
            text = text[: max(left - 1, 0)] + CUT if left else ""
        left = None if left is None else left - len(text)
        parts.append(typer.style(text, **STYLES[tone]) if colours and tone and text else text)
    return "".join(parts)


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table with its columns below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        padded = (f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
        yield f"  {'  '.join(padded)}".rstrip()
