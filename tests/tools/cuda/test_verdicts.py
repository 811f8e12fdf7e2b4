"""Each way in which a runner can end has its verdict."""

import signal
from dataclasses import replace

import pytest

from cuda_llm.errors import InfrastructureError, NoMemory
from cuda_llm.outcomes import (
    CudaError,
    DeviceAssert,
    HostCrashed,
    IllegalAccess,
    InfraFailed,
    LaunchFailed,
    LoadFailed,
    Misaligned,
    OutOfMemory,
    PolicyViolation,
    TimedOut,
    Verdict,
    lacks_place,
)
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.protocol import Forbidden, Order
from cuda_llm.tools.cuda.verdicts import CallContext, failed_to_start, load_failure, verdict_on_end
from cuda_llm.tools.device.protocol import Refusal, ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import RunnerEnded, UnexpectedReply
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch
from cuda_llm.verdict_wording import describe

LOG = CallLog(launches=1, entries=(LoggedLaunch(kind=LaunchKind.KERNEL, symbol="_Z3addv"),))
CONTEXT = CallContext(
    log=LOG, limit_s=3.0, order=Order.CALL, arena=range(1000, 2000), names={"_Z3addv": "add"}
)


def last(reply: RunnerReply, number: int = 0, address: int = 0, detail: str = "") -> RunnerEnded:
    words = ReplyFrame(reply=reply, number=number, address=address, detail=detail.encode())
    return RunnerEnded(status=0, final_reply=words, expired=False)


def died(status: int) -> RunnerEnded:
    return RunnerEnded(status=status, final_reply=None, expired=False)


NO_MEMORY = CudaError(number=2, name="cudaErrorMemoryAllocation")
EXPIRED = RunnerEnded(status=-9, final_reply=None, expired=True)


@pytest.mark.parametrize(
    ("number", "verdict"),
    [
        (700, IllegalAccess),
        (714, IllegalAccess),
        (717, IllegalAccess),
        (716, Misaligned),
        (710, DeviceAssert),
        (715, DeviceAssert),
        (718, DeviceAssert),
        (719, DeviceAssert),
        (2, OutOfMemory),
        (1, LaunchFailed),
        (9, LaunchFailed),
        (701, LaunchFailed),
        (720, LaunchFailed),
        (702, TimedOut),
        (304, HostCrashed),
        (214, InfraFailed),
        (999, InfraFailed),
        (4242, InfraFailed),
    ],
)
def test_a_lost_context_is_what_its_error_says(number: int, verdict: type[Verdict]) -> None:
    assert isinstance(verdict_on_end(last(RunnerReply.FAULTED, number), CONTEXT), verdict)


def test_a_lost_context_names_the_kernel_launched_last() -> None:
    found = verdict_on_end(last(RunnerReply.FAULTED, 700), CONTEXT)
    assert isinstance(found, IllegalAccess)
    assert found == IllegalAccess(
        error=CudaError(number=700, name="cudaErrorIllegalAddress", kernel="add")
    )
    assert lacks_place(found)


def test_what_the_driver_lost_is_laid_to_host_code_that_ran() -> None:
    found = verdict_on_end(last(RunnerReply.FAULTED, 304), CONTEXT)
    assert isinstance(found, HostCrashed)
    assert found.signal == "cudaErrorOperatingSystem"
    assert found.error == CudaError(number=304, name="cudaErrorOperatingSystem", kernel="add")

    nothing_ran = replace(CONTEXT, log=CallLog())
    assert isinstance(verdict_on_end(last(RunnerReply.FAULTED, 304), nothing_ran), InfraFailed)


def test_using_what_was_refused_is_running_out_of_memory() -> None:
    refused = OutOfMemory(request="cudaMalloc", bytes=5, bound="quota")
    context = replace(CONTEXT, log=replace(LOG, out_of_memory=refused))

    assert verdict_on_end(last(RunnerReply.FAULTED, 700), context) == refused
    assert verdict_on_end(last(RunnerReply.DIED, signal.SIGSEGV), context) == replace(
        refused, then="SIGSEGV"
    )
    assert verdict_on_end(died(1), context) == replace(refused, then="exit")


def broken(order: Order, part: str, number: int = 0) -> Verdict:
    found = last(RunnerReply.BROKEN, number, detail=f"{part}: the wizard is out")
    return verdict_on_end(found, replace(CONTEXT, order=order))


@pytest.mark.parametrize(
    ("order", "part"),
    [
        (Order.CALL, "scratch"),
        (Order.CAPTURE, "scratch"),
        (Order.CAPTURE, "capture"),
        (Order.ARM, "graph"),
        (Order.GO, "graph launch"),
    ],
)
def test_a_candidate_that_leaves_no_memory_to_call_it_ran_out_of_memory(
    order: Order, part: str
) -> None:
    assert broken(order, part, 2) == OutOfMemory(request="to-run", bound="device", error=NO_MEMORY)


@pytest.mark.parametrize(
    ("order", "part", "number", "detail"),
    [
        (Order.START, "CUDA IPC", 2, "CUDA IPC: cudaErrorMemoryAllocation"),
        (Order.START, "arena", 2, "arena: cudaErrorMemoryAllocation"),
        (Order.START, "landlock", 0, "landlock"),
        (Order.START, "/proc/self/statm", 0, "/proc/self/statm"),
        (Order.ARM, "graph", 999, "graph: cudaErrorUnknown"),
        (Order.ARM, "batch", 0, "batch"),
    ],
)
def test_what_a_candidate_cannot_have_caused_is_our_failure(
    order: Order, part: str, number: int, detail: str
) -> None:
    lacked = number == NO_MEMORY.number
    expected = InfraFailed(component="runner", detail=detail, lacked_memory=lacked)
    assert broken(order, part, number) == expected


