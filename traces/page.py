"""Text for a person: wrapped, indented, and without control characters for the terminal."""

import textwrap
from collections.abc import Iterator

from cuda_llm.wording import printable

WIDTH = 100
LABEL = 12
"""Width of the left column."""


def wrapped(text: str, *, first: str = "", indent: int = 0) -> Iterator[str]:
    """`text` behind `first`, further lines below where it began; its own line ends are kept."""
    lead = " " * indent + printable(first)
    for paragraph in text.expandtabs(4).splitlines() or [""]:
        plain = printable(paragraph)
        hang = " " * (len(lead) + len(plain) - len(plain.lstrip()))
        yield from textwrap.wrap(
            lead + plain,
            WIDTH,
            subsequent_indent=hang,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        ) or [lead.rstrip()]
        lead = " " * len(lead)


def labelled(label: str, text: str, *, indent: int = 2) -> Iterator[str]:
    """`text` behind a label of the left column."""
    return wrapped(text, first=f"{label:<{LABEL}}", indent=indent)


def verbatim(text: str, *, indent: int = 4) -> Iterator[str]:
    """Text that must keep its lines, such as source code."""
    return (" " * indent + printable(line.expandtabs(4)) for line in text.splitlines())
