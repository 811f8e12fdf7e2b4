"""The page of a benchmark before any markup: headings, tables and notes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from cuda_llm.graph.benchmark.aggregates import (
    FAST,
    Aggregates,
    SettingComparison,
    Spread,
    aggregate,
    compare,
    total,
)
from cuda_llm.graph.benchmark.folder import BenchmarkPlan
from cuda_llm.graph.benchmark.paired import FEWEST_PAIRS, PairedComparison, compare_pairs
from cuda_llm.graph.benchmark.row import SizeRow, TaskRow
from cuda_llm.graph.benchmark.sweep import Setting, spell_value, values_of
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
    *("task", "speed-up", "library / best", "over the playbook", "roofline", "written by"),
    *("winner", "passed in round 1", "passed", "verdicts", "passes theirs, fails ours"),
)
STAGE_HEAD = ("total", "model", "compile", "validate", "profile", "contest", "own")
COST_HEAD = (
    *("task", "rounds", "winner's round", "calls until winner", "model calls", "tokens in"),
    *("tokens out", "cost", "cost until winner", "time until winner", *STAGE_HEAD),
    *("launches to pay", "a size each", "limited by, after each round"),
)
MEAN_HEAD = ("figure", "times", "runs", "geometric mean", "median", "worst", "of")
FAST_HEAD = ("times", "runs", *(f"fast_{p}" for p in FAST))
SETTING_HEAD = (
    *("times", "runs", "geometric mean", "median", "worst", "of", "fastest of all on"),
    *("with a kernel", "candidates", "model calls", "tokens", "cost", *STAGE_HEAD),
)
PAIRED_HEAD = (
    *("option", "value", "beside", "times", "ratio of speed-ups", "95 % interval", "finding"),
    *("pairs", "tasks", "runs without a pair", "tie below"),
)
MEAN_NOTE = (
    "Over all tasks, and all seeds where seeds are swept beside another option. A task without a "
    "kernel that stands counts as the baseline, 1x. `capped` counts each task at most at the "
    "published figure. Published figures are of other GPUs and other baselines."
)
FAST_NOTE = (
    "KernelBench's measure: the part of the runs that are done whose kernel passed and is more "
    "than p times as fast as the task's baseline; an imported problem's is its PyTorch module."
)
SETTING_NOTE = (
    "Each setting over the tasks and seeds that are done under every one, so that all means are of "
    "the same runs. On a run that two settings do equally well both are the fastest. Seconds of "
    "stages overlap; `own` is none of them."
)
PAIRED_NOTE = (
    "Speed-up with the value over the speed-up with the value that stands beside it, in pairs of "
    "runs of the same task, seed and other options: geometric mean, and a bootstrap interval over "
    "tasks and over the pairs of a task, widened for few. A tie: the interval holds 1, or the "
    "ratio is below what two equal kernels may differ by. Fewer than "
    f"{FEWEST_PAIRS} pairs tell no difference."
)
TASK_NOTE = (
    "Speed-up over the task's own baseline, over all its sizes, as judged again at the end; below "
    "1x the winner is slower. `over the playbook`: beside the speed-up of the playbook's run in "
    "the same sweep, or in the benchmark that stands beside. `passed in round 1`: of the kernels "
    "that the generator wrote first. `passes theirs, fails ours`: of the candidates of which it is "
    "known, those that the check published with the task accepts and ours refuses."
)
COST_NOTE = (
    "Seconds of stages overlap; `own` is none of them. `launches to pay`: the wall time of the "
    "search over the time that a launch of the winner saves, by the geometric means over the "
    "sizes, then at each size. A saving that is modelled has paid for nothing: it would."
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
    swept = tuple(values_of(plan.sweep.values()))
    found = aggregate(rows)
    compared = tuple(values_of(one.setting for one in found))
    means = [cells for one in found for cells in mean_cells(one)]
    sizes = [cells for row in rows for cells in size_cells(row)]
    tables = [
        Table(title="Over all tasks", rows=((*compared, *MEAN_HEAD), *means), note=MEAN_NOTE),
        Table(
            title="fast_p", rows=((*compared, *FAST_HEAD), *map(fast_cells, found)), note=FAST_NOTE
        ),
        Table(
            title="Tasks",
            rows=(behind_task(swept, TASK_HEAD), *map(task_cells, rows), *task_means(found, swept)),
            note=TASK_NOTE,
        ),
        Table(
            title="Search",
            rows=(behind_task(swept, COST_HEAD), *map(cost_cells, rows)),
            note=COST_NOTE,
        ),
        Table(title="Sizes", rows=(behind_task(swept, SIZE_HEAD), *sizes), note=SIZE_NOTE),
    ]
    what = f"Benchmark of {len(rows)} tasks"
    if plan.sweep:
        tables[:0] = sweep_tables(rows)
        what = f"Sweep of {len(rows)} runs"
    return Page(
        title=f"{what}, {done} done: {plan.device}",
        facts=tuple(map(printable, facts(plan, rows))),
        tables=tuple(tables),
        notes=tuple(map(printable, notes(rows))),
    )


def sweep_tables(rows: Sequence[TaskRow]) -> list[Table]:
    """Return what a sweep has beside its runs: its settings, and the pairs of each option."""
    compared = compare(rows)
    options = tuple(values_of(one.setting for one in compared))
    settings = Table(
        title="Settings",
        rows=((*options, *SETTING_HEAD), *map(setting_row, compared)),
        note=SETTING_NOTE,
    )
    paired = compare_pairs(rows)
    if not paired:
        return [settings]
    pairs = Table(title="Pairs", rows=(PAIRED_HEAD, *map(paired_row, paired)), note=PAIRED_NOTE)
    return [settings, pairs]


def task_means(found: Iterable[Aggregates], swept: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the geometric means over the tasks, for each setting and source of times."""
    for one in found:
        yield (
            f"geometric mean of {one.tasks}, {one.time_source}",
            *(spell_value(one.setting[name]) if name in one.setting else NONE for name in swept),
            factor(one.speedup.geometric_mean),
            factor(one.over_library.geometric_mean if one.over_library else None),
            factor(one.over_playbook.geometric_mean if one.over_playbook else None),
            share(one.roofline_share.geometric_mean if one.roofline_share else None),
            *[NONE] * (len(TASK_HEAD) - 5),
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
    if plan.preset:
        yield f"preset: {plan.preset}"
    if plan.beside:
        yield f"playbook beside: {plan.beside}"
    if plan.sweep:
        yield f"swept: {_swept(plan.sweep.values())}"
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


def _swept(settings: Iterable[Setting]) -> str:
    """Return `seed = 0, 1; strategy = fsr`: the values of each option over all runs."""
    return "; ".join(
        f"{name} = {', '.join(map(spell_value, values))}"
        for name, values in values_of(settings).items()
    )


def _plain(value: object) -> str:
    return " ".join(str(value).split())


def notes(rows: Iterable[TaskRow]) -> Iterator[str]:
    """Yield what went wrong, and why a column is empty."""
    for row in rows:
        if row.state != "done":
            yield f"{row.name}: {row.state}" + (f": {row.error}" if row.error else "")
        elif row.error:
            yield f"{row.name}: {row.error}"
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
    """Return the cells of one task: how fast its winner is, and what was right."""
    own = (row.task, *setting_cells(row.setting))
    if not row.run:
        return (*own, row.state, *[NONE] * (len(TASK_HEAD) - 2))
    codes = ", ".join(f"{code} {count}" for code, count in row.verdicts.items())
    asked = row.asked_as_published
    theirs = f"{len(row.passes_theirs_fails_ours)} of {asked}" if asked else NONE
    return (
        *own,
        factor(row.speedup) if row.state == "done" else row.state,
        factor(row.over_library),
        factor(row.over_playbook),
        share(row.roofline_share),
        author(row),
        (row.best or NONE) + (f" {UNINSPECTED}" if row.not_inspected else ""),
        f"{row.first_round_passed} of {row.first_round_evaluations}",
        f"{row.passed} of {row.evaluations}",
        codes or NONE,
        theirs,
    )


def cost_cells(row: TaskRow) -> tuple[str, ...]:
    """Return the cells of one search: what it spent, when its winner appeared, what that pays."""
    own = (row.task, *setting_cells(row.setting))
    if not row.run:
        return (*own, row.state, *[NONE] * (len(COST_HEAD) - 2))
    first = row.first_appeared
    return (
        *own,
        str(row.rounds),
        str(row.best_round) if row.best else NONE,
        str(first.model_calls) if first else NONE,
        str(row.model_calls),
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        money(row.usd),
        money(first.usd) if first else NONE,
        f"{first.seconds:.1f} s" if first else NONE,
        *(f"{row.seconds.get(name, 0.0):.1f} s" for name in STAGE_HEAD),
        launches(row, [row.sizes]),
        launches(row, [(size,) for size in row.sizes]),
        ", ".join(limited_rounds(row.limiters)) or NONE,
    )


def limited_rounds(limiters: Sequence[str]) -> Iterator[str]:
    """Yield `1-3: atomic_contention`: rounds after which the same limits the incumbent."""
    first = 1
    for code, same in groupby(limiters):
        last = first + len([*same]) - 1
        yield f"{first}-{last}: {code or NONE}" if last > first else f"{first}: {code or NONE}"
        first = last + 1


def launches(row: TaskRow, groups: Iterable[Sequence[SizeRow]]) -> str:
    """Return the launches after which the search has paid, at the sizes of each group."""
    counts = [row.launches_to_pay(sizes) for sizes in groups if sizes]
    text = "; ".join("never" if count is None else f"{count:,}" for count in counts)
    is_modelled = row.time_source == "modelled" and any(counts)
    return f"{text} (modelled)" if is_modelled else text or NONE


def setting_cells(setting: Setting) -> tuple[str, ...]:
    """Return the values of the swept options; nothing without a sweep."""
    return tuple(map(spell_value, setting.values()))


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
        *(f"{sums.stages[name]:.1f} s" for name in STAGE_HEAD),
    )


def paired_row(one: PairedComparison) -> tuple[str, ...]:
    """Return the cells of one comparison of two values."""
    return (
        one.option,
        spell_value(one.value),
        spell_value(one.reference),
        one.time_source,
        factor(one.ratio),
        f"{one.low:.2f}x to {one.high:.2f}x",
        one.finding,
        str(one.pairs),
        str(one.tasks),
        str(one.unpaired),
        share(one.floor),
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


def fast_cells(one: Aggregates) -> tuple[str, ...]:
    """Return the cells of KernelBench's measure."""
    shares = map(share, one.fast_p.values())
    return (*setting_cells(one.setting), one.time_source, str(one.tasks), *shares)


def _figures(one: Aggregates) -> Iterator[tuple[str, ...]]:
    yield spread_cells("speed-up over the baseline", one.time_source, one.speedup, factor)
    shares = (
        ("roofline, best", one.roofline_share),
        ("roofline, baseline", one.baseline_roofline_share),
    )
    for name, value in shares:
        if value is not None:
            yield spread_cells(name, one.time_source, value, share)
    over = (("library / best", one.over_library), ("over the playbook", one.over_playbook))
    for name, value in over:
        if value is not None:
            yield spread_cells(name, one.time_source, value, factor)
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
