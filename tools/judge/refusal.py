"""The error for a baseline that is refused itself."""

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.outcomes import InfraFailed, OutOfMemory, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.wording import describe


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """The same as an error, where there is nobody to have the verdict."""
    return InfrastructureError(verdict.component, verdict.detail)


def refusal(task: Task, verdict: Verdict) -> TaskError | InfrastructureError:
    """Without its baseline no kernel of the task can be judged; say whose fault it is."""
    if isinstance(verdict, InfraFailed):
        return infrastructure_error(verdict)
    if isinstance(verdict, OutOfMemory):
        # A candidate beside it, or another program, may hold what it needs.
        detail = f"the baseline found no memory: {describe(verdict)[0]}"
        return InfrastructureError("device memory", detail)
    return TaskError(
        f"{task.baseline}: the baseline itself is {verdict.code}; "
        f"run `cuda-llm tasks check {task.folder}`"
    )
