"""From rows to the figures of a whole benchmark: means, never the largest alone."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import geometric_mean, median
from types import MappingProxyType

from cuda_llm.codec import SPARSE
from cuda_llm.graph.benchmark.row import STAGES, TaskRow
from cuda_llm.graph.benchmark.sweep import SEED, Setting, spell_setting, spell_value, without_seed
from cuda_llm.profile import TimeSource
from cuda_llm.tasks.task import PublishedSpeedup

FAST: Mapping[str, float] = MappingProxyType(
    {"0": 0.0, "0.5": 0.5, "0.8": 0.8, "1": 1.0, "1.5": 1.5, "2": 2.0}
)
"""The p at which KernelBench states fast_p, by their spelling."""
SOURCES: tuple[TimeSource, ...] = ("measured", "modelled")


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Positive figures of several tasks."""

    count: int
    geometric_mean: float
    median: float
    worst: float
    worst_task: str


@dataclass(frozen=True, kw_only=True)
class BesidePublished:
    """Our speed-ups beside one column of published ones, over the tasks that are in both.

    GPUs and baselines differ, so this is no race: it shows that no mean hangs on single tasks.
    """

    gpu: str
    source: str
    published: Spread
    ours: Spread
    capped: Spread
    """Ours, each task at most as fast as published: nothing is gained by a few huge factors."""


@dataclass(frozen=True, kw_only=True)
class Aggregates:
    """The figures of all tasks whose times have one source. A task without a winner counts as the
    baseline, 1x, which is the kernel that its user has."""

    time_source: TimeSource
    tasks: int
    """Runs, one for each task, in a sweep of seeds one for each task and seed."""
    with_a_kernel: int
    speedup: Spread
    """Spread of the speed-ups over the baselines of the tasks."""
    fast_p: Mapping[str, float]
    """By p of FAST: part of the runs, 0 to 1, with a kernel that passed and is more than p times as
    fast as the task's baseline."""
    roofline_share: Spread | None
    """Spread over the tasks of the geometric mean, over a task's sizes, of the winner's part of the
    roofline. None without a kernel."""
    baseline_roofline_share: Spread | None
    over_library: Spread | None
    """Spread of the library's time over the winner's time; None where no task has a library."""
    over_playbook: Spread | None
    """Spread of the speed-ups over the playbook's; None where no run of the playbook stands
    beside."""
    beside_published: tuple[BesidePublished, ...] = ()
    setting: Setting = field(default_factory=dict, metadata=SPARSE)
    """Setting that all these runs of a sweep have, without the seed; empty without a sweep."""


@dataclass(frozen=True, kw_only=True)
class SettingComparison:
    """One setting of a sweep beside the others, over the tasks and seeds that are done under all of
    them. Seeds are repetitions of a setting, unless nothing else is swept."""

    setting: Setting
    time_source: TimeSource
    speedup: Spread
    with_a_kernel: int
    fastest: int
    """Runs, by task and seed, on which no other setting has a higher speed-up."""
    totals: "Totals"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over all tasks, whatever their times come from."""

    tasks: int
    done: int
    evaluations: int
    passed: int
    asked_as_published: int
    passes_theirs_fails_ours: int
    rounds: int
    model_calls: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    """None where the price of a call is unknown."""
    seconds: float
    """At work on runs, one after the other or not."""
    stages: Mapping[str, float]
    """Seconds by stage, as `STAGES` names the stages; all but `total` and `own` are summed over
    work that overlaps."""


Named = tuple[str, float]
"""A task and its figure."""


def aggregate(rows: Iterable[TaskRow]) -> tuple[Aggregates, ...]:
    """Return the figures of each setting and source of times; measured ones first, never two in
    one.

    Only tasks whose runs are done count. Seeds repeat a setting, unless nothing else is swept: a
    task counts once for each.
    """
    groups: dict[tuple[str, TimeSource], list[TaskRow]] = {}
    for one in rows:
        if one.is_timed and one.time_source is not None:
            cell = spell_setting(without_seed(one.setting))
            groups.setdefault((cell, one.time_source), []).append(one)
    settings = dict.fromkeys(setting for setting, _ in groups)
    return tuple(
        _aggregate(source, groups[setting, source])
        for setting in settings
        for source in SOURCES
        if (setting, source) in groups
    )


def compare(rows: Sequence[TaskRow]) -> tuple[SettingComparison, ...]:
    """Return each setting of a sweep beside the others; none without a task that all have done."""
    found = (_compare(source, rows) for source in SOURCES)
    return tuple(one for group in found for one in group)


def _compare(source: TimeSource, rows: Sequence[TaskRow]) -> Iterable[SettingComparison]:
    """Yield the comparisons of one source of times."""
    cells = {spell_setting(cell): cell for row in rows if (cell := without_seed(row.setting))}
    done = {
        (_repetition(row), spell_setting(without_seed(row.setting))): row
        for row in rows
        if row.is_timed and row.time_source == source
    }
    repeated = [
        one
        for one in dict.fromkeys(map(_repetition, rows))
        if all((one, cell) in done for cell in cells)
    ]
    best = {one: max(own_speedup(done[one, cell]) for cell in cells) for one in repeated}
    for spelled, setting in cells.items():
        own = {one: done[one, spelled] for one in repeated}
        speedups = spread([(row.task, own_speedup(row)) for row in own.values()])
        if speedups is not None:
            yield SettingComparison(
                setting=setting,
                time_source=source,
                speedup=speedups,
                with_a_kernel=sum(bool(row.best) for row in own.values()),
                fastest=sum(own_speedup(row) == best[one] for one, row in own.items()),
                totals=total([*own.values()]),
            )


def _repetition(row: TaskRow) -> tuple[str, str]:
    """Return the task and the seed of a run, where the seed repeats a setting."""
    is_repeated = SEED in row.setting and SEED not in without_seed(row.setting)
    return row.task, spell_value(row.setting[SEED]) if is_repeated else ""


def total(rows: Sequence[TaskRow]) -> Totals:
    """Return the sums of the rows' counts, tokens and prices over all tasks."""
    prices = [one.usd for one in rows]
    return Totals(
        tasks=len(rows),
        done=sum(one.state == "done" for one in rows),
        evaluations=sum(one.evaluations for one in rows),
        passed=sum(one.passed for one in rows),
        asked_as_published=sum(one.asked_as_published for one in rows),
        passes_theirs_fails_ours=sum(len(one.passes_theirs_fails_ours) for one in rows),
        rounds=sum(one.rounds for one in rows),
        model_calls=sum(one.model_calls for one in rows),
        input_tokens=sum(one.input_tokens for one in rows),
        output_tokens=sum(one.output_tokens for one in rows),
        usd=None if None in prices else fsum(price for price in prices if price is not None),
        seconds=fsum(one.seconds.get("total", 0.0) for one in rows),
        stages={
            stage: round(fsum(one.seconds.get(stage, 0.0) for one in rows), 3) for stage in STAGES
        },
    )


