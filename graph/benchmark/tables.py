"""What a benchmark tells a reader: headings, tables and notes, before any markup."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.graph.benchmark.aggregates import Aggregates, Spread, aggregate, total
from cuda_llm.graph.benchmark.folder import BenchmarkPlan
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.traces.text import duration, us
from cuda_llm.wording import printable

NONE = "–"
UNINSPECTED = "‡"
"""Marks a winner that was not inspected."""
SIZE_HEAD = (
    *("task", "size", "baseline", "best", "speed-up", "roofline", "baseline's roofline"),
    *("library", "its time", "library / best", "plain copy"),
)
TASK_HEAD = (
    *("task", "speed-up", "written by", "winner", "passed", "verdicts", "rounds"),
    *("passes theirs, fails ours", "model calls", "tokens in", "tokens out", "cost"),
    *("total", "model", "compile", "validate", "profile", "contest"),
    *("winner first appeared", "cost until then"),
)
MEAN_HEAD = ("figure", "times", "tasks", "geometric mean", "median", "worst", "of")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells as text; the first row is the head."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """The whole, in order."""

    title: str
    facts: tuple[str, ...]
    """Device, date, versions and settings, a line each."""
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def make_page(plan: BenchmarkPlan, rows: Sequence[TaskRow]) -> Page:
    """Return the page of a benchmark, as far as it has got."""
    done = sum(one.state == "done" for one in rows)
    sizes = [cells for row in rows for cells in size_cells(row)]
    tables = [
        Table(
            title="Over all tasks", rows=(MEAN_HEAD, *mean_cells(aggregate(rows))), note=MEAN_NOTE
        ),
        Table(title="Tasks", rows=(TASK_HEAD, *map(task_cells, rows)), note=TASK_NOTE),
        Table(title="Sizes", rows=(SIZE_HEAD, *sizes), note=SIZE_NOTE),
    ]
    return Page(
        title=f"Benchmark of {len(rows)} tasks, {done} done: {plan.device}",
        facts=tuple(map(printable, facts(plan, rows))),
        tables=tuple(tables),
        notes=tuple(map(printable, notes(rows))),
    )


MEAN_NOTE = (
    "A task without a kernel that stands counts as the baseline, 1x. `capped` counts each task at "
    "most at the published figure. Published figures are of other GPUs and other baselines."
)
TASK_NOTE = (
    "Speed-up over the task's own baseline, over all its sizes, as judged again at the end. "
    "Seconds of stages overlap. `passes theirs, fails ours`: of the candidates of which it is "
    "known, those that the check published with the task accepts and ours refuses."
)
SIZE_NOTE = (
    "`roofline` is the least time this GPU needs (bandwidth of a large copy, one launch) over the "
    "time taken: 100 % is as fast as it allows."
)


def facts(plan: BenchmarkPlan, rows: Sequence[TaskRow]) -> Iterator[str]:
    """Yield what a figure has to stand beside."""
    driver = f", driver {plan.driver}" if plan.driver else ""
    yield f"device: {plan.device}{driver}; times are {plan.time_source}"
    yield f"began: {plan.began_at}"
    named = ", ".join(f"{name} {version}" for name, version in plan.versions.items())
    commit = f"commit {plan.commit}, " if plan.commit else ""
    yield f"made by: {commit}{named}"
    said = ", ".join(f"{name} = {_plain(value)}" for name, value in plan.settings.items())
    yield f"settings beside the defaults: {said or 'none'}"
    if plan.left_out:
        yield f"--quick: {plan.left_out}"
    sums = total(rows)
    yield (
        f"in all: {sums.evaluations} candidates, {sums.passed} passed, {sums.model_calls} model "
        f"calls, {sums.input_tokens + sums.output_tokens:,} tokens, {money(sums.usd)}, "
        f"{duration(sums.seconds)} of runs"
    )
    yield (
        f"published check: known of {sums.asked_as_published} candidates; "
        f"{sums.passes_theirs_fails_ours} pass theirs and fail ours"
    )


def _plain(value: object) -> str:
    return " ".join(str(value).split())


def notes(rows: Iterable[TaskRow]) -> Iterator[str]:
    """Yield what went wrong, and why a column is empty."""
    for row in rows:
        if row.state != "done":
            yield f"{row.task}: {row.state}" + (f": {row.error}" if row.error else "")
        elif not row.best:
            yield f"{row.task}: no kernel stands, the baseline is the answer"
        if row.not_inspected:
            yield f"{UNINSPECTED} {row.task}: {row.best} was not inspected: {row.not_inspected}"
    without: dict[str, list[str]] = {}
    for row in rows:
        if row.libraries_note:
            without.setdefault(row.libraries_note, []).append(row.task)
    for note, tasks in without.items():
        yield f"library of {', '.join(tasks)}: {note}"


def size_cells(row: TaskRow) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each timed size."""
    for size in row.sizes:
        library = size.library
        yield (
            row.task,
            spell_dims(size.dims),
            us(size.baseline_us),
            NONE if size.best_us is None else us(size.best_us),
            factor(size.speedup),
            share(size.roofline_share),
            share(size.baseline_roofline_share),
            library.name if library else NONE,
            us(library.time_us) if library else NONE,
            factor(size.over_library),
            NONE if size.copy_us is None else us(size.copy_us),
        )


