"""Best so far of many runs: one panel for runs on one scale, one line for a group of seeds.

A group's line is the median of its runs, its band from their lowest to their highest. It begins
where every run of the group has a kernel and ends where the first unfinished run ends: a finished
run keeps its best from there on, an unfinished one says nothing beyond its end.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from cuda_llm.traces.report.run_lines import RunLine
from cuda_llm.traces.report.selection import SETUP, group_lines


@dataclass(frozen=True, kw_only=True)
class Course:
    """One run: the speed-up of its best kernel from each `x` on, to `end`."""

    run_id: str
    points: tuple[tuple[float, float], ...]
    end: float
    finished: bool

    def at(self, x: float) -> float | None:
        """Return the speed-up at `x`; None before the first kernel and beyond an unfinished run."""
        index = bisect_right(self.points, x, key=lambda point: point[0])
        known = index and (self.finished or x <= self.end)
        return self.points[index - 1][1] if known else None


@dataclass(frozen=True, kw_only=True)
class GroupCourse:
    """One group: x, lowest, median and highest speed-up, and what came of it at the end."""

    name: str
    runs: tuple[Course, ...]
    steps: tuple[tuple[float, float, float, float], ...]
    end: float
    final: tuple[float, float, float] | None
    """Lowest, median and highest speed-up of its runs' results."""
    without: int
    """Runs that have no place on the axis: no kernel, or no known spend."""
    verdict: str = ""
    """Beside the group with the highest median."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Groups on one scale."""

    title: str
    time_source: str
    groups: tuple[GroupCourse, ...]


def draw_panels(lines: Sequence[RunLine], by: str, x: str) -> tuple[Panel, ...]:
    """Return the panels of runs; without a column to group by, runs that differ in the seed alone
    are a group."""
    panels: dict[str, list[RunLine]] = {}
    for line in lines:
        if line.task:
            panels.setdefault(line.panel, []).append(line)
    return tuple(
        Panel(
            title=title,
            time_source=some[0].time_source,
            groups=_with_verdicts(
                [_group(name, each, x) for name, each in group_lines(some, by or SETUP).items()]
            ),
        )
        for title, some in panels.items()
    )


def _course(line: RunLine, x: str) -> Course | None:
    points: list[tuple[float, float]] = []
    end = 0.0
    for one in line.course:
        at = getattr(one, x)
        if at is None:
            return None
        end = float(at)
        if one.speedup is not None and (not points or points[-1][1] != one.speedup):
            points.append((end, one.speedup))
    if not points or (x in {"calls", "tokens", "usd"} and not end):
        return None
    return Course(
        run_id=line.run_id, points=tuple(points), end=end, finished=line.state == "finished"
    )


def _group(name: str, lines: Sequence[RunLine], x: str) -> GroupCourse:
    runs = [found for found in (_course(line, x) for line in lines) if found is not None]
    results = [line.speedup for line in lines if line.speedup and 0 < line.speedup < inf]
    final = (min(results), median(results), max(results)) if results else None
    without = len(lines) - len(runs)
    if not runs:
        return GroupCourse(name=name, runs=(), steps=(), end=0.0, final=final, without=without)
    begin = max(run.points[0][0] for run in runs)
    open_ends = [run.end for run in runs if not run.finished]
    end = min(open_ends) if open_ends else max(run.end for run in runs)
    places = sorted({at for run in runs for at, _ in run.points if begin <= at <= end} | {begin})
    steps = []
    for at in places if begin <= end else ():
        values = [value for run in runs if (value := run.at(at)) is not None]
        steps.append((at, min(values), median(values), max(values)))
    return GroupCourse(
        name=name, runs=tuple(runs), steps=tuple(steps), end=end, final=final, without=without
    )


def _with_verdicts(groups: Sequence[GroupCourse]) -> tuple[GroupCourse, ...]:
    """Return the groups, the highest median first, each with how it compares with that."""
    ordered = sorted(groups, key=lambda one: -(one.final[1] if one.final else 0.0))
    if len(ordered) < 2 or ordered[0].final is None:
        return tuple(ordered)
    top = ordered[0]
    return tuple(_judged(one, top) for one in ordered)


def _judged(one: GroupCourse, top: GroupCourse) -> GroupCourse:
    if one is top:
        return replace(one, verdict="highest median")
    if one.final is None or top.final is None:
        return replace(one, verdict="no result")
    counts = len(one.runs), len(top.runs)
    if one.final == top.final:
        return replace(one, verdict="tie: equal results")
    if min(counts) < 2:
        return replace(one, verdict="not compared: fewer than 2 runs")
    overlap = one.final[2] >= top.final[0]
    return replace(one, verdict="tie: ranges overlap" if overlap else "lower: ranges apart")