def spread(figures: Sequence[Named]) -> Spread | None:
    """Return mean, median and worst; None of no figures."""
    if not figures:
        return None
    values = [value for _, value in figures]
    name, worst = min(figures, key=lambda one: one[1])
    return Spread(
        count=len(values),
        geometric_mean=geometric_mean(values),
        median=median(values),
        worst=worst,
        worst_task=name,
    )


def own_speedup(row: TaskRow) -> float:
    """Return the task's speed-up; 1 where the baseline stays the answer."""
    return row.speedup or 1.0


def _aggregate(source: TimeSource, rows: Sequence[TaskRow]) -> Aggregates:
    speedups = spread([(one.task, own_speedup(one)) for one in rows])
    assert speedups is not None, "there are rows"
    return Aggregates(
        time_source=source,
        tasks=len(rows),
        with_a_kernel=sum(bool(one.best) for one in rows),
        speedup=speedups,
        fast_p={name: _share_above(p, rows) for name, p in FAST.items()},
        roofline_share=spread(_means(rows, lambda row: [one.roofline_share for one in row.sizes])),
        baseline_roofline_share=spread(
            _means(rows, lambda row: [one.baseline_roofline_share for one in row.sizes])
        ),
        over_library=spread(_means(rows, lambda row: [one.over_library for one in row.sizes])),
        over_playbook=spread(_means(rows, lambda row: [row.over_playbook])),
        beside_published=tuple(_beside_published(rows)),
        setting=without_seed(rows[0].setting),
    )


def _share_above(p: float, rows: Sequence[TaskRow]) -> float:
    """Return the part of the rows whose kernel passed and has a speed-up above p."""
    return sum(bool(one.best) and (one.speedup or 0.0) > p for one in rows) / len(rows)


def _means(
    rows: Iterable[TaskRow], figures: Callable[[TaskRow], Iterable[float | None]]
) -> list[Named]:
    """Return the geometric mean of each task's figures; tasks without one are left out."""
    found = [(row.task, [one for one in figures(row) if one]) for row in rows]
    return [(task, geometric_mean(values)) for task, values in found if values]


def _beside_published(rows: Sequence[TaskRow]) -> Iterable[BesidePublished]:
    """Yield a comparison for each GPU and source of published figures."""
    columns = dict.fromkeys((one.gpu, one.source) for row in rows for one in row.published)
    for gpu, source in columns:
        pairs = [
            (row.task, own_speedup(row), theirs.factor)
            for row in rows
            for theirs in row.published
            if _is_of(theirs, gpu, source)
        ]
        published = spread([(task, theirs) for task, _, theirs in pairs])
        ours = spread([(task, own) for task, own, _ in pairs])
        capped = spread([(task, min(own, theirs)) for task, own, theirs in pairs])
        assert published and ours and capped, "a column has a figure"
        yield BesidePublished(gpu=gpu, source=source, published=published, ours=ours, capped=capped)


def _is_of(one: PublishedSpeedup, gpu: str, source: str) -> bool:
    return (one.gpu, one.source) == (gpu, source)
