"""All sizes of a candidate beside the baseline, on a site that measures."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Session, Site, TimeClass, TimedSession
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.profiler.explain_measured import profile_call
from cuda_llm.tools.timing.baseline_doubt import (
    Readings,
    SizeKey,
    describe_apart,
    judge_processes,
    readings_beside,
    size_key,
    sizes_apart,
    slower_sizes,
)
from cuda_llm.tools.timing.baseline_time import SLOW_US, BaselineTime, keep_time
from cuda_llm.tools.timing.batches import AGAIN, CANDIDATE, EMPTY, INCUMBENT, INCUMBENT_EMPTY
from cuda_llm.tools.timing.blocks import (
    TimedGroup,
    TimedSize,
    begin_size,
    reserve_slots,
    time_blocks,
    verify_calls,
)
from cuda_llm.tools.timing.cheating import NoCheating
from cuda_llm.tools.timing.clocks import summarise_clocks
from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    SMALLEST_FLOOR,
    Comparison,
    compare_blocks,
)
from cuda_llm.tools.timing.estimate import Estimate
from cuda_llm.tools.timing.failures import FailedCase, hidden_by_doubt
from cuda_llm.tools.timing.measurement import (
    Measurement,
    know_baseline,
    open_ground,
    open_measurement,
    require_baseline,
    require_timed,
    shuffled,
    time_baseline_at,
    time_file,
    time_in_new_process,
)
from cuda_llm.tools.timing.options import L2, MeasureOptions
from cuda_llm.tools.timing.room import within_memory
from cuda_llm.tools.timing.single_cases import find_timed_case
from cuda_llm.tools.timing.stopping import CHECK_EVERY, StoppingRule, has_enough, rule_for
from cuda_llm.tools.timing.times import KernelTimes, find_too_quick
from cuda_llm.tools.timing.verify import explain_call_once
from cuda_llm.tools.validator.budget import SizePlan

_log = Log(__name__)

CACHED_NOTE = "the baseline is too slow to run beside each candidate: its time was measured earlier"
HOST_NOTE = "solve decides on results it reads back, so the time includes its host part"


async def measure_candidate(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Baseline,
    options: MeasureOptions,
    *,
    fresh: bool = False,
    begins_small: bool = True,
) -> KernelTimes | Verdict | FailedCase:
    """Time the bench sizes that fit, the baseline interleaved; stop at the first fault.

    The inputs are new each time; with `fresh`, the baseline's runner is too. A small case comes
    before each size, before the first one where it `begins_small`. Where the baseline takes another
    time than its reference, see `measure_again`; where memory lacks, `within_memory`. Raises
    TaskError where the reference is broken or the baseline refused.
    """
    work = partial(
        _measure_within,
        site,
        task,
        compiled,
        baseline,
        options,
        fresh=fresh,
        begins_small=begins_small,
    )
    return await within_memory(site, task, work)


async def _measure_within(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Baseline,
    options: MeasureOptions,
    *,
    fresh: bool,
    begins_small: bool,
) -> KernelTimes | Verdict | FailedCase:
    """Measure a candidate with the share of memory that the site plans with now."""
    async with open_measurement(
        site, task, baseline, options, begins_small=begins_small
    ) as measurement:
        reference = await know_baseline(measurement, baseline)
        measured = await measure_beside(measurement, compiled, baseline, fresh=fresh)
        if not isinstance(measured, KernelTimes):
            return measured
        if not sizes_apart(readings_beside(measured), reference):
            return measured
        return await measure_again(measurement, compiled, baseline, measured, reference)


async def measure_beside(
    measurement: Measurement, compiled: Compiled, baseline: Baseline, *, fresh: bool
) -> KernelTimes | Verdict | FailedCase:
    """Open both kernels and time all sizes; with `fresh`, the baseline's runner is new."""
    site = measurement.site
    open_baseline = site.open if fresh else site.open_cached
    async with (
        site.open(compiled) as session,
        open_baseline(baseline) as opened,
        open_ground(measurement, baseline) as ground,
    ):
        if not isinstance(session, Session):
            return session
        return await measure_sizes(
            measurement,
            require_timed(session),
            require_baseline(measurement.task, opened),
            ground,
        )


