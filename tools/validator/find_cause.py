"""Finds why a case is wrong: a race, or a value that nobody has written."""

from collections.abc import Callable
from dataclasses import replace

from cuda_llm.outcomes import DataRace, UninitialisedRead, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Level, Session
from cuda_llm.tools.device.buffers import Random
from cuda_llm.tools.validator.cases import FULL_LEVEL_WORK, Case
from cuda_llm.tools.validator.check_case import CheckedCase, check_case
from cuda_llm.tools.validator.oracle import Oracle


async def find_cause(
    task: Task, session: Session, case: Case, oracle: Oracle, draw: Callable[[], Random]
) -> DataRace | UninitialisedRead | None:
    """Watch every access of a case, however large, in the schedule of the case and in another one.

    Undefined values are followed where that is cheap. `session` has its buffers on the host, and is
    not usable afterwards where the case took too long; `draw` starts the random stream of inputs.
    """
    for seed in (case.schedule_seed, case.schedule_seed + 1):
        watched = replace(
            case,
            level=Level.FULL,
            tracks=case.work <= FULL_LEVEL_WORK,
            schedule_seed=seed,
            repeat_seed=0,
        )
        found = await check_case(task, session, watched, oracle, draw())
        if isinstance(found, DataRace | UninitialisedRead):
            return found
        if not isinstance(found, CheckedCase | WrongResult):
            break
    return None
