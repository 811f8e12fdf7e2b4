"""The list of runs of a folder, and the best kernels of those chosen, as pages and as files."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from cuda_llm.traces.report.chart import draw_chart
from cuda_llm.traces.report.courses import draw_panels
from cuda_llm.traces.report.gallery import MOST_SHOWN, Kernel, diff_sources, show_kernel
from cuda_llm.traces.report.page import render_plain
from cuda_llm.traces.report.run_lines import RunLine
from cuda_llm.traces.report.run_tables import csv_table, latex_table
from cuda_llm.traces.report.selection import (
    AXES,
    BY_NAME,
    CHOICES,
    COLUMNS,
    SETUP,
    Column,
    Selection,
    choose_lines,
    describe_group,
    group_lines,
)
from cuda_llm.traces.run_folder import RunFolder

MOST_PANELS = 8
"""Charts of one page."""
WIDE = {"switches", "author", "strategy"}
"""Columns whose texts may be long."""


def list_page(
    lines: Sequence[RunLine],
    runs: Mapping[str, RunFolder],
    wanted: Selection,
    folder: str,
    start: str,
) -> str:
    """Return the page of the runs that are asked for."""
    shown = choose_lines(lines, wanted)
    names = {line.run_id: name for line, name in zip(lines, runs, strict=True)}
    # A column that is empty everywhere takes no room.
    columns = [one for one in COLUMNS if any(map(one.text, shown))] or list(COLUMNS)
    panels = draw_panels(shown, wanted.group, wanted.x)
    by = "the same setup but the seed" if wanted.group in ("", SETUP) else _title(wanted.group)
    return render_plain(
        "runs.html.j2",
        folder=folder,
        start=start,
        total=len(lines),
        shown=len(shown),
        selection=wanted,
        query=wanted.query(),
        choices=_choices(lines, wanted),
        groups=[
            ("", "nothing"),
            (SETUP, "all but the seed"),
            *((c.name, c.title) for c in CHOICES),
        ],
        axes=list(AXES.items()),
        heads=[_head(wanted, one.name) for one in columns],
        sections=_sections(shown, wanted, names, columns),
        mixed=len({line.time_source for line in shown if line.time_source}) > 1,
        kept=_kept(wanted, runs=False),
        grouped=f"A group has {by}.",
        charts=[draw_chart([panel], wanted.x) for panel in panels[:MOST_PANELS]],
        more_panels=max(0, len(panels) - MOST_PANELS),
    )


def _title(name: str) -> str:
    return f"one value of: {BY_NAME[name].title}"


def _choices(lines: Sequence[RunLine], wanted: Selection) -> list[dict[str, Any]]:
    """Return what each column can be filtered by, of the columns with more than one value."""
    found = []
    for column in CHOICES:
        values = sorted({column.text(line) for line in lines} - {""})
        chosen = dict(wanted.where).get(column.name, "")
        if len(values) > 1 or chosen:
            one = {"name": column.name, "title": column.title, "options": values, "chosen": chosen}
            found.append(one)
    return found


def _head(wanted: Selection, name: str) -> dict[str, Any]:
    column = BY_NAME[name]
    is_sorted = wanted.sort == name
    down = not wanted.down if is_sorted else column.is_figure
    return {
        "title": column.title,
        "figure": column.is_figure,
        "sorted": ("descending" if wanted.down else "ascending") if is_sorted else "",
        "query": wanted.query(sort=name, down=down),
    }


def _sections(
    shown: Sequence[RunLine], wanted: Selection, names: Mapping[str, str], columns: Sequence[Column]
) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "text": describe_group(some),
            "rows": [
                {
                    "name": names[line.run_id],
                    "problem": line.problem,
                    "cells": [
                        {
                            "text": column.text(line),
                            "kind": "figure" if column.is_figure else _kind(column.name),
                        }
                        for column in columns[1:]
                    ],
                }
                for line in some
            ],
        }
        for name, some in group_lines(shown, wanted.group).items()
    ]


def _kind(name: str) -> str:
    return "wide" if name in WIDE else ""


def _kept(wanted: Selection, *, runs: bool) -> list[tuple[str, str]]:
    """Return what a form sends along, so that the address keeps the rest of the state."""
    return [one for one in parse_qsl(wanted.query()) if runs or one[0] != "run"]


def runs_file(lines: Sequence[RunLine], wanted: Selection, to: str) -> str:
    """Return the runs that are asked for as `csv`, `latex` or `svg`."""
    shown = choose_lines(lines, wanted)
    if to == "svg":
        return draw_chart(draw_panels(shown, wanted.group, wanted.x), wanted.x)
    return csv_table(shown) if to == "csv" else latex_table(shown)


def kernels_page(
    lines: Sequence[RunLine],
    runs: Mapping[str, RunFolder],
    wanted: Selection,
    pair: tuple[str, str],
    folder: str,
) -> str:
    """Return the page of the best kernels of the runs that are asked for."""
    shown = choose_lines(lines, wanted)
    folders = {line.run_id: run for line, run in zip(lines, runs.values(), strict=True)}
    with_best = [line for line in shown if line.best is not None]
    found = [show_kernel(folders[line.run_id], line) for line in with_best[:MOST_SHOWN]]
    kernels = {one.line.run_id: one for one in found if one is not None}
    names = list(kernels)
    a, b = (one if one in kernels else "" for one in pair)
    return render_plain(
        "kernels.html.j2",
        folder=folder,
        query=wanted.query(),
        kept=_kept(wanted, runs=True),
        kernels=list(kernels.values()),
        left_out=len(shown) - len(kernels),
        most=MOST_SHOWN,
        diff=_difference(kernels[a], kernels[b]) if a and b else None,
        a=a or next(iter(names), ""),
        b=b or next(iter(names[1:]), ""),
    )


def _difference(one: Kernel, other: Kernel) -> dict[str, Any]:
    return {
        "a": f"{one.line.run_id} {one.line.best}",
        "b": f"{other.line.run_id} {other.line.best}",
        "lines": diff_sources(one, other),
    }
