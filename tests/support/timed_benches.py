"""Small benches of the vector addition, timed on arrays of the host."""

import asyncio
from dataclasses import replace

from timed_array_session import Script, TimedArraySite, named
from timed_scripts import honest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.failed_case import FailedCase
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.on_site import time_there
from cuda_llm.tools.judge.retry import StepRetry, Try
from cuda_llm.tools.judge.timing import Timing

BASELINE_US = 50.0


def small_bench(*sizes: int) -> Task:
    """The task with these lengths as its bench."""
    task = load_task("vector_add")
    return replace(task, sizes=replace(task.sizes, bench=tuple({"n": n} for n in sizes)))


def timed_site(
    candidate: Script, *, baseline_us: float = BASELINE_US, chip: str = "h200_sxm5_141gb"
) -> TimedArraySite:
    """A site where `candidate` competes with an honest baseline."""
    return TimedArraySite(
        hardware=find_hardware(chip),
        scripts={"candidate": candidate, "baseline": honest(baseline_us)},
    )


def timed_by_the_bench(
    site: TimedArraySite, task: Task | None = None, options: MeasureOptions | None = None
) -> Timing | Verdict:
    """The same with the bench's tries."""
    task = task or small_bench(96)
    names = named("candidate"), named("baseline")

    async def step(trial: Try) -> Timing | Verdict:
        outcome = await time_there(site, task, *names, None, options, fresh=trial.fresh)
        return outcome.verdict if isinstance(outcome, FailedCase) else outcome

    return asyncio.run(StepRetry(first_wait_s=0.0).settle("profiler", step))


def timed(
    site: TimedArraySite, task: Task | None = None, options: MeasureOptions | None = None
) -> Timing | Verdict:
    """Time the candidate of the site."""
    task = task or small_bench(96)
    names = named("candidate"), named("baseline")
    outcome = asyncio.run(time_there(site, task, *names, None, options))
    return outcome.verdict if isinstance(outcome, FailedCase) else outcome
