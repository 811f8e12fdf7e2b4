"""From a verdict to what failed and its likely cause in this source: one function a kind."""

from typing import assert_never

from cuda_llm.agents.reflection.build_faults import compile_failed, duplicate, load_failed, no_code
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext
from cuda_llm.agents.reflection.host_faults import (
    device_assert,
    emulator_unsupported,
    host_crashed,
    impossible_time,
    launch_failed,
    out_of_memory,
    policy_violation,
)
from cuda_llm.agents.reflection.memory_faults import (
    guard_overwritten,
    illegal_access,
    misaligned,
    uninitialised_read,
)
from cuda_llm.agents.reflection.sync_faults import data_race, invalid_sync, timed_out
from cuda_llm.agents.reflection.wrong_results import (
    input_mutated,
    late_write,
    nondeterministic,
    wrong_result,
)
from cuda_llm.failures import (
    CompileFailed,
    DataRace,
    DeviceAssert,
    Duplicate,
    IllegalAccess,
    InvalidSync,
    LoadFailed,
    Misaligned,
    NoCode,
    PolicyViolation,
    TimedOut,
    UninitialisedRead,
)
from cuda_llm.outcomes import (
    EmulatorUnsupported,
    GuardOverwritten,
    HostCrashed,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    LateWrite,
    LaunchFailed,
    Nondeterministic,
    OutOfMemory,
    Passed,
    Quarantined,
    Verdict,
    WrongResult,
)


def diagnose_failure(verdict: Verdict, scene: FailureContext) -> Diagnosis | None:
    """The likely cause; None where the kernel passed or nothing is to be learned from it."""
    match verdict:
        case NoCode():
            return no_code(verdict)
        case Duplicate():
            return duplicate(verdict)
        case CompileFailed():
            return compile_failed(verdict, scene)
        case PolicyViolation():
            return policy_violation(verdict, scene)
        case LoadFailed():
            return load_failed(verdict)
        case LaunchFailed():
            return launch_failed(verdict, scene)
        case IllegalAccess():
            return illegal_access(verdict, scene)
        case Misaligned():
            return misaligned(verdict, scene)
        case DeviceAssert():
            return device_assert(verdict, scene)
        case DataRace():
            return data_race(verdict, scene)
        case UninitialisedRead():
            return uninitialised_read(verdict, scene)
        case InvalidSync():
            return invalid_sync(verdict, scene)
        case TimedOut():
            return timed_out(verdict, scene)
        case OutOfMemory():
            return out_of_memory(verdict, scene)
        case HostCrashed():
            return host_crashed(verdict)
        case WrongResult():
            return wrong_result(verdict, scene)
        case GuardOverwritten():
            return guard_overwritten(verdict, scene)
        case InputMutated():
            return input_mutated(verdict, scene)
        case Nondeterministic():
            return nondeterministic(verdict, scene)
        case LateWrite():
            return late_write(verdict)
        case ImpossibleTime():
            return impossible_time(verdict)
        case EmulatorUnsupported():
            return emulator_unsupported(verdict, scene)
        case Passed() | Quarantined() | InfraFailed():
            return None
        case _:
            assert_never(verdict)
