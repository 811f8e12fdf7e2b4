"""What makes two failures one."""

from typing import assert_never

from cuda_llm.facts import CudaError, Location, MemoryAccess
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


def failure_key(verdict: Verdict) -> str:
    """Return the verdict's code and what it knows of the cause, without figures and places.

    Two kernels with one key failed in the same way. Of a passed kernel it is the code alone.
    """
    return "/".join([verdict.code, *(str(fact) for fact in _cause_facts(verdict) if fact)])


def _cause_facts(verdict: Verdict) -> tuple[str | None, ...]:
    match verdict:
        case NoCode(kind=kind):
            return (kind,)
        case CompileFailed(fault=fault, diagnostics=diagnostics):
            first = next((one for one in diagnostics if one.severity == "error"), None)
            if first is None:
                return (fault,)
            # An error that nobody has classified is its own kind.
            return (fault or first.fault or first.message, first.subject)
        case PolicyViolation(rule=rule):
            return (rule,)
        case LoadFailed(fault=fault, symbol=symbol):
            return (fault, symbol)
        case LaunchFailed(error=error, limit=limit):
            return (error, limit.name if limit else None)
        case IllegalAccess(access=access) | Misaligned(access=access):
            return _access_facts(access, verdict.error)
        case UninitialisedRead(access=access):
            return _access_facts(access, verdict.error)
        case DeviceAssert(reason=reason, assertion=assertion):
            return (reason, assertion)
        case DataRace(kind=kind, space=space):
            return (kind, space)
        case InvalidSync(kind=kind, reason=reason):
            return (kind, reason)
        case TimedOut(stage=stage):
            return (stage,)
        case OutOfMemory(request=request, bound=bound):
            return (request, bound)
        case HostCrashed(signal=signal):
            return (signal,)
        case WrongResult(buffer=buffer, looks_like=elements, case_pattern=cases):
            region = elements.region if elements else None
            kinds = (one.kind if one else None for one in (elements, region, cases))
            return (buffer, *kinds)
        case GuardOverwritten(buffer=buffer, side=side):
            return (buffer, side)
        case Nondeterministic(buffer=buffer, kind=kind):
            return (buffer, kind)
        case InputMutated(buffer=buffer) | LateWrite(buffer=buffer):
            return (buffer,)
        case EmulatorUnsupported(opcode=opcode):
            return (opcode,)
        case Duplicate() | ImpossibleTime() | Quarantined() | Passed() | InfraFailed():
            return ()
        case _:
            assert_never(verdict)


def _access_facts(access: MemoryAccess | None, error: CudaError | None) -> tuple[str | None, ...]:
    if access is None:
        return (error.name if error else None,)
    location = access.location or Location()
    return (access.space, access.kind, location.relation, location.owner, location.name)
