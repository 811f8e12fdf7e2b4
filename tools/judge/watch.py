"""A candidate executed at small sizes with every access watched, races included."""

from dataclasses import replace

import numpy as np

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import HiddenSizes, Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Level, Session, Site
from cuda_llm.tools.judge.on_site import loaded
from cuda_llm.tools.validator.cases import Case, plan
from cuda_llm.tools.validator.check_case import Checked, check_case
from cuda_llm.tools.validator.seeds import fresh_nonce, generator

MOST_WORK = 2e7
"""Operations and bytes of a case: the emulated device takes about a tenth of a second for it."""


async def watch_there(
    site: Site, task: Task, compiled: Compiled, baseline: Compiled, nonce: bytes | None
) -> Verdict | None:
    """The first verdict that is no pass."""
    secret = fresh_nonce() if nonce is None else nonce
    async with loaded(site, task, compiled, baseline) as (session, oracle):
        if not isinstance(session, Session):
            return session
        for number, case in enumerate(watched(task, generator(secret, task.name, "plan", 0))):
            rng = generator(secret, task.name, "case", number, site.arrays)
            result = await check_case(task, session, case, oracle, rng, site.arrays)
            if not isinstance(result, Checked):
                return result
    return None


def watched(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Cases of the edge sizes and of the smallest emulated one, cheap ones first.

    The latter is shaped like those that are timed: a path that only they take is seen, too.
    """
    listed = replace(task, sizes=replace(task.sizes, hidden=HiddenSizes(dims={})))
    cases = plan(listed, rng)
    small = [case for case in cases if case.work <= MOST_WORK] or cases[:1]
    return tuple(replace(case, level=Level.FULL) for case in small)
