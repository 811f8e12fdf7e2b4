"""Whose fault it is when a baseline does not pass."""

from cuda_llm.errors import InfrastructureError, NoMemory, TaskError
from cuda_llm.outcomes import HostCrashed, InfraFailed, OutOfMemory
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.timing.failures import baseline_refused

TASK = load_task("vector_add")


def test_a_baseline_that_fails_by_itself_is_a_fault_of_its_task() -> None:
    error = baseline_refused(TASK, HostCrashed(signal="SIGSEGV"))
    assert isinstance(error, TaskError)
    assert "the baseline itself is HOST_CRASHED" in str(error)


def test_what_others_may_have_taken_from_a_baseline_is_no_fault_of_its_task() -> None:
    taken = baseline_refused(TASK, OutOfMemory(request="to-run"))
    broken = baseline_refused(TASK, InfraFailed(component="runner", detail="landlock: no"))
    assert not isinstance(taken, NoMemory), "its quota, for all that is known"
    for error, words in ((taken, "no memory is left to call it"), (broken, "landlock")):
        assert isinstance(error, InfrastructureError)
        assert words in str(error)


def test_that_memory_lacked_outlives_the_verdict_that_tells_it() -> None:
    """Whatever the words."""
    for verdict in (
        InfraFailed(component="runner", detail="arena: full", lacked_memory=True),
        OutOfMemory(request="to-run", bound="device"),
    ):
        assert isinstance(baseline_refused(TASK, verdict), NoMemory)
    said = InfraFailed(component="runner", detail="out of memory, says a kernel")
    assert not isinstance(baseline_refused(TASK, said), NoMemory)