async def measure_again(
    measurement: Measurement,
    compiled: Compiled,
    baseline: Baseline,
    first: KernelTimes,
    reference: Mapping[SizeKey, BaselineTime],
) -> KernelTimes | Verdict | FailedCase:
    """Time all once more beside a new process of the baseline, and return what two of them say.

    The cached process is used no more, nor its memory, which it holds until the new one has ended:
    that may be what was slow. Where both took the same, they replace the reference; but more than
    that only if the baseline alone takes as much, for a kernel may slow down what runs beside it.
    Raises TaskError.
    """
    measurement.site.retire_cached()
    second = await measure_beside(measurement, compiled, baseline, fresh=True)
    if not isinstance(second, KernelTimes):
        return second
    before, after = readings_beside(first), readings_beside(second)
    outcome = judge_processes(before, after, reference)
    alone: Mapping[SizeKey, BaselineTime] = {}
    if outcome == "stale-reference":
        slower = slower_sizes(after, reference)
        sizes = [one for one in measurement.plan.sizes if size_key(one.dims) in slower]
        alone = await time_in_new_process(measurement, baseline, sizes) if sizes else {}
        if sizes_apart(alone, after):
            outcome = "unsettled"
        else:
            replace_reference(measurement, reference, after)
    doubt = describe_apart(outcome, before, after, reference, alone)
    _log.warning("a baseline took another time than before", kernel=compiled.name, **asdict(doubt))
    return replace(second, doubt=doubt) if outcome != "unsettled" else hidden_by_doubt(doubt)


def replace_reference(
    measurement: Measurement, reference: Mapping[SizeKey, BaselineTime], now: Readings
) -> None:
    """Cache what the baseline takes now at the sizes where that differs from its reference."""
    files = {size_key(one.dims): time_file(measurement, one) for one in measurement.plan.sizes}
    for key in sizes_apart(now, reference):
        one = now[key]
        changed = {"call_us": one.call_us, "spread": one.spread, "sm_mhz": one.sm_mhz}
        keep_time(files[key], replace(reference[key], **changed))


async def measure_sizes(
    measurement: Measurement,
    candidate: TimedSession,
    baseline: TimedSession,
    ground: TimedSession | None,
) -> KernelTimes | Verdict | FailedCase:
    """Time each size, compare it with its physical floor, then explain one call.

    Sizes come in random order, as in a process that is validated. `ground` is the session of
    batches without calls where the baseline is a library's call.
    """
    options, plan = measurement.options, measurement.plan
    rule = rule_for(options.tier, len(plan.sizes), measurement.limit_s, proved=options.proved)
    group = TimedGroup(
        measurement=measurement,
        sessions={
            CANDIDATE: candidate,
            INCUMBENT: baseline,
            **({AGAIN: baseline} if rule.compares_same else {}),
            **({INCUMBENT_EMPTY: baseline} if ground is not None else {}),
            EMPTY: baseline if ground is None else ground,
        },
        trusted=frozenset({INCUMBENT, AGAIN, EMPTY, INCUMBENT_EMPTY}),
        aim=rule.aim,
        most_calls=rule.slots,
        active=[CANDIDATE],
        paces={INCUMBENT: 1.0},
    )
    await reserve_slots(group)
    timed_sizes: dict[int, SizeTime] = {}
    for number, size in shuffled(plan.sizes):
        alone = len(plan.sizes) == 1  # no small case would come after it
        begins_small = measurement.begins_small or alone or bool(timed_sizes)
        timed = await time_size(group, rule, number, size, begins_small=begins_small)
        if not isinstance(timed, SizeTime):
            return timed
        timed_sizes[number] = timed
    times = [timed_sizes[number] for number in sorted(timed_sizes)]
    if not times:
        return InfraFailed(component="device", detail="; ".join(plan.left_out))
    input_plan = measurement.input_plan(plan.sizes[-1])
    report = await explain_call_once(candidate, input_plan, measurement.oracle)
    if not isinstance(report, CallReport):
        return find_timed_case(measurement, report, input_plan)
    last = times[-1]
    explained = profile_call(
        measurement.task, last.dims, last.time_us, report.launches, measurement.site.hardware
    )
    return KernelTimes(
        times=tuple((one.dims, one.time_us) for one in times),
        launches=explained.launches,
        bottlenecks=explained.bottlenecks,
        sizes=tuple(times),
        left_out=plan.left_out,
        notes=plan.how_checked,
        device=measurement.site.name,
        hardware=measurement.site.hardware.name,
        isolation=measurement.site.confined,
    )


