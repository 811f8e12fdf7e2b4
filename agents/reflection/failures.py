"""From a verdict to what failed and its likely cause in this source: one function a kind."""

from typing import assert_never

from cuda_llm.agents.reflection import (
    build_faults,
    host_faults,
    limit_faults,
    memory_faults,
    reply_faults,
    sync_faults,
    wrong_results,
)
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene
from cuda_llm.outcomes import (
    CompileFailed,
    DataRace,
    DeviceAssert,
    Duplicate,
    EmulatorUnsupported,
    GuardOverwritten,
    HostCrashed,
    IllegalAccess,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    InvalidSync,
    LateWrite,
    LaunchFailed,
    LoadFailed,
    Misaligned,
    NoCode,
    Nondeterministic,
    OutOfMemory,
    Passed,
    PolicyViolation,
    Quarantined,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
)


def diagnose_failure(verdict: Verdict, scene: Scene) -> Diagnosis | None:
    """The likely cause; None where the kernel passed or nothing is to be learned from it."""
    match verdict:
        case NoCode():
            return reply_faults.no_code(verdict)
        case Duplicate():
            return reply_faults.duplicate(verdict)
        case CompileFailed():
            return build_faults.compile_failed(verdict, scene)
        case PolicyViolation():
            return host_faults.policy_violation(verdict, scene)
        case LoadFailed():
            return build_faults.load_failed(verdict)
        case LaunchFailed():
            return limit_faults.launch_failed(verdict, scene)
        case IllegalAccess():
            return memory_faults.illegal_access(verdict, scene)
        case Misaligned():
            return memory_faults.misaligned(verdict, scene)
        case DeviceAssert():
            return host_faults.device_assert(verdict, scene)
        case DataRace():
            return sync_faults.data_race(verdict, scene)
        case UninitialisedRead():
            return memory_faults.uninitialised_read(verdict, scene)
        case InvalidSync():
            return sync_faults.invalid_sync(verdict, scene)
        case TimedOut():
            return sync_faults.timed_out(verdict, scene)
        case OutOfMemory():
            return limit_faults.out_of_memory(verdict, scene)
        case HostCrashed():
            return host_faults.host_crashed(verdict)
        case WrongResult():
            return wrong_results.wrong_result(verdict, scene)
        case GuardOverwritten():
            return memory_faults.guard_overwritten(verdict, scene)
        case InputMutated():
            return wrong_results.input_mutated(verdict, scene)
        case Nondeterministic():
            return wrong_results.nondeterministic(verdict, scene)
        case LateWrite():
            return wrong_results.late_write(verdict)
        case ImpossibleTime():
            return limit_faults.impossible_time(verdict)
        case EmulatorUnsupported():
            return limit_faults.emulator_unsupported(verdict, scene)
        case Passed() | Quarantined() | InfraFailed():
            return None
        case _:
            assert_never(verdict)
