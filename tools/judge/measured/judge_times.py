"""All sizes of a candidate against the baseline, on a site that measures."""

from dataclasses import replace

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import CallReport, Session, Site, TimedSession
from cuda_llm.tools.judge.failed_case import FailedCase, find_failed_case
from cuda_llm.tools.judge.floor import find_too_quick
from cuda_llm.tools.judge.measured.batches import secret_seed
from cuda_llm.tools.judge.measured.bout import Bout, baseline_of, open_bout, reserve_all, time_one
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, timed_session
from cuda_llm.tools.judge.measured.explain import explain
from cuda_llm.tools.judge.measured.options import L2, MeasureOptions
from cuda_llm.tools.judge.measured.paces import Paces, paces_seen
from cuda_llm.tools.judge.measured.size_time import size_time
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.profiler.measured.profile_call import profile_call


async def measure_there(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    fresh: bool = False,
) -> Timing | Verdict | FailedCase:
    """Time the bench sizes that fit, the baseline interleaved; stop at the first fault.

    The inputs are new each time. `fresh`: the baseline's runner is, too. Raises TaskError where the
    reference is broken or the baseline refused.
    """
    hold = site.open if fresh else site.keep
    async with (
        open_bout(site, task, baseline, options) as measurement,
        site.open(compiled) as session,
        hold(baseline) as beside,
    ):
        if not isinstance(session, Session):
            return session
        if not isinstance(beside, Session):
            raise refusal(task, beside)
        return await time_sizes_of(measurement, timed_session(session), timed_session(beside))


async def time_sizes_of(
    measurement: Bout, session: TimedSession, beside: TimedSession
) -> Timing | Verdict | FailedCase:
    """Each size, its floor held against it before any average; then one call explained."""
    sessions = Entrants(first=session, second=beside, baseline=beside)
    await reserve_all(measurement, sessions)
    times: list[SizeTime] = []
    expected = Paces()
    for size in measurement.plan.sizes:
        measured, kept = await time_one(measurement, sessions, size, expected)
        if isinstance(measured, Fault):
            return find_timed_case(measurement, measured.verdict, measurement.recipe(size))
        expected = paces_seen(measured.comparison, kept)
        l2 = measurement.options.l2
        timed = size_time(size.dims, measured, l2, against_kept=kept.slow)
        too_quick = find_too_quick(
            measurement.task,
            measurement.site.hardware,
            size.dims,
            measured.comparison,
            l2_warm=l2 is L2.WARM,
        )
        if too_quick is not None:
            return too_quick
        times.append(replace(timed, peak_bytes=size.peak_bytes))
    if not times:
        return nothing_fits(measurement)
    recipe = measurement.recipe(measurement.plan.sizes[-1])
    report = await explain(session, recipe, measurement.oracle)
    if not isinstance(report, CallReport):
        return find_timed_case(measurement, report, recipe)
    last = times[-1]
    explained = profile_call(
        measurement.task, last.dims, last.time_us, report.launches, measurement.site.hardware
    )
    return Timing(
        times=tuple((one.dims, one.time_us) for one in times),
        launches=explained.launches,
        bottlenecks=explained.bottlenecks,
        sizes=tuple(times),
        left_out=measurement.plan.left_out,
        notes=measurement.plan.how_checked,
        device=measurement.site.name,
        isolation=measurement.site.confined,
    )


def find_timed_case(measurement: Bout, verdict: Verdict, recipe: Recipe) -> FailedCase | Verdict:
    """See `find_failed_case`: which of the calls of a batch failed is not known, so that the inputs
    are others of the same size and distributions."""
    rng = measurement.site.arrays.generator(secret_seed())
    return find_failed_case(measurement.site, measurement.task, verdict, recipe.case, rng)


def nothing_fits(measurement: Bout) -> InfraFailed:
    """No size of the task can be timed on this GPU."""
    return InfraFailed(component="device", detail="; ".join(measurement.plan.left_out))


async def baseline_there(
    site: Site, task: Task, baseline: Compiled, options: MeasureOptions
) -> Timing:
    """The baseline's own times of the sizes that fit, measured at most once for each.

    Raises TaskError where it is refused.
    """
    async with (
        open_bout(site, task, baseline, options) as measurement,
        site.keep(baseline) as beside,
    ):
        if not isinstance(beside, Session):
            raise refusal(task, beside)
        session = timed_session(beside)
        sessions = Entrants(first=session, second=session, baseline=session)
        times = [
            (dict(size.dims), (await baseline_of(measurement, sessions, size)).call_us)
            for size in measurement.plan.sizes
        ]
    return Timing(
        times=tuple(times),
        launches=(),
        bottlenecks=(),
        left_out=measurement.plan.left_out,
        device=site.name,
        isolation=site.confined,
    )
