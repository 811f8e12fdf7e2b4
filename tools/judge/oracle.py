"""The oracle of a task, open for as long as a candidate is judged."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Session, Site
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.validator.layout import Dims
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Inputs,
    Oracle,
    baseline_oracle,
    reference_oracle,
)


@asynccontextmanager
async def open_oracle(task: Task, site: Site, baseline: Compiled) -> AsyncIterator[Oracle]:
    """The task's reference, or its baseline in a runner of its own where it has none.

    Raises TaskError where the reference is broken or the baseline is refused.
    """
    if task.reference is not None:
        yield reference_oracle(task, site.arrays)
        return
    async with site.open(baseline) as session:
        if not isinstance(session, Session):
            raise refusal(task, session)
        from_baseline = baseline_oracle(task, session, site.arrays)

        async def or_refuse(inputs: Inputs, dims: Dims) -> Expectation:
            expectation = await from_baseline(inputs, dims)
            if isinstance(expectation, Expectation):
                return expectation
            raise refusal(task, expectation)

        yield or_refuse
