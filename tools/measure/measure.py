"""All sizes of a candidate beside the baseline, or of two candidates, on a site that measures."""

import math
from dataclasses import replace

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session, Site, TimedSession
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.measure.baseline_time import BaselineTime
from cuda_llm.tools.measure.blocks import (
    ComparedSessions,
    MeasurementFault,
    require_timed,
    secret_seed,
)
from cuda_llm.tools.measure.failures import (
    FailedCase,
    baseline_refused,
    find_failed_case,
)
from cuda_llm.tools.measure.interleave import (
    ExpectedSpeedups,
    MeasuredSize,
    expect_speedups,
    measure_alone,
    measure_size,
)
from cuda_llm.tools.measure.measurement import (
    Measurement,
    begin_with_small_cases,
    open_measurement,
    reserve_all,
    rules_for,
    shuffled,
    time_baseline_at,
)
from cuda_llm.tools.measure.options import L2, MeasureOptions
from cuda_llm.tools.measure.slots import InputPlan, SlotGroup, draw_group
from cuda_llm.tools.measure.stopping import rule_for
from cuda_llm.tools.measure.times import KernelTimes, find_too_quick, size_time
from cuda_llm.tools.profiler.explain_measured import profile_call
from cuda_llm.tools.validator.budget import SizePlan
from cuda_llm.tools.validator.buffers import (
    call_arguments,
    call_options,
    copy_outputs,
    fill,
    find_damage,
)
from cuda_llm.tools.validator.cases import POISONS
from cuda_llm.tools.validator.check_case import (
    NO_KERNEL,
    ran_a_kernel,
    run_case,
)
from cuda_llm.tools.validator.check_outputs import check_outputs
from cuda_llm.tools.validator.oracle import Oracle


async def explain_call_once(
    session: TimedSession, input_plan: InputPlan, oracle: Oracle
) -> CallReport | Verdict:
    """Call `solve` on fresh inputs, uncaptured; a report comes back only of a call that is right.

    Without a reference, the oracle judges. The launches are those that the runner claims: they
    explain a time, and no kernel is ranked by them.
    """
    task, dims, arrays = input_plan.task, input_plan.dims, input_plan.arrays
    if input_plan.reference is None:
        return await run_case(
            task, session, dims, level=Level.ACCOUNT, group="bench", oracle=oracle, arrays=arrays
        )
    drawn = draw_group(input_plan, SlotGroup(slots=(0,), seed=secret_seed()))
    inputs = {name: values[0] for name, values in drawn.items()}
    rng = arrays.generator(secret_seed())
    filled = fill(session.place(input_plan.specs), inputs, POISONS[0], rng)
    options = call_options(task, dims, level=Level.ACCOUNT)
    report = await session.call(call_arguments(task, dims), options)
    if not isinstance(report, CallReport):
        return report
    fault = find_damage(filled, arrays) or check_outputs(
        task,
        input_plan.case,
        inputs,
        copy_outputs(filled),
        arrays,
        method=input_plan.method,
        reference=input_plan.reference,
    )
    if fault is not None:
        return fault
    if not ran_a_kernel(report):
        return NO_KERNEL
    return report


DUEL_RUNNERS = 3
"""Those of two candidates, and the baseline's for what is not `solve`."""


async def duel_sizes(
    site: Site,
    task: Task,
    first: Compiled,
    second: Compiled,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    fresh: bool = False,
    limit_s: float = math.inf,
) -> tuple[tuple[Dims, MeasuredSize], ...] | MeasurementFault:
    """Time two candidates in turn at each size that fits, or return which of them is at fault.

    `fresh`: the baseline's runner is a new one. `limit_s`: figures that are still vague well before
    that are returned as they are.
    """
    open_baseline = site.open if fresh else site.open_cached
    async with (
        open_measurement(
            site, task, baseline, options, runners=DUEL_RUNNERS, limit_s=limit_s
        ) as measurement,
        site.open(first) as one,
        site.open(second) as other,
        open_baseline(baseline) as trusted_session,
    ):
        if not isinstance(one, Session):
            return MeasurementFault(which="first", verdict=one)
        if not isinstance(other, Session):
            return MeasurementFault(which="second", verdict=other)
        if not isinstance(trusted_session, Session):
            raise baseline_refused(task, trusted_session)
        sessions = ComparedSessions(
            first=require_timed(one),
            second=require_timed(other),
            baseline=require_timed(trusted_session),
        )
        await reserve_all(measurement, sessions)
        found: dict[int, MeasuredSize] = {}
        expected = ExpectedSpeedups()
        for number, size in shuffled(measurement.plan.sizes):
            measured, baseline_time = await time_size(measurement, sessions, size, expected)
            if isinstance(measured, MeasurementFault):
                return with_timed_case(measurement, measured, measurement.input_plan(size))
            expected = expect_speedups(measured.comparison, baseline_time)
            found[number] = measured
        return tuple((size.dims, found[k]) for k, size in enumerate(measurement.plan.sizes))


