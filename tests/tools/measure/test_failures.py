"""Whose fault it is when a baseline does not pass."""

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.outcomes import HostCrashed, InfraFailed, OutOfMemory
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.measure.failures import baseline_refused

TASK = load_task("vector_add")


def test_a_baseline_that_fails_by_itself_is_a_fault_of_its_task() -> None:
    error = baseline_refused(TASK, HostCrashed(signal="SIGSEGV"))
    assert isinstance(error, TaskError)
    assert "the baseline itself is HOST_CRASHED" in str(error)


def test_what_others_may_have_taken_from_a_baseline_is_no_fault_of_its_task() -> None:
    taken = baseline_refused(TASK, OutOfMemory(detail="graph: CUDA_ERROR_OUT_OF_MEMORY"))
    broken = baseline_refused(TASK, InfraFailed(component="runner", detail="landlock: no"))
    for error, words in ((taken, "graph: CUDA_ERROR_OUT_OF_MEMORY"), (broken, "landlock")):
        assert isinstance(error, InfrastructureError)
        assert words in str(error)
