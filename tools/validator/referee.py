"""Calls made for another reason than validation, a timing say, verified all the same."""

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Arrays
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.validator.cases import timed_case
from cuda_llm.tools.validator.check_case import Checked, check_case
from cuda_llm.tools.validator.layout import Dims
from cuda_llm.tools.validator.oracle import Oracle, reference_oracle
from cuda_llm.tools.validator.seeds import fresh_nonce, generator


async def run_case(
    task: Task,
    session: Session,
    dims: Dims,
    *,
    level: Level = Level.CHECK,
    group: str = "emulated",
    oracle: Oracle | None = None,
    nonce: bytes | None = None,
    arrays: Arrays = HOST,
) -> CallReport | Verdict:
    """Call `solve` once at `dims` on fresh inputs of the first distributions.

    A report comes back only if every output element was right and nothing else was touched.
    `oracle` replaces the task's reference and is required where it has none.
    """
    secret = fresh_nonce() if nonce is None else nonce
    rng = generator(secret, task.name, "timed", 0, arrays)
    judge = reference_oracle(task, arrays) if oracle is None else oracle
    case = timed_case(task, dims, level, group)
    result = await check_case(task, session, case, judge, rng, arrays)
    return result.report if isinstance(result, Checked) else result