async def measure_candidate(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    fresh: bool = False,
) -> KernelTimes | Verdict | FailedCase:
    """Time the bench sizes that fit, the baseline interleaved; stop at the first fault.

    The inputs are new each time; with `fresh`, the baseline's runner is too. Raises TaskError where
    the reference is broken or the baseline refused.
    """
    open_baseline = site.open if fresh else site.open_cached
    async with (
        open_measurement(site, task, baseline, options) as measurement,
        site.open(compiled) as session,
        open_baseline(baseline) as trusted_session,
    ):
        if not isinstance(session, Session):
            return session
        if not isinstance(trusted_session, Session):
            raise baseline_refused(task, trusted_session)
        return await measure_sizes(
            measurement, require_timed(session), require_timed(trusted_session)
        )


async def measure_sizes(
    measurement: Measurement, session: TimedSession, trusted_session: TimedSession
) -> KernelTimes | Verdict | FailedCase:
    """Time each size, check it against its physical floor, then explain one call.

    Sizes come in any order, as in a process that is validated.
    """
    sessions = ComparedSessions(first=session, second=trusted_session, baseline=trusted_session)
    await reserve_all(measurement, sessions)
    timed_sizes: dict[int, SizeTime] = {}
    expected = ExpectedSpeedups()
    for number, size in shuffled(measurement.plan.sizes):
        measured, baseline_time = await time_size(measurement, sessions, size, expected)
        if isinstance(measured, MeasurementFault):
            found = with_timed_case(measurement, measured, measurement.input_plan(size))
            return found.failed or found.verdict
        expected = expect_speedups(measured.comparison, baseline_time)
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
        return no_size_fits(measurement)
    input_plan = measurement.input_plan(measurement.plan.sizes[-1])
    report = await explain_call_once(session, input_plan, measurement.oracle)
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
        isolation=measurement.site.confined,
    )


async def time_size(
    measurement: Measurement, sessions: ComparedSessions, size: SizePlan, expected: ExpectedSpeedups
) -> tuple[MeasuredSize | MeasurementFault, BaselineTime]:
    """Time one size after a small case: beside the baseline, or against its cached time."""
    input_plan = measurement.input_plan(size)
    baseline_time = await time_baseline_at(measurement, sessions, size)
    begun = await begin_with_small_cases(measurement, sessions)
    if begun is not None:
        return begun, baseline_time
    rules = rules_for(measurement, size, baseline_time)
    rule = rule_for(measurement.options.tier, len(measurement.plan.sizes), measurement.limit_s)
    if baseline_time.is_slow and sessions.against_baseline:
        slowly = await measure_alone(
            sessions,
            input_plan,
            rules,
            rule,
            baseline_time,
            most=measurement.most_slots(size),
        )
        return slowly, baseline_time
    measured = await measure_size(
        sessions,
        input_plan,
        rules,
        rule,
        baseline_time,
        expected,
        most=measurement.most_slots(size),
    )
    return measured, baseline_time


def find_timed_case(
    measurement: Measurement, verdict: Verdict, input_plan: InputPlan
) -> FailedCase | Verdict:
    """Return the failed case as `find_failed_case` does, on inputs of the same distributions.

    Which call of the batch failed is not known.
    """
    rng = measurement.site.arrays.generator(secret_seed())
    return find_failed_case(measurement.site, measurement.task, verdict, input_plan.case, rng)


def with_timed_case(
    measurement: Measurement, fault: MeasurementFault, input_plan: InputPlan
) -> MeasurementFault:
    """Return the fault with its case, where replaying that may find a place."""
    if fault.at_small_case:
        return fault
    found = find_timed_case(measurement, fault.verdict, input_plan)
    return replace(fault, failed=found) if isinstance(found, FailedCase) else fault


def no_size_fits(measurement: Measurement) -> InfraFailed:
    """Return the failure where no size of the task can be timed on this GPU."""
    return InfraFailed(component="device", detail="; ".join(measurement.plan.left_out))


async def measure_baseline(
    site: Site, task: Task, baseline: Compiled, options: MeasureOptions
) -> KernelTimes:
    """Return the baseline's own times of the sizes that fit, measured at most once for each.

    Raises TaskError where it is refused.
    """
    async with (
        open_measurement(site, task, baseline, options) as measurement,
        site.open_cached(baseline) as trusted_session,
    ):
        if not isinstance(trusted_session, Session):
            raise baseline_refused(task, trusted_session)
        session = require_timed(trusted_session)
        sessions = ComparedSessions(first=session, second=session, baseline=session)
        times = [
            (dict(size.dims), (await time_baseline_at(measurement, sessions, size)).call_us)
            for size in measurement.plan.sizes
        ]
    return KernelTimes(
        times=tuple(times),
        launches=(),
        bottlenecks=(),
        left_out=measurement.plan.left_out,
        device=site.name,
        isolation=site.confined,
    )
