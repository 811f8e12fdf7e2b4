"""The error for a baseline that is refused itself."""

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tasks.task import Task


def refusal(task: Task, verdict: Verdict) -> TaskError | InfrastructureError:
    """Without its baseline no kernel of the task can be judged; say whose fault it is."""
    if isinstance(verdict, InfraFailed):
        return InfrastructureError(verdict.component, verdict.detail)
    return TaskError(
        f"{task.baseline}: the baseline itself is {verdict.code}; "
        f"run `cuda-llm tasks check {task.folder}`"
    )
