"""All sizes of a candidate beside the baseline, on a site that measures."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial

from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Session, Site
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
from cuda_llm.tools.timing.baseline_time import BaselineTime, keep_time
from cuda_llm.tools.timing.blocks import (
    ComparedSessions,
    MeasurementFault,
    require_baseline,
    require_timed,
)
from cuda_llm.tools.timing.failures import FailedCase, hidden_by_doubt
from cuda_llm.tools.timing.interleave import (
    ASSUMED_SPEEDUP,
    MeasuredSize,
    measure_alone,
    measure_size,
)
from cuda_llm.tools.timing.measurement import (
    Measurement,
    know_baseline,
    open_ground,
    open_measurement,
    reserve_all,
    rules_for,
    shuffled,
    time_baseline_at,
    time_file,
    time_in_new_process,
)
from cuda_llm.tools.timing.options import L2, MeasureOptions
from cuda_llm.tools.timing.room import within_memory
from cuda_llm.tools.timing.single_cases import (
    check_small_case,
    find_timed_case,
    with_timed_case,
)
from cuda_llm.tools.timing.stopping import rule_for
from cuda_llm.tools.timing.times import KernelTimes, find_too_quick, size_time
from cuda_llm.tools.timing.verify import explain_call_once
from cuda_llm.tools.validator.budget import SizePlan

_log = Log(__name__)


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
    """Measure with the memory that is planned with now."""
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
        sessions = ComparedSessions(
            candidate=require_timed(session),
            baseline=require_baseline(measurement.task, opened),
            idle=ground,
        )
        return await measure_sizes(measurement, sessions)


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
    measurement: Measurement, sessions: ComparedSessions
) -> KernelTimes | Verdict | FailedCase:
    """Time each size, compare it with its physical floor, then explain one call.

    Sizes come in random order, as in a process that is validated.
    """
    await reserve_all(measurement, sessions)
    timed_sizes: dict[int, SizeTime] = {}
    pace = ASSUMED_SPEEDUP
    for number, size in shuffled(measurement.plan.sizes):
        alone = len(measurement.plan.sizes) == 1  # no small case would come after it
        begins_small = measurement.begins_small or alone or bool(timed_sizes)
        measured, baseline_time = await time_size(
            measurement, sessions, size, pace, begins_small=begins_small
        )
        if isinstance(measured, MeasurementFault):
            found = with_timed_case(measurement, measured, measurement.input_plan(size))
            return found.failed or found.verdict
        pace = baseline_time.call_us / measured.comparison.first_us.value
        l2 = measurement.options.l2
        timed = size_time(size.dims, measured, l2, against_cached=baseline_time.is_slow)
        too_quick = find_too_quick(
            measurement.task,
            measurement.site.hardware,
            size.dims,
            measured.comparison,
            l2_warm=l2 is L2.WARM,
        )
        if too_quick is not None:
            return too_quick
        timed_sizes[number] = replace(timed, peak_bytes=size.peak_bytes)
    times = [timed_sizes[number] for number in sorted(timed_sizes)]
    if not times:
        return InfraFailed(component="device", detail="; ".join(measurement.plan.left_out))
    input_plan = measurement.input_plan(measurement.plan.sizes[-1])
    report = await explain_call_once(sessions.candidate, input_plan, measurement.oracle)
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
        left_out=measurement.plan.left_out,
        notes=measurement.plan.how_checked,
        device=measurement.site.name,
        hardware=measurement.site.hardware.name,
        isolation=measurement.site.confined,
    )


async def time_size(
    measurement: Measurement,
    sessions: ComparedSessions,
    size: SizePlan,
    pace: float,
    *,
    begins_small: bool = True,
) -> tuple[MeasuredSize | MeasurementFault, BaselineTime]:
    """Time one size beside the baseline or against its cached time; or first a small case."""
    input_plan = measurement.input_plan(size)
    baseline_time = await time_baseline_at(measurement, sessions.baseline, size)
    found = await check_small_case(measurement, sessions.candidate) if begins_small else None
    if found is not None:
        failed = found if isinstance(found, FailedCase) else None
        verdict = found.verdict if isinstance(found, FailedCase) else found
        fault = MeasurementFault(which="first", verdict=verdict, failed=failed, at_small_case=True)
        return fault, baseline_time
    rules = rules_for(measurement, size, baseline_time)
    rule = rule_for(
        measurement.options.tier,
        len(measurement.plan.sizes),
        measurement.limit_s,
        proved=measurement.options.proved,
    )
    if baseline_time.is_slow:
        slowly = await measure_alone(
            sessions,
            input_plan,
            rules,
            rule,
            baseline_time,
            room=measurement.room(size),
        )
        return slowly, baseline_time
    measured = await measure_size(
        sessions,
        input_plan,
        rules,
        rule,
        baseline_time,
        pace,
        room=measurement.room(size),
    )
    return measured, baseline_time


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
    """Measure it with the memory that is planned with now."""
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
