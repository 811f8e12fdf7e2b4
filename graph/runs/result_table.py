"""The candidates of a run as a table: typed rows, a text, HTML for a notebook, a DataFrame."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from typing import Any, Literal, overload

from cuda_llm.errors import MissingError, UsageError
from cuda_llm.figure_wording import name_bottleneck
from cuda_llm.outcomes import Passed
from cuda_llm.redaction import printable
from cuda_llm.search import Attempt
from cuda_llm.traces.events import ModelCalled
from cuda_llm.traces.text import describe_idea, us

FRAMES = ("pandas", "polars")
"""Libraries that a DataFrame comes from; the first that is installed, unless one is named."""
SHOWN = 20
"""Rows that a notebook shows, the fastest first."""
TEXT_COLUMNS = ("", "id", "result", "speed-up", "largest size", "±", "limited by", "parent", "idea")
LONGEST_IDEA = 60
"""Characters of an idea or a message in a text and in a notebook."""
PASS, FAIL, SOFT, LINE = "#0072b2", "#b34700", "#6e7781", "#8884"
"""Colours of the report, as seen well on white and on black."""

FLOATS = ("speedup", "time_us", "spread", "usd", "seconds")
"""Columns of numbers that a DataFrame knows as such where no row has one."""


@dataclass(frozen=True, kw_only=True)
class CandidateRow:
    """One judged candidate. Times are of the largest size, in microseconds."""

    id: str
    round: int
    kind: str
    """Kind of the brief: `first`, `fix`, `improve`, `depart`, `tune`, `compose`, `start`."""
    parent: str | None
    written_by: str
    code: str
    """Code of the verdict; `PASSED` for a kernel that is correct in every check."""
    best: bool
    """Whether the candidate is the winner of the run."""
    speedup: float | None
    """Speed-up over the baseline over all sizes; None unless the kernel passed."""
    time_us: float | None
    times_us: tuple[float, ...]
    """Times of the kernel at every timed size, in the order of the task."""
    spread: float
    """Largest relative half-width of an interval around a time; 0 where times are modelled."""
    limited_by: str
    direction: str
    idea: str
    tunables: Mapping[str, int]
    summary: str
    """The verdict in one line."""
    input_tokens: int
    output_tokens: int
    usd: float | None
    """Cost of the candidate's model calls in US dollars; None without a call or with an unknown
    price."""
    seconds: float
    """Wall time of its stages together."""

    @property
    def passed(self) -> bool:
        """Whether the kernel is correct in every check that was made."""
        return self.code == Passed.code


NAMES = tuple(one.name for one in fields(CandidateRow))


@dataclass(frozen=True)
class CandidateTable(Sequence[CandidateRow]):
    """The rows of a run, by round and index. `str()` is the table as text."""

    rows: tuple[CandidateRow, ...]

    def __len__(self) -> int:
        """Return how many were judged."""
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> CandidateRow: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CandidateRow, ...]: ...
    def __getitem__(self, index: int | slice) -> CandidateRow | tuple[CandidateRow, ...]:
        """Return the row at an index, or the rows of a slice as a tuple."""
        return self.rows[index]

    def __str__(self) -> str:
        """Return the table as text, a line a candidate, `*` before the best."""
        return "\n".join(text_lines(self.rows))

    def __repr__(self) -> str:
        """Return the number of rows; `str()` shows the rows."""
        passed = sum(row.passed for row in self.rows)
        return f"<CandidateTable: {len(self)} candidates, {passed} passed; print() shows them>"

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return html_table(self.rows)

    def to_dataframe(self, library: Literal["", "pandas", "polars"] = "") -> Any:
        """Return a DataFrame with a column a field; tunables are text there.

        Raises MissingError where neither library is installed, or not the one that is named.
        """
        return make_frame(self.rows, library)


def make_rows(
    attempts: Iterable[Attempt], calls: Iterable[ModelCalled], best: str | None
) -> CandidateTable:
    """Return the table of these attempts; `calls` are all model calls of their run."""
    own: dict[str, list[ModelCalled]] = {}
    for call in calls:
        folder, _, rest = call.call.partition("/")
        if folder == "candidates":
            own.setdefault(rest.partition("/")[0], []).append(call)
    return CandidateTable(tuple(_row(one, own.get(one.id, ()), best) for one in attempts))


def _row(attempt: Attempt, calls: Sequence[ModelCalled], best: str | None) -> CandidateRow:
    prices = [call.usd for call in calls if call.usd is not None]
    return CandidateRow(
        id=attempt.id,
        round=attempt.round,
        kind=attempt.kind.value,
        parent=attempt.parent,
        written_by=attempt.written_by,
        code=attempt.code,
        best=attempt.id == best,
        speedup=attempt.speedup,
        time_us=attempt.times_us[-1] if attempt.times_us else None,
        times_us=attempt.times_us,
        spread=attempt.spread,
        limited_by=attempt.limited_by,
        direction=attempt.direction,
        idea=attempt.idea,
        tunables=attempt.tunables,
        summary=attempt.summary,
        input_tokens=sum(call.input_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        usd=sum(prices) if calls and len(prices) == len(calls) else None,
        seconds=sum(attempt.seconds.values()),
    )


def make_frame(rows: Sequence[CandidateRow], library: str = "") -> Any:
    """Return the rows as a DataFrame.

    Raises MissingError without a library for it, UsageError for one that is none of `FRAMES`.
    """
    if library not in ("", *FRAMES):
        raise UsageError(f"library {library!r}: expected {' or '.join(FRAMES)}")
    columns = {name: [cell(row, name) for row in rows] for name in NAMES}
    for name in (library,) if library else FRAMES:
        try:
            frames = import_module(name)
        except ImportError:
            continue
        if name == "pandas":
            return frames.DataFrame(columns).astype(dict.fromkeys(FLOATS, "float64"))
        types = dict.fromkeys(FLOATS, frames.Float64) | {"parent": frames.String}
        return frames.DataFrame(columns, schema_overrides=types)
    remedy = f"table() needs none; install it: pip install {library or FRAMES[0]}"
    raise MissingError(f"{library or ' or '.join(FRAMES)} is not installed", remedy)


def cell(row: CandidateRow, name: str) -> Any:
    """Return what a DataFrame holds of a field: tunables are text there."""
    if name == "tunables":
        return ", ".join(f"{tunable} {value}" for tunable, value in row.tunables.items())
    value = getattr(row, name)
    return list(value) if isinstance(value, tuple) else value


def text_cells(row: CandidateRow) -> tuple[str, ...]:
    """Return what a person reads of a row, unable to control what shows it."""
    said = describe_idea(row.idea, row.tunables) or row.direction
    told = " ".join((said if row.passed else row.summary or said).split())
    cells = (
        "*" if row.best else "",
        row.id,
        "passed" if row.passed else row.code,
        f"{row.speedup:.2f}x" if row.speedup is not None else "",
        us(row.time_us) if row.time_us is not None else "",
        f"{row.spread:.1%}" if row.spread else "",
        name_bottleneck(row.limited_by),
        row.parent or "",
        told if len(told) <= LONGEST_IDEA else f"{told[: LONGEST_IDEA - 1]}…",
    )
    return tuple(map(printable, cells))


def text_lines(rows: Sequence[CandidateRow]) -> Iterator[str]:
    """Yield the table as text: a head and a line a row."""
    lines = [TEXT_COLUMNS, *map(text_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()


def html_table(rows: Sequence[CandidateRow], shown: int = SHOWN) -> str:
    """Return the fastest rows, then those that failed, as HTML without a script."""
    order = sorted(rows, key=lambda row: -(row.speedup or 0.0))[:shown]
    cell = f"padding:2px 10px 2px 4px;border-bottom:1px solid {LINE};text-align:left"
    head = "".join(f'<th style="{cell};font-weight:600">{name}</th>' for name in TEXT_COLUMNS)
    lines = []
    for row in order:
        tone = PASS if row.passed else FAIL
        weight = "font-weight:600;" if row.best else ""
        cells = "".join(
            f'<td style="{cell};{weight}{f"color:{tone}" if name == "result" else ""}">'
            f"{escape(text)}</td>"
            for name, text in zip(TEXT_COLUMNS, text_cells(row), strict=True)
        )
        lines.append(f"<tr>{cells}</tr>")
    more = f"{len(rows) - len(order)} more in table()" if len(rows) > len(order) else ""
    foot = f'<div style="color:{SOFT};font-size:12.5px">{more}</div>' if more else ""
    style = "border-collapse:collapse;font-size:13px"
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<table style="{style}">{body}</table>{foot}'