def spell_dims(dims: Mapping[str, int]) -> str:
    """Return `M 1,024, N 2,048`."""
    return ", ".join(f"{name} {extent:,}" for name, extent in dims.items())


def task_cells(row: TaskRow) -> tuple[str, ...]:
    """Return the cells of one task."""
    if not row.run:
        return (row.task, row.state, *[NONE] * (len(TASK_HEAD) - 2))
    codes = ", ".join(f"{code} {count}" for code, count in row.verdicts.items())
    first, asked = row.first_appeared, row.asked_as_published
    theirs = f"{len(row.passes_theirs_fails_ours)} of {asked}" if asked else NONE
    stages = ("total", "model", "compile", "validate", "profile", "contest")
    return (
        row.task,
        factor(row.speedup) if row.state == "done" else row.state,
        author(row),
        (row.best or NONE) + (f" {UNINSPECTED}" if row.not_inspected else ""),
        f"{row.passed} of {row.evaluations}",
        codes or NONE,
        str(row.rounds),
        theirs,
        str(row.model_calls),
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        money(row.usd),
        *(f"{row.seconds.get(name, 0.0):.1f} s" for name in stages),
        f"{first.seconds:.1f} s" if first else NONE,
        money(first.usd) if first else NONE,
    )


def author(row: TaskRow) -> str:
    """Return who wrote the answer."""
    if not row.written_by:
        return "baseline"
    return f"model ({row.model})" if row.written_by == "model" and row.model else row.written_by


def mean_cells(found: Iterable[Aggregates]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each figure over all tasks."""
    for one in found:
        yield spread_cells("speed-up over the baseline", one.time_source, one.speedup, factor)
        shares = (
            ("roofline, best", one.roofline_share),
            ("roofline, baseline", one.baseline_roofline_share),
        )
        for name, value in shares:
            if value is not None:
                yield spread_cells(name, one.time_source, value, share)
        if one.over_library is not None:
            yield spread_cells("library / best", one.time_source, one.over_library, factor)
        for theirs in one.beside_published:
            yield spread_cells(
                f"ours, capped at {theirs.gpu} ({theirs.source})",
                one.time_source,
                theirs.capped,
                factor,
            )
            yield spread_cells("  ours, the same tasks", one.time_source, theirs.ours, factor)
            yield spread_cells("  published", "theirs", theirs.published, factor)


def spread_cells(
    name: str, source: str, of: Spread, spell: Callable[[float], str]
) -> tuple[str, ...]:
    """Return the cells of one figure."""
    figures = (of.geometric_mean, of.median, of.worst)
    return (name, source, str(of.count), *map(spell, figures), of.worst_task)


def factor(value: float | None) -> str:
    """Return `2.85x`."""
    return NONE if value is None else f"{value:.2f}x"


def share(value: float | None) -> str:
    """Return `92 %`."""
    return NONE if value is None else f"{value:.1%}".replace("%", " %")


def money(usd: float | None) -> str:
    """Return `$0.06`."""
    return "price unknown" if usd is None else f"${usd:.2f}"
