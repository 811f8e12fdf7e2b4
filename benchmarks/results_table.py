"""Prints the tables of results in docs/bench.md.

python benchmarks/results_table.py            the playbooks, of `results/h100_results.json`
python benchmarks/results_table.py --model    a model's winners, of `results/h200_paper.json`
"""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import record

from cuda_llm.codec import decode
from cuda_llm.graph.benchmark.aggregates import Aggregates, Spread, aggregate
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.tasks.loader import load_task

RESULTS = record.RESULTS / "h100_results.json"
PAPER = record.RESULTS / "h200_paper.json"
SEARCHES = ("paper-without-a-gpu", "paper-other-tasks")
"""Recorded benchmarks whose winners were timed."""
MODEL_HEAD = (
    *("task", "library's time / ours (worst size)", "playbook's time / ours"),
    *("roofline, ours (baseline's)", "over the baseline (worst size)", "winner", "passed"),
)
HEAD = (
    *("task", "library's time / ours (worst size)", "roofline, ours (baseline's)"),
    *("over the baseline (worst size)", "paper: GTX 1660 SUPER", "RTX 3090 Ti"),
)
REPOSITORY = "the authors' repository, August 2025"
NONE = "–"
SCREENED = " †"
FAILED = " ‡"
UNINSPECTED = " §"


def main() -> None:
    """Print table and means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="store_true", help="a model's winners")
    if parser.parse_args().model:
        print("\n".join(model_table(json.loads(PAPER.read_text(encoding="utf-8")))))
        return
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    print("\n".join((*table(found), "", means(found))))


def model_table(found: dict[str, Any]) -> list[str]:
    """Return the lines of a model's winners beside playbooks and libraries, and the means."""
    playbook, model = (
        {row.task: row for row in (decode(TaskRow, one) for one in found[side])}
        for side in ("playbook", "model")
    )
    searched = {
        name: decode(TaskRow, json.loads(file.read_text(encoding="utf-8")))
        for folder in SEARCHES
        for file in sorted((record.ROOT / "benchmarks/experiments" / folder).glob("results/*.json"))
        for name in [file.stem]
    }
    over = {
        name: mean(
            (known.best_us or 0.0) / (ours.best_us or math.inf)
            for known, ours in zip(playbook[name].sizes, row.sizes, strict=True)
        )
        for name, row in model.items()
    }
    lines = ["| " + " | ".join(MODEL_HEAD) + " |", "|" + "---|" * len(MODEL_HEAD)]
    for name, row in sorted(model.items()):
        library, roofline, speedup = judged_cells(row)
        search = searched[name]
        passed = f"{search.verdicts.get('PASSED', 0)} of {search.evaluations}"
        cells = (library, f"{over[name]:.2f}x", roofline, speedup, search.best, passed)
        lines.append("| " + " | ".join((f"`{name}`", *cells)) + " |")
    (figures,) = aggregate([*model.values()])
    faster = sum(ratio > 1 for ratio in over.values())
    beside = (
        f"Playbook's time over ours, {len(over)} tasks: geometric mean "
        f"{mean(over.values()):.2f}x, faster on {faster}."
    )
    return [*lines, "", " ".join((*mean_sentences(figures), beside))]


def table(found: dict[str, Any]) -> list[str]:
    """Return the lines; what was screened alone, not timed or not inspected is marked."""
    rows = {one.task: one for one in judged(found)}
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for name in sorted({*rows, *found["screens"], *found["failed"]}):
        if row := rows.get(name):
            cells, mark = judged_cells(row), UNINSPECTED if row.not_inspected else ""
        elif name in found["screens"]:
            cells, mark = screened_cells(found["screens"][name]), SCREENED
        else:
            cells, mark = (NONE, NONE, NONE), FAILED
        lines.append("| " + " | ".join((f"`{name}`{mark}", *cells, *published(name))) + " |")
    return lines


def judged(found: dict[str, Any]) -> list[TaskRow]:
    """Return the tasks whose kernel stood to the end."""
    rows: list[TaskRow] = [decode(TaskRow, one) for one in found["rows"]]
    return [one for one in rows if one.state == "done" and one.best]


def judged_cells(row: TaskRow) -> tuple[str, str, str]:
    """Return library, roofline and speed-up of a task that was judged to the end."""
    over = [one.over_library for one in row.sizes if one.over_library]
    named = {one.library.name for one in row.sizes if one.library}
    ours = mean(one.roofline_share or 0.0 for one in row.sizes)
    theirs = mean(one.baseline_roofline_share for one in row.sizes)
    library = f"{mean(over):.2f}x ({min(over):.2f}x) {', '.join(sorted(named))}" if over else NONE
    worst = min(one.speedup or 0.0 for one in row.sizes)
    return (
        library,
        f"{ours:.0%} ({100 * theirs:.2g}%)",
        f"{row.speedup:,.2f}x ({worst:,.2f}x)",
    )


def screened_cells(screen: dict[str, Any]) -> tuple[str, str, str]:
    """Return the same of a task that was screened alone; it has no share of the roofline."""
    timed = [one for one in screen["libraries"] if one["name"] != "plain copy" and not one["fault"]]
    over = [
        min(one["us"][at] for one in timed) / size["us"]
        for at, size in enumerate(screen["sizes"])
        if timed
    ]
    names = ", ".join(sorted({one["name"] for one in timed}))
    library = f"{mean(over):.2f}x ({min(over):.2f}x) {names}" if over else NONE
    worst = min(size["speedup"] for size in screen["sizes"])
    return library, NONE, f"{screen['speedup']:,.2f}x ({worst:,.2f}x)"


def published(name: str) -> tuple[str, str]:
    """Return the paper's figures for its two GPUs; where sources disagree, both."""
    known = load_task(name).published
    cells = []
    for gpu in ("GTX 1660 SUPER", "RTX 3090 Ti"):
        figures = [one for one in known.speedups if one.gpu == gpu] if known else []
        figures.sort(key=lambda one: one.source != REPOSITORY)
        cells.append(" or ".join(f"{one.factor:.2f}x" for one in figures) or NONE)
    return cells[0], cells[1]


def means(found: dict[str, Any]) -> str:
    """Return the means over the tasks that were judged to the end, in one paragraph."""
    (figures,) = aggregate(judged(found))
    return " ".join(mean_sentences(figures))


def mean_sentences(figures: Aggregates) -> Iterable[str]:
    """Yield what the tasks say together."""
    library = figures.over_library
    if library is not None:
        yield f"Library's time over ours, {library.count} tasks: {in_words(library)}."
    speedup = figures.speedup
    yield f"Speed-up over the baselines, {speedup.count} tasks: {in_words(speedup)}."
    for one in figures.beside_published:
        if one.source == REPOSITORY:
            yield (
                f"Each task capped at the paper's own figure on the {one.gpu}: "
                f"{one.capped.geometric_mean:.2f}x where the paper has "
                f"{one.published.geometric_mean:.2f}x over the same {one.published.count} tasks."
            )


def in_words(one: Spread) -> str:
    """Return the figures of several tasks."""
    return (
        f"geometric mean {one.geometric_mean:.2f}x, median {one.median:.2f}x, "
        f"worst {one.worst:.2f}x (`{one.worst_task}`)"
    )


def mean(figures: Iterable[float]) -> float:
    """Return the geometric mean; 0 of none, or where one is 0."""
    known: Sequence[float] = [*figures]
    if not known or min(known) <= 0:
        return 0.0
    return math.exp(sum(map(math.log, known)) / len(known))


if __name__ == "__main__":
    main()
