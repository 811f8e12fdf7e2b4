"""Two kernels, neither of them trusted, interleaved on one GPU."""

import math

from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Session, Site
from cuda_llm.tools.judge.measured.bout import open_bout, reserve_all, time_one
from cuda_llm.tools.judge.measured.entrants import Entrants, Fault, timed_session
from cuda_llm.tools.judge.measured.measure import Measured
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.measured.paces import Paces, paces_seen
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.validator.layout import Dims

LANES = 3
"""Two that are compared, and the baseline's for what is not `solve`."""


async def contend(
    site: Site,
    task: Task,
    first: Compiled,
    second: Compiled,
    baseline: Compiled,
    options: MeasureOptions,
    *,
    fresh: bool = False,
    limit_s: float = math.inf,
) -> tuple[tuple[Dims, Measured], ...] | Fault:
    """Each size that fits, or whose fault it is that there are no times.

    `fresh`: the baseline's runner is a new one. `limit_s`: figures that are vague still are left so
    in good time before that.
    """
    hold = site.open if fresh else site.keep
    async with (
        open_bout(site, task, baseline, options, runners=LANES, limit_s=limit_s) as measurement,
        site.open(first) as one,
        site.open(second) as other,
        hold(baseline) as beside,
    ):
        if not isinstance(one, Session):
            return Fault(which="first", verdict=one)
        if not isinstance(other, Session):
            return Fault(which="second", verdict=other)
        if not isinstance(beside, Session):
            raise refusal(task, beside)
        sessions = Entrants(
            first=timed_session(one), second=timed_session(other), baseline=timed_session(beside)
        )
        await reserve_all(measurement, sessions)
        found = []
        expected = Paces()
        for size in measurement.plan.sizes:
            measured, kept = await time_one(measurement, sessions, size, expected)
            if isinstance(measured, Fault):
                return measured
            expected = paces_seen(measured.comparison, kept)
            found.append((size.dims, measured))
        return tuple(found)
