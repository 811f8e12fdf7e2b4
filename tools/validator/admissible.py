"""Prove that a task can be trusted to tell a right kernel from a wrong one."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.outcomes import InfraFailed, Verdict, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Arrays
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Device, Session, Site
from cuda_llm.tools.validator.oracle import baseline_oracle, reference_oracle
from cuda_llm.tools.validator.soundness import find_problems
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.wording import describe


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What was found. The task is admissible when there are no problems."""

    problems: tuple[str, ...]
    """One line each: what is wrong, and where."""
    checked: Mapping[str, int]
    """What the baseline was compared on; empty where it did not come through."""

    @property
    def ok(self) -> bool:
        """Nothing speaks against the task."""
        return not self.problems


async def check_task(task: Task, device: Device) -> Admission:
    """Say line by line why a task is not admissible, if it is not.

    The baseline must pass everything a candidate has to; outputs that need no computation must be
    rejected; the result must depend on every input. Raises InfrastructureError.
    """
    from cuda_llm.tools.compiler.compile import compile_candidate
    from cuda_llm.tools.compiler.request import baseline_request

    compiled = await compile_candidate(baseline_request(task, device.target))
    if not isinstance(compiled, Compiled):
        return _refused(task, compiled)
    return await device.carry_out(check_there, task, compiled)


async def check_there(site: Site, task: Task, compiled: Compiled) -> Admission:
    """The same where the device is."""
    async with site.open(compiled) as session, site.open(compiled) as second:
        if not isinstance(session, Session):
            return _refused(task, session)
        if not isinstance(second, Session):
            return _refused(task, second)
        return await check_sessions(task, session, second, site.arrays)


async def check_sessions(
    task: Task, session: Session, second: Session, arrays: Arrays = HOST
) -> Admission:
    """The same for a baseline loaded twice: `second` is the oracle where there is no reference."""
    try:
        oracle = (
            baseline_oracle(task, second, arrays)
            if task.reference is None
            else reference_oracle(task, arrays)
        )
        result = await validate(task, session, arrays=arrays, oracle=oracle)
        problems = [problem async for problem in find_problems(task, oracle, arrays=arrays)]
    except TaskError as error:
        return Admission(problems=(str(error),), checked={})
    if not isinstance(result, Validated):
        refused = _refused(task, result)
        return Admission(problems=(*refused.problems, *problems), checked={})
    return Admission(problems=tuple(problems), checked=result.checked)


def _refused(task: Task, verdict: Verdict) -> Admission:
    """The baseline did not come through, in one line."""
    detail = ""
    match verdict:
        case InfraFailed(component=component, detail=detail):
            raise InfrastructureError(component, detail)
        case WrongResult():
            where = " ".join(f"{name}={extent:,}" for name, extent in verdict.dims.items())
            detail = (
                f"{verdict.buffer}{list(verdict.index)} is {verdict.got:.9g}, the reference says "
                f"{verdict.expected:.9g} at {where or 'a hidden size'}, {verdict.distribution} "
                f"inputs ({verdict.error:.3g} rounding units, limit {verdict.limit:.3g})"
            )
        case _:
            detail = next(iter(describe(verdict)), "")
    return Admission(problems=(f"{task.baseline}: {verdict.code}: {detail}",), checked={})
