"""All sizes of a candidate against the baseline, on a site that measures."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import SizeTime
from cuda_llm.tasks.reference import Reference, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import CallReport, Level, Session, Site, TimedSession
from cuda_llm.tools.judge.floor import find_impossible
from cuda_llm.tools.judge.measured.baseline_time import BaselineTime, baseline_time
from cuda_llm.tools.judge.measured.batches import Rules, secret_rng
from cuda_llm.tools.judge.measured.clocks import ReadClocks, clocks_of
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, timed_session
from cuda_llm.tools.judge.measured.measure import Measured, measure_size
from cuda_llm.tools.judge.measured.options import L2, MeasureOptions
from cuda_llm.tools.judge.measured.size_time import size_time
from cuda_llm.tools.judge.measured.sizes import Admitted, Plan, plan_timing, reserve
from cuda_llm.tools.judge.measured.slow import measure_slow
from cuda_llm.tools.judge.oracle import open_oracle
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.judge.timing import Timing
from cuda_llm.tools.profiler.measured.profile_call import profile_call
from cuda_llm.tools.timing.stopping import rule_for
from cuda_llm.tools.validator.oracle import Oracle
from cuda_llm.tools.validator.referee import run_case

LIMIT_FACTOR = 50.0
"""A batch may take this many times what the baseline needs for it."""
OVERHEAD_US = 200.0
"""Of a step, where many are run: inputs, flush, tag."""
MOST_LIMIT_S = 60.0
"""Slow baselines are timed on so few calls that nothing honest takes longer."""


@dataclass(frozen=True, kw_only=True)
class Bout:
    """What all sizes of one measurement share."""

    site: Site
    task: Task
    oracle: Oracle
    options: MeasureOptions
    plan: Plan
    reference: Reference | None
    """None: the baseline is the oracle."""
    kept_as: tuple[str, ...]
    """What the baseline's kept times depend on."""
    read_clocks: ReadClocks

    def recipe(self, size: Admitted) -> Recipe:
        """How the inputs of a size are drawn."""
        return Recipe(
            task=self.task,
            dims=size.dims,
            arrays=self.site.arrays,
            reference=self.reference,
        )


async def measure_there(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled, options: MeasureOptions
) -> Timing | Verdict:
    """Time the bench sizes that fit, the baseline interleaved; stop at the first fault.

    The inputs are fresh each time. Raises TaskError where the reference is broken or the baseline
    refused.
    """
    async with (
        open_bout(site, task, baseline, options) as bout,
        site.open(compiled) as session,
        site.open(baseline) as ground,
    ):
        if not isinstance(session, Session):
            return session
        if not isinstance(ground, Session):
            raise refusal(task, ground)
        return await time_sizes_of(bout, timed_session(session), timed_session(ground))


@asynccontextmanager
async def open_bout(
    site: Site, task: Task, baseline: Compiled, options: MeasureOptions, *, lanes: int = 2
) -> AsyncIterator[Bout]:
    """What a measurement needs besides its entrants."""
    async with open_oracle(task, site, baseline) as oracle:
        yield Bout(
            site=site,
            task=task,
            oracle=oracle,
            options=options,
            plan=plan_timing(site, task, lanes=lanes),
            reference=None if task.reference is None else load_reference(task),
            kept_as=(site.name, site.hardware.name, baseline.key, repr(task.capabilities)),
            read_clocks=clocks_of(site),
        )


async def time_sizes_of(
    bout: Bout, session: TimedSession, ground: TimedSession
) -> Timing | Verdict:
    """Each size, its floor held against it before any average; then one call explained."""
    entrants = Entrants(first=session, second=ground, ground=ground)
    for one in (session, ground):
        reserve(one, bout.task, bout.plan)
    times: list[SizeTime] = []
    for size in bout.plan.sizes:
        measured, kept = await time_one(bout, entrants, size)
        if isinstance(measured, Fault):
            return measured.verdict
        l2 = bout.options.l2
        timed = size_time(size.dims, measured, l2, against_kept=kept.slow)
        impossible = find_impossible(
            bout.task, bout.site.hardware, [(size.dims, timed.time_us)], l2_warm=l2 is L2.WARM
        )
        if impossible is not None:
            return impossible
        times.append(timed)
    report = await explain(bout, session)
    if not isinstance(report, CallReport):
        return report
    explained = [
        profile_call(bout.task, one.dims, one.time_us, report.launches, bout.site.hardware)
        for one in times[-1:]
    ]
    return Timing(
        times=tuple((one.dims, one.time_us) for one in times),
        launches=explained[0].launches if explained else (),
        bottlenecks=explained[0].bottlenecks if explained else (),
        sizes=tuple(times),
        left_out=bout.plan.left_out,
    )


async def time_one(
    bout: Bout, entrants: Entrants, size: Admitted
) -> tuple[Measured | Fault, BaselineTime]:
    """One size: beside the baseline, or against its kept time where it is slow."""
    recipe = bout.recipe(size)
    kept = await baseline_of(bout, entrants, size)
    rules = rules_for(bout, size, kept)
    rule = rule_for(bout.options.tier, len(bout.plan.sizes))
    if kept.slow and entrants.against_baseline:
        slowly = await measure_slow(
            entrants, recipe, rules, rule, kept, most=size.most, read_clocks=bout.read_clocks
        )
        return slowly, kept
    measured = await measure_size(
        entrants, recipe, rules, rule, most=size.most, read_clocks=bout.read_clocks
    )
    return measured, kept


async def baseline_there(
    site: Site, task: Task, baseline: Compiled, options: MeasureOptions
) -> Timing:
    """The baseline's own times of the sizes that fit, measured at most once for each.

    Raises TaskError where it is refused.
    """
    async with open_bout(site, task, baseline, options) as bout, site.open(baseline) as ground:
        if not isinstance(ground, Session):
            raise refusal(task, ground)
        session = timed_session(ground)
        entrants = Entrants(first=session, second=session, ground=session)
        times = [
            (dict(size.dims), (await baseline_of(bout, entrants, size)).call_us)
            for size in bout.plan.sizes
        ]
    return Timing(times=tuple(times), launches=(), bottlenecks=(), left_out=bout.plan.left_out)


async def baseline_of(bout: Bout, entrants: Entrants, size: Admitted) -> BaselineTime:
    """What the baseline takes, measured now or kept."""
    return await baseline_time(
        entrants.ground,
        bout.recipe(size),
        rules_for(bout, size, None),
        kept_as=bout.kept_as,
        most=size.most,
    )


def rules_for(bout: Bout, size: Admitted, kept: BaselineTime | None) -> Rules:
    """Limits from the baseline's time; generous where that is not known yet."""
    from cuda_llm.settings import settings

    limit_s = MOST_LIMIT_S
    if kept is not None:
        limit_s = LIMIT_FACTOR * size.most * (kept.call_us + OVERHEAD_US) / 1e6
    return Rules(
        oracle=bout.oracle,
        rng=secret_rng(),
        l2=bout.options.l2,
        limit_s=max(settings().gpu_call_least_s, min(limit_s, MOST_LIMIT_S)),
    )


async def explain(bout: Bout, session: TimedSession) -> CallReport | Verdict:
    """One verified call at the largest size, for what it launches."""
    if not bout.plan.sizes:
        return CallReport(wall_s=0.0)
    return await run_case(
        bout.task,
        session,
        bout.plan.sizes[-1].dims,
        level=Level.ACCOUNT,
        group="bench",
        oracle=bout.oracle,
        arrays=bout.site.arrays,
    )
