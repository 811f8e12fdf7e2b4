"""Verdicts in words: what went wrong, where, and what it means. One entry a line."""

from collections.abc import Mapping
from typing import assert_never

from cuda_llm.outcomes import (
    CompileFailed,
    DataRace,
    DeviceAssert,
    Diagnostic,
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
from cuda_llm.spots import SourceSpot, ThreadSpot


def describe(verdict: Verdict) -> tuple[str, ...]:
    """Say what became of a candidate: the finding first, then its place, then what it hints at."""
    match verdict:
        case Passed(differential=differential, notes=notes):
            oracle = ("the oracle was the task's own baseline, not an independent reference",)
            return (*(oracle if differential else ()), *notes)
        case WrongResult():
            return describe_wrong(verdict)
        case CompileFailed(reason=reason, diagnostics=diagnostics, omitted=omitted):
            return (reason, *describe_diagnostics(reason, diagnostics, omitted))
        case PolicyViolation(rule=rule, detail=detail, spot=spot):
            return (f"{rule}: {detail}", *at(spot))
        case LoadFailed(detail=detail) | OutOfMemory(detail=detail):
            return (detail,)
        case LaunchFailed(kernel=kernel, error=error, detail=detail):
            return (f"{kernel}: {error}", detail)
        case (
            IllegalAccess(detail=detail, thread=thread, spot=spot)
            | Misaligned(detail=detail, thread=thread, spot=spot)
            | DeviceAssert(detail=detail, thread=thread, spot=spot)
            | UninitialisedRead(detail=detail, thread=thread, spot=spot)
        ):
            return (detail, *at(spot, thread))
        case InvalidSync(kind=kind, detail=detail, thread=thread, spot=spot):
            return (f"{kind}: {detail}", *at(spot, thread))
        case DataRace(kind=kind, detail=detail, thread=thread, spot=spot, other=other):
            earlier = () if other is None else (f"against {place(other)}",)
            return (f"{kind}: {detail}", *at(spot, thread), *earlier)
        case TimedOut(stage=stage, limit_s=limit_s, detail=detail, spot=spot):
            return (f"{stage} did not finish within {limit_s:g} s", *lines(detail), *at(spot))
        case HostCrashed(signal=signal, detail=detail):
            return (f"the host part died of {signal}", *lines(detail))
        case GuardOverwritten(buffer=buffer, side=side, offset_bytes=offset):
            return (f"{offset} bytes {side} the edge of {buffer} were overwritten",)
        case InputMutated(buffer=buffer):
            return (f"{buffer} is an input and was changed",)
        case Nondeterministic(buffer=buffer, detail=detail):
            return (f"{buffer} differs between runs on the same input", detail)
        case LateWrite(buffer=buffer):
            return (f"{buffer} changed after solve had finished",)
        case ImpossibleTime(time_us=time_us, floor_us=floor_us, detail=detail):
            return (f"{time_us:.3g} us is below the floor of {floor_us:.3g} us", detail)
        case EmulatorUnsupported(opcode=opcode, kernel=kernel, detail=detail, spot=spot):
            needs = f"{kernel} needs {opcode}, which only a real GPU executes"
            return (needs, *lines(detail), *at(spot))
        case Quarantined(reason=reason) | NoCode(reason=reason):
            return (reason,)
        case Duplicate(of=of):
            return (f"the same kernel as {of}",)
        case InfraFailed(component=component, detail=detail):
            return (f"{component}: {detail}", "our fault, not the kernel's")
        case _:
            assert_never(verdict)


def describe_wrong(verdict: WrongResult) -> tuple[str, ...]:
    """Which case, which element, how far off, and what the pattern looks like."""
    index = ", ".join(str(i) for i in verdict.index)
    where = say_dims(verdict.dims) if verdict.dims else f"a {verdict.size_class} size"
    first = (
        f"{verdict.failed_cases} of {verdict.cases} cases: {where}, {verdict.distribution} input, "
        f"{verdict.buffer}[{index}] is {verdict.got:.9g}, should be {verdict.expected:.9g}"
    )
    extent = (
        f"{verdict.wrong:,} of {verdict.elements:,} elements are wrong; "
        f"largest error {verdict.error:.3g} units, allowed {verdict.limit:.3g}"
    )
    return (first, extent, *lines(verdict.looks_like))


def describe_diagnostics(
    reason: str, diagnostics: tuple[Diagnostic, ...], omitted: int
) -> tuple[str, ...]:
    """The compiler's errors with their lines, without repeating the reason."""
    said = []
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            spot = diagnostic.spot
            message = f"{spot}: {diagnostic.message}" if spot else diagnostic.message
            if diagnostic.message not in reason:
                said.append(message)
            if spot and spot.text:
                said.append(f"  {spot.line} | {spot.text}")
    if omitted:
        said.append(f"... and {omitted} more")
    return tuple(said)


def say_dims(dims: Mapping[str, int]) -> str:
    """`rows = 1,000, cols = 3`."""
    return ", ".join(f"{name} = {value:,}" for name, value in dims.items())


def place(spot: SourceSpot) -> str:
    """`mine.cu:14  `source line``."""
    return f"{spot}  `{spot.text}`" if spot.text else str(spot)


def at(spot: SourceSpot | None, thread: ThreadSpot | None = None) -> tuple[str, ...]:
    """Where it happened, and which thread did it."""
    return (
        *(() if spot is None else (f"at {place(spot)}",)),
        *(() if thread is None else (f"in {thread}",)),
    )


def lines(text: str) -> tuple[str, ...]:
    """The text as a line, or nothing."""
    return (text,) if text else ()


def printable(text: str) -> str:
    """The text without control characters: what a kernel says must not steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
