"""The page of a benchmark before any markup: headings, tables and notes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.graph.benchmark.aggregates import (
    Aggregates,
    SettingComparison,
    Spread,
    aggregate,
    compare,
    total,
)
from cuda_llm.graph.benchmark.folder import BenchmarkPlan
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.sweep import SWEPT, Setting
from cuda_llm.redaction import printable
from cuda_llm.traces.text import duration, us

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
SETTING_HEAD = (
    *("times", "tasks", "geometric mean", "median", "worst", "of", "fastest of all on"),
    *("with a kernel", "candidates", "model calls", "tokens", "cost", "time of runs"),
)
MEAN_NOTE = (
    "A task without a kernel that stands counts as the baseline, 1x. `capped` counts each task at "
    "most at the published figure. Published figures are of other GPUs and other baselines."
)
SETTING_NOTE = (
    "Each setting over the tasks that are done under every one, so that all means are of the same "
    "tasks. On a task that two settings do equally well both are the fastest."
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
    swept = SWEPT if plan.sweep else ()
    means = [cells for one in aggregate(rows) for cells in mean_cells(one)]
    sizes = [cells for row in rows for cells in size_cells(row)]
    tables = [
        Table(title="Over all tasks", rows=((*swept, *MEAN_HEAD), *means), note=MEAN_NOTE),
        Table(
            title="Tasks",
            rows=(behind_task(swept, TASK_HEAD), *map(task_cells, rows)),
            note=TASK_NOTE,
        ),
        Table(title="Sizes", rows=(behind_task(swept, SIZE_HEAD), *sizes), note=SIZE_NOTE),
    ]
    what = f"Benchmark of {len(rows)} tasks"
    if plan.sweep:
        compared = map(setting_row, compare(rows))
        head = (*SWEPT, *SETTING_HEAD)
        tables.insert(0, Table(title="Settings", rows=(head, *compared), note=SETTING_NOTE))
        what = f"Sweep of {len(rows)} runs"
    return Page(
        title=f"{what}, {done} done: {plan.device}",
        facts=tuple(map(printable, facts(plan, rows))),
        tables=tuple(tables),
        notes=tuple(map(printable, notes(rows))),
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
    if plan.sweep:
        yield f"swept: {_swept(list(plan.sweep.values()))}"
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


def _swept(settings: Sequence[Setting]) -> str:
    """Return `seed = 0, 1; strategy = fsr`: the values of each option over all runs."""
    values = {
        name: dict.fromkeys(str(getattr(one, name)) or "none" for one in settings) for name in SWEPT
    }
    return "; ".join(f"{name} = {', '.join(found)}" for name, found in values.items())


def _plain(value: object) -> str:
    return " ".join(str(value).split())


def notes(rows: Iterable[TaskRow]) -> Iterator[str]:
    """Yield what went wrong, and why a column is empty."""
    for row in rows:
        if row.state != "done":
            yield f"{row.name}: {row.state}" + (f": {row.error}" if row.error else "")
        elif not row.best:
            yield f"{row.name}: no kernel stands, the baseline is the answer"
        if row.not_inspected:
            yield f"{UNINSPECTED} {row.name}: {row.best} was not inspected: {row.not_inspected}"
    without: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.libraries_note:
            without.setdefault(row.libraries_note, {})[row.task] = None
    for note, tasks in without.items():
        yield f"library of {', '.join(tasks)}: {note}"


def size_cells(row: TaskRow) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each timed size."""
    for size in row.sizes:
        library = size.library
        yield (
            row.task,
            *setting_cells(row.setting),
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
        own = (row.task, *setting_cells(row.setting))
        return (*own, row.state, *[NONE] * (len(TASK_HEAD) - 2))
    codes = ", ".join(f"{code} {count}" for code, count in row.verdicts.items())
    first, asked = row.first_appeared, row.asked_as_published
    theirs = f"{len(row.passes_theirs_fails_ours)} of {asked}" if asked else NONE
    stages = ("total", "model", "compile", "validate", "profile", "contest")
    return (
        row.task,
        *setting_cells(row.setting),
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


def setting_cells(setting: Setting | None) -> tuple[str, ...]:
    """Return seed, strategy and model; nothing without a sweep."""
    if setting is None:
        return ()
    return (str(setting.seed), setting.strategy, setting.model or NONE)


def behind_task(cells: tuple[str, ...], row: tuple[str, ...]) -> tuple[str, ...]:
    """Return a row with cells behind its first."""
    return (row[0], *cells, *row[1:])


def setting_row(one: SettingComparison) -> tuple[str, ...]:
    """Return the cells of one setting beside the others."""
    sums = one.totals
    return (
        *setting_cells(one.setting),
        *spread_cells("", one.time_source, one.speedup, factor)[1:],
        str(one.fastest),
        str(one.with_a_kernel),
        str(sums.evaluations),
        str(sums.model_calls),
        f"{sums.input_tokens + sums.output_tokens:,}",
        money(sums.usd),
        duration(sums.seconds),
    )


def author(row: TaskRow) -> str:
    """Return who wrote the answer."""
    if not row.written_by:
        return "baseline"
    return f"model ({row.model})" if row.written_by == "model" and row.model else row.written_by


def mean_cells(one: Aggregates) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each figure over all tasks."""
    own = setting_cells(one.setting)
    for figure in _figures(one):
        yield (*own, *figure)


def _figures(one: Aggregates) -> Iterator[tuple[str, ...]]:
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
        capped = f"ours, capped at {theirs.gpu} ({theirs.source})"
        yield spread_cells(capped, one.time_source, theirs.capped, factor)
        yield spread_cells("  ours, the same tasks", one.time_source, theirs.ours, factor)
        yield spread_cells("  published", "theirs", theirs.published, factor)


def spread_cells(
    name: str, source: str, of: Spread, spell: Callable[[float], str]
) -> tuple[str, ...]:
    """Return the cells of one figure."""
    figures = (of.geometric_mean, of.median, of.worst)
    return (name, source, str(of.count), *map(spell, figures), of.worst_task)


def factor(value: float | None) -> str:
    """Return a factor as text, as in `2.85x`, or a dash for None."""
    return NONE if value is None else f"{value:.2f}x"


def share(value: float | None) -> str:
    """Return a share between 0 and 1 as text in percent, or a dash for None."""
    return NONE if value is None else f"{value:.1%}".replace("%", " %")


def money(usd: float | None) -> str:
    """Return an amount of US dollars as text with cents, such as `$0.06`."""
    return "price unknown" if usd is None else f"${usd:.2f}"