async def time_size(
    group: TimedGroup, rule: StoppingRule, number: int, size: SizePlan, *, begins_small: bool
) -> SizeTime | Verdict | FailedCase:
    """Time one size beside the baseline, or against its cached time where it is slow; with
    `begins_small`, after a small case."""
    measurement, now_s = group.measurement, asyncio.get_running_loop().time
    baseline_time = await time_baseline_at(measurement, group.sessions[INCUMBENT], size)
    alone = baseline_time.is_slow
    timed = await begin_size(
        group,
        number,
        size,
        baseline_time,
        called=[CANDIDATE] if begins_small else [],
        alone=alone,
        discard=1 if alone else rule.discard,
    )
    begun_s = now_s()

    def is_enough() -> bool:
        if alone and (timed.time_us(CANDIDATE) or 0.0) > SLOW_US:
            return True
        blocks, check_every = timed.blocks_of(CANDIDATE), 1 if alone else CHECK_EVERY
        return has_enough(rule, blocks, now_s() - begun_s, check_every=check_every)

    await time_blocks(group, timed, is_enough)
    honest = await verify_calls(group, CANDIDATE, rule.stepwise)
    if honest is None:
        return group.faults[CANDIDATE]
    floor = SMALLEST_FLOOR if rule.compares_same else FLOOR_FACTOR * baseline_time.spread
    comparison = compare_blocks(timed.blocks_of(CANDIDATE), least_floor=max(SMALLEST_FLOOR, floor))
    comparison = against_cached_time(comparison, baseline_time) if alone else comparison
    l2 = measurement.options.l2
    too_quick = find_too_quick(
        measurement.task,
        measurement.site.hardware,
        size.dims,
        comparison,
        l2_warm=l2 is L2.WARM,
    )
    return too_quick or describe_size(timed, comparison, honest, l2)


def against_cached_time(alone: Comparison, baseline: BaselineTime) -> Comparison:
    """Compare a kernel timed alone with a cached time of the baseline: both intervals count."""
    first = alone.first_us
    if alone.blocks < 3:
        first = within(first.value, SMALLEST_FLOOR)
    second = within(baseline.call_us, baseline.spread)
    return replace(
        alone,
        first_us=first,
        second_us=second,
        ratio=first.value / second.value,
        low=first.low / second.high,
        high=first.high / second.low,
        floor=max(SMALLEST_FLOOR, math.expm1(FLOOR_FACTOR * baseline.spread)),
    )


def within(value: float, share: float) -> Estimate:
    """Return an estimate of something above 0 whose interval reaches as far as this share of it on
    either side, as a factor: a share above 1 leaves the lower end above 0 too."""
    return Estimate(value=value, low=value / (1 + share), high=value * (1 + share))


def describe_size(timed: TimedSize, comparison: Comparison, honest: NoCheating, l2: L2) -> SizeTime:
    """Return times, intervals and outcome of a size; the speed-up is the inverse of the ratio."""
    includes_host = CANDIDATE in timed.by_host
    notes = [HOST_NOTE] if includes_host else []
    notes += [CACHED_NOTE] if timed.alone else []
    notes += [honest.note] if honest.note else []
    readings = [reading for one in timed.blocks for reading in one.readings]
    throttled = sum(one.throttled for one in timed.settled_blocks_of(CANDIDATE))
    return SizeTime(
        dims=dict(timed.size.dims),
        time_us=comparison.first_us.value,
        baseline_us=comparison.second_us.value,
        source="measured",
        spread=relative_spread(comparison.first_us),
        baseline_spread=relative_spread(comparison.second_us),
        paired_speedup=1 / comparison.ratio,
        speedup_low=1 / comparison.high,
        speedup_high=1 / comparison.low,
        outcome=comparison.outcome,
        floor=comparison.floor,
        time_class=str(TimeClass.HOST_INCLUSIVE if includes_host else TimeClass.DEVICE),
        l2=str(l2),
        blocks=comparison.blocks,
        clocks=summarise_clocks(readings, throttled),
        stepwise_us=honest.stepwise_us,
        peak_bytes=timed.size.peak_bytes,
        note="; ".join(notes),
    )


def relative_spread(estimate: Estimate) -> float:
    """Return the relative half-width."""
    return estimate.half_width / estimate.value


async def measure_baseline(
    site: Site, task: Task, baseline: Baseline, options: MeasureOptions
) -> KernelTimes:
    """Return the baseline's own times of the sizes that fit, measured at most once for each.

    Raises TaskError where it is refused.
    """
    work = partial(_baseline_within, site, task, baseline, options)
    return await within_memory(site, task, work)


async def _baseline_within(
    site: Site, task: Task, baseline: Baseline, options: MeasureOptions
) -> KernelTimes:
    """Time the baseline with the share of memory that the site plans with now."""
    async with (
        open_measurement(site, task, baseline, options) as measurement,
        site.open_cached(baseline) as opened,
    ):
        known = await know_baseline(measurement, baseline, require_baseline(task, opened))
        sizes = measurement.plan.sizes
        times = [(dict(one.dims), known[size_key(one.dims)].call_us) for one in sizes]
    return KernelTimes(
        times=tuple(times),
        launches=(),
        bottlenecks=(),
        left_out=measurement.plan.left_out,
        device=site.name,
        hardware=site.hardware.name,
        isolation=site.confined,
    )
