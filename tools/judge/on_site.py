"""What is carried out where the device is: functions of values, each with fresh runners of its own.

On a GPU these run in the referee process (`tools.device.Device.carry_out`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Session, Site
from cuda_llm.tools.judge.failed_case import FailedCase, find_failed_case
from cuda_llm.tools.judge.measured.judge_times import measure_there
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.oracle import open_oracle
from cuda_llm.tools.judge.timing import Timing, time_sizes
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.oracle import Oracle
from cuda_llm.tools.validator.seeds import case_generator, fresh_nonce
from cuda_llm.tools.validator.validate import Validated, validate


async def validate_there(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled, nonce: bytes | None
) -> Validated | Verdict | FailedCase:
    """Every element of every case against the reference. Raises TaskError where that is broken."""
    secret, begun = fresh_nonce() if nonce is None else nonce, []

    def note(case: Case, number: int, _total: int) -> None:
        begun.append((case, number))

    async with loaded(site, task, compiled, baseline) as (session, oracle):
        if not isinstance(session, Session):
            return session
        outcome = await validate(
            task, session, oracle=oracle, nonce=secret, arrays=site.arrays, on_case=note
        )
    if isinstance(outcome, Validated) or not begun:
        return outcome
    case, number = begun[-1]
    rng = case_generator(secret, task, number, site.arrays)
    return find_failed_case(site, task, outcome, case, rng)


async def time_there(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Compiled,
    nonce: bytes | None,
    options: MeasureOptions | None = None,
    fresh: bool = False,
) -> Timing | Verdict | FailedCase:
    """Time every size, outputs verified, and find what limits the kernel.

    A site that duels draws fresh inputs whatever the nonce: what is timed must be new. `fresh`:
    so is the baseline's runner.
    """
    if site.capabilities.duels:
        options = options or MeasureOptions()
        return await measure_there(site, task, compiled, baseline, options, fresh=fresh)
    return await time_calls_there(site, task, compiled, baseline, nonce)


async def time_calls_there(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled, nonce: bytes | None
) -> Timing | Verdict:
    """The same, as the report of each call has its time."""
    async with loaded(site, task, compiled, baseline) as (session, oracle):
        if not isinstance(session, Session):
            return session
        return await time_sizes(
            task, session, oracle, nonce=nonce, bench=site.capabilities.bench_sizes
        )


@asynccontextmanager
async def loaded(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled
) -> AsyncIterator[tuple[Session | Verdict, Oracle]]:
    """The candidate in a fresh runner, and the oracle to compare it with."""
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        yield session, oracle