def test_a_runner_that_finds_no_memory_as_it_starts_says_so_by_its_number() -> None:
    """Whatever the words: those are the driver's."""
    full = failed_to_start(last(RunnerReply.BROKEN, 2, detail="context: the wizard is out"))
    broken = failed_to_start(last(RunnerReply.BROKEN, 999, detail="context: out of memory"))
    assert (type(full), full.detail) == (NoMemory, "context: the wizard is out")
    assert (type(broken), broken.detail) == (InfrastructureError, "context: out of memory")
    assert type(failed_to_start(died(1))) is InfrastructureError


@pytest.mark.parametrize(
    ("part", "number"), [("arena", 0), ("arena", 2), ("graph", 2), ("scratch", 999), ("frame", 0)]
)
@pytest.mark.parametrize("order", [Order.CALL, Order.CAPTURE, Order.GO])
def test_while_its_host_code_runs_a_candidate_cannot_say_that_the_runner_broke(
    order: Order, part: str, number: int
) -> None:
    found = broken(order, part, number)
    assert isinstance(found, PolicyViolation)
    assert found.rule == "runner-protocol"


@pytest.mark.parametrize(
    ("order", "part"), [(Order.START, "graph"), (Order.ARM, "arena"), (Order.ARM, "landlock")]
)
def test_a_part_that_an_order_does_not_use_cannot_break_in_it(order: Order, part: str) -> None:
    assert isinstance(broken(order, part, 999), PolicyViolation)


def test_parts_of_the_runner_that_nobody_wrote_are_not_repeated() -> None:
    found = verdict_on_end(last(RunnerReply.BROKEN, detail="this kernel was right"), CONTEXT)
    assert isinstance(found, PolicyViolation)
    assert "this kernel" not in repr(found)


def test_code_that_does_not_fit_is_running_out_of_memory() -> None:
    full, unknown = (
        ReplyFrame(reply=RunnerReply.REFUSED, number=Refusal.DRIVER, address=error)
        for error in (2, 209)
    )
    assert load_failure(full) == OutOfMemory(request="to-load", bound="device", error=NO_MEMORY)
    assert load_failure(unknown) == LoadFailed(
        fault="driver", detail="cudaErrorNoKernelImageForDevice"
    )


def test_the_linkers_words_name_the_function_that_is_not_there() -> None:
    detail = b"/tmp/candidate.so: undefined symbol: _Z6helperv"
    refused = ReplyFrame(reply=RunnerReply.REFUSED, number=Refusal.LINKER, detail=detail)
    found = load_failure(refused)
    assert isinstance(found, LoadFailed)
    assert (found.fault, found.symbol) == ("undefined-function", "_Z6helperv")
    assert "_Z6helperv is declared and used, but never defined" in describe(found)


@pytest.mark.parametrize(
    ("log", "in_graph", "stage"),
    [
        (LOG, False, "host"),
        (replace(LOG, waiting=True), False, "kernel"),
        (CallLog(), False, "host"),
        (CallLog(), True, "kernel"),
    ],
)
def test_who_is_late_is_who_was_waited_for(log: CallLog, in_graph: bool, stage: str) -> None:
    found = verdict_on_end(EXPIRED, replace(CONTEXT, log=log, in_graph=in_graph))
    assert isinstance(found, TimedOut)
    assert (found.stage, found.limit_s) == (stage, 3.0)


def test_a_crowd_of_blocks_hints_at_a_deadlock() -> None:
    context = replace(CONTEXT, log=replace(LOG, waiting=True, crowded="_Z3addv"))
    found = verdict_on_end(EXPIRED, context)
    assert isinstance(found, TimedOut)
    assert (found.kernel, found.crowded) == ("add", True)


@pytest.mark.parametrize(
    ("outcome", "rule"),
    [
        (last(RunnerReply.DENIED, 41, detail="socket"), "syscall"),
        (died(-signal.SIGSYS), "syscall"),
        (last(RunnerReply.FORBIDDEN, Forbidden.LARGE_COPY), "api-call"),
        (last(RunnerReply.FORBIDDEN, Forbidden.LARGE_COPIES), "api-call"),
        (last(RunnerReply.FORBIDDEN, Forbidden.UNJOINED), "api-call"),
        (last(RunnerReply.FORBIDDEN, Forbidden.HOST_COPY), "host-copy"),
        (last(RunnerReply.DIED, signal.SIGSEGV, 1500), "host-touches-device-memory"),
        (UnexpectedReply(), "runner-protocol"),
    ],
)
def test_what_may_not_be_done_has_its_rule(
    outcome: RunnerEnded | UnexpectedReply, rule: str
) -> None:
    found = verdict_on_end(outcome, CONTEXT)
    assert isinstance(found, PolicyViolation)
    assert found.rule == rule


@pytest.mark.parametrize(
    ("outcome", "name"),
    [
        (last(RunnerReply.DIED, signal.SIGSEGV, 16), "SIGSEGV"),
        (last(RunnerReply.DIED, signal.SIGFPE), "SIGFPE"),
        (last(RunnerReply.DIED, 99), "signal 99"),
        (died(-signal.SIGKILL), "SIGKILL"),
        (died(3), "exit"),
    ],
)
def test_a_crash_of_the_host_part_names_its_signal(outcome: RunnerEnded, name: str) -> None:
    found = verdict_on_end(outcome, CONTEXT)
    assert isinstance(found, HostCrashed)
    assert found.signal == name
