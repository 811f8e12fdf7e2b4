"""Text from outside (compilers, kernels, models) made fit to stand in a prompt as data."""

import re

from cuda_llm.spots import SourceSpot

MOST_LINE = 400
"""Characters of a quoted line; what is longer loses its middle."""
_FENCES = re.compile(r"`{3,}|~{3,}")


def clean(text: str) -> str:
    """`text` with line feeds and tabs as its only control characters, line ends made equal."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def one_line(text: str, most: int = MOST_LINE) -> str:
    """`text` as one clean line that an inline quotation in backticks can hold."""
    return shorten(" ".join(clean(text).split()).replace("`", "'"), most)


def shorten(line: str, most: int = MOST_LINE) -> str:
    """A line of at most `most` characters: its middle is left out."""
    if len(line) <= most:
        return line
    half = (most - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"


def log_lines(text: str) -> str:
    """A log as data: clean, no endless line, nothing in it that looks like the end of a fence."""
    return "\n".join(shorten(_FENCES.sub("'''", line)) for line in clean(text).split("\n"))


def fence(text: str, language: str = "") -> str:
    """`text` in a fence that nothing within can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def quote_line(spot: SourceSpot | None) -> str:
    """``line 14: `source` ``, or nothing. The file's name stays out: it is ours."""
    if spot is None:
        return ""
    return f"line {spot.line}" + (f": `{one_line(spot.text, 160)}`" if spot.text.strip() else "")


def join(*parts: str) -> str:
    """The parts that say something, as one line."""
    return "; ".join(part for part in parts if part)
