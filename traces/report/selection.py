"""Which runs of a list are shown, in which order and groups: the query of an address, as values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from urllib.parse import urlencode

from cuda_llm.traces.report.run_lines import RunLine
from cuda_llm.traces.text import tokens


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table of runs."""

    name: str
    title: str
    key: Callable[[RunLine], Any]
    """What it is sorted by; None sorts last either way."""
    text: Callable[[RunLine], str]
    exact: Callable[[RunLine], object] | None = None
    """What a CSV file has, where `text` is rounded."""
    is_figure: bool = False
    is_choice: bool = False
    """Whether runs are filtered and grouped by its values."""


def _named(name: str, title: str = "") -> Column:
    def read(line: RunLine) -> str:
        return str(getattr(line, name))

    return Column(name=name, title=title or name, key=read, text=read, is_choice=True)


def _usd(line: RunLine) -> str:
    return "" if line.usd is None else f"{line.usd:,.2f}"


def _speedup(line: RunLine) -> str:
    over = "" if line.objective == "geomean" else f" {line.objective}"
    return f"{line.speedup:.2f}x{over}" if line.speedup else ""


COLUMNS: tuple[Column, ...] = (
    Column(
        name="run", title="run", key=lambda one: one.began_at or None, text=lambda one: one.run_id
    ),
    _named("task"),
    _named("device"),
    Column(
        name="speedup",
        title="speed-up",
        key=lambda one: one.speedup,
        text=_speedup,
        exact=lambda one: "" if one.speedup is None else one.speedup,
        is_figure=True,
    ),
    _named("time_source", "times are"),
    _named("author", "generator, model"),
    _named("strategy"),
    Column(
        name="seed",
        title="seed",
        key=lambda one: one.seed,
        text=lambda one: "" if one.seed is None else str(one.seed),
        is_figure=True,
        is_choice=True,
    ),
    _named("search", "a round x rounds"),
    _named("switches"),
    _named("state"),
    Column(
        name="rounds",
        title="rounds",
        key=lambda one: one.rounds,
        text=lambda one: f"{one.rounds}/{one.planned_rounds}",
        exact=lambda one: one.rounds,
        is_figure=True,
    ),
    Column(
        name="calls",
        title="calls",
        key=lambda one: one.calls,
        text=lambda one: f"{one.calls:,}" if one.calls else "",
        exact=lambda one: one.calls,
        is_figure=True,
    ),
    Column(
        name="tokens",
        title="tokens",
        key=lambda one: one.tokens,
        text=lambda one: tokens(one.tokens) if one.calls else "",
        exact=lambda one: one.tokens,
        is_figure=True,
    ),
    Column(
        name="usd",
        title="USD",
        key=lambda one: one.usd,
        text=_usd,
        exact=lambda one: "" if one.usd is None else round(one.usd, 6),
        is_figure=True,
    ),
    Column(
        name="minutes",
        title="minutes",
        key=lambda one: one.minutes,
        text=lambda one: f"{one.minutes:.1f}",
        exact=lambda one: round(one.minutes, 4),
        is_figure=True,
    ),
)
BY_NAME: Mapping[str, Column] = {one.name: one for one in COLUMNS}
CHOICES = tuple(one for one in COLUMNS if one.is_choice)
SETUP = "setup"
"""Groups by all that was asked for but the seed."""
AXES: Mapping[str, str] = {
    "candidates": "candidates judged",
    "calls": "calls of models",
    "tokens": "tokens in and out",
    "minutes": "minutes of work",
    "usd": "spent on models (USD)",
}
"""Horizontal axes, and their labels."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What an address asks for."""

    text: str = ""
    where: tuple[tuple[str, str], ...] = ()
    """Column and value."""
    runs: tuple[str, ...] = ()
    """Names; empty: all."""
    sort: str = ""
    down: bool = False
    group: str = ""
    x: str = "candidates"

    def query(self, **changes: Any) -> str:
        """Return the query that asks for this, with changes by field."""
        now = {**vars(self), **changes}
        pairs = [
            ("q", now["text"]),
            *now["where"],
            *(("run", one) for one in now["runs"]),
            ("sort", now["sort"]),
            ("down", "1" if now["down"] else ""),
            ("group", now["group"]),
            ("x", "" if now["x"] == "candidates" else now["x"]),
        ]
        return urlencode([pair for pair in pairs if pair[1]])


def read_selection(given: Mapping[str, Sequence[str]]) -> Selection:
    """Read a query. What it names and nobody knows is left out."""

    def one(name: str) -> str:
        return next(iter(given.get(name, ())), "")

    sort, group, x = one("sort"), one("group"), one("x")
    return Selection(
        text=one("q"),
        where=tuple((column.name, one(column.name)) for column in CHOICES if one(column.name)),
        runs=tuple(dict.fromkeys(given.get("run", ()))),
        sort=sort if sort in BY_NAME else "",
        down=bool(one("down")),
        group=group if group == SETUP or group in {each.name for each in CHOICES} else "",
        x=x if x in AXES else "candidates",
    )


def choose_lines(lines: Sequence[RunLine], wanted: Selection) -> list[RunLine]:
    """Return the lines that are asked for, in order. A sort is stable.

    Measured and modelled speed-ups are never ranked with each other: measured ones come first.
    """
    text = wanted.text.casefold()
    found = [
        line
        for line in lines
        if (not wanted.runs or line.run_id in wanted.runs)
        and all(BY_NAME[name].text(line) == value for name, value in wanted.where)
        and (not text or any(text in cell.casefold() for cell in _searched(line)))
    ]
    if not wanted.sort:
        return found
    key = BY_NAME[wanted.sort].key
    known = [line for line in found if key(line) is not None]
    known.sort(key=key, reverse=wanted.down)
    ordered = known + [line for line in found if key(line) is None]
    if wanted.sort == "speedup":
        ordered.sort(key=lambda line: (not line.time_source, line.time_source))
    return ordered


def _searched(line: RunLine) -> Iterator[str]:
    yield from (column.text(line) for column in COLUMNS)
    yield line.problem


def group_lines(lines: Sequence[RunLine], by: str) -> dict[str, list[RunLine]]:
    """Return the lines by the value of a column, `setup` for all that was asked for but the seed.

    Without a column all are one group, whose name is empty.
    """
    groups: dict[str, list[RunLine]] = {}
    for line in lines:
        name = "" if not by else line.setup if by == SETUP else BY_NAME[by].text(line)
        groups.setdefault(name or ("" if not by else "none"), []).append(line)
    return groups


def describe_group(lines: Sequence[RunLine]) -> str:
    """Return how many runs, and the median speed-up where all share one scale."""
    count = f"{len(lines)} run{'' if len(lines) == 1 else 's'}"
    unfinished = sum(line.state != "finished" for line in lines)
    count += f", {unfinished} unfinished" if unfinished else ""
    speedups = [line.speedup for line in lines if line.speedup]
    if not speedups:
        return count
    if len({line.panel for line in lines}) > 1:
        return f"{count}; no median: task, device or source of times differ"
    spread = f", {min(speedups):.2f}x to {max(speedups):.2f}x" if len(speedups) > 1 else ""
    return f"{count}; median {median(speedups):.2f}x{spread}, {lines[0].time_source}"
