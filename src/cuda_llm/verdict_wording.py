"""Verdicts in words for a person: `describe` gives the lines of a verdict, `phrase` one fact.

The words for a model, with the likely cause and a remedy, are in `agents.reflection.failure_hints`.
Nothing reads a sentence from here: code matches on fields.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias, assert_never

from cuda_llm.figure_wording import describe_dims
from cuda_llm.outcomes import (
    AccessKind,
    BaselineDoubt,
    CaseKind,
    CasePattern,
    CompileFailed,
    CompilerStop,
    CopyLack,
    CopyUnderWay,
    CudaError,
    DataRace,
    Decision,
    DescriptorFlaw,
    DeviceAssert,
    DeviceFault,
    Duplicate,
    ElementKind,
    ElementPattern,
    EmulatorUnsupported,
    ExceededLimit,
    FailedCall,
    GuardOverwritten,
    HostCrashed,
    IllegalAccess,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    InvalidSync,
    LateWrite,
    LaunchFailed,
    LaunchShape,
    LoadFailed,
    Location,
    MemoryAccess,
    Misaligned,
    NoCode,
    Nondeterministic,
    OutOfMemory,
    Owner,
    Passed,
    PolicyBreach,
    PolicyViolation,
    Quarantined,
    Region,
    RegionKind,
    Replay,
    SharedArray,
    SyncKind,
    SyncReason,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
    lacks_place,
)
from cuda_llm.source_file import SourceSpot

UNPLACED = "a GPU names neither line nor thread: the emulated device or compute-sanitizer would"
"""How to find out more than a GPU's error code."""

REPEATED_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "one-changed": "the call before was right: same addresses, one input element differs",
        "permuted": "the call before was right: same addresses, elements of one input reordered",
        "fresh": "the call before was right: same addresses, other contents",
        "extra": "the calls before were right: same addresses, same contents",
    }
)
"""By `WrongResult.repeat`: which calls were right before the wrong call."""

REPLY_FAULTS: Mapping[str, str] = {
    "empty": "the reply was empty: answer with one fenced block that holds the whole file",
    "only_reasoning": "nothing followed the reasoning: reason less, then give the whole file",
    "truncated": "the reply was cut off before the file was complete: reason less, leave out "
    "explanations, and give the whole file, a shorter one",
    "content_filter": "the server's content filter withheld the reply: answer with the file alone",
    "refused": "the model declined: this is ordinary numerical code, answer with the file",
    "no_code": "the reply held prose and no code: answer with one fenced block that holds the "
    "whole file",
    "no_solve": 'the code in the reply never defines `extern "C" void solve(...)`: answer with '
    "the whole file",
    "diff": "the reply was a patch: answer with the whole file, not with changes to it",
    "other_language": "the reply was not CUDA C++: answer with a .cu file, without Python around "
    "it",
    "too_long": "the file has more characters than allowed: write a shorter one",
}
"""By `ReplyFault`: what was wrong with a model's reply, and what the next prompt asks for."""

_LESS: Mapping[str, str] = {
    "cpp": "expand fewer macros and include less",
    "cudafe++": "instantiate fewer templates and compute less at compile time",
    "cicc": "instantiate fewer templates, compute less at compile time, unroll and inline less",
    "ptxas": "unroll and inline less, and keep tables small",
    "cc1plus": "instantiate fewer templates in host code and compute less at compile time",
    "as": "assemble less and keep tables small",
}
"""By program of the toolkit: what makes less work for the program."""
_RULES: Mapping[str, str] = {
    "embed-file": "a kernel may not embed files",
    "kernel-parameters": "inline PTX reads outside of the parameter that it names",
    "syscall": "the host part makes a system call that it may not",
    "host-touches-device-memory": "host code dereferences a device pointer",
    "no-launch": "the result is computed without a kernel",
    "host-copy": "solve copies from device to host",
    "runner-protocol": "the host part wrote to a descriptor that is not its own",
}
"""By rule that can be broken in one way only: how the rule is broken."""
_VERBS: Mapping[AccessKind | None, str] = {
    None: "accesses",
    "read": "reads",
    "write": "writes",
    "atomic": "atomically updates",
}
_FLAWS: Mapping[DescriptorFlaw, str] = {
    "reserved-bits": "matrix descriptor sets bits that are to be 0",
    "no-pattern": "matrix descriptor does not begin, or go on, where a pattern of its swizzle does",
    "negative-start": "tile that is written begins at a negative coordinate",
}
PLAIN_READS = (
    "no textures and surfaces here, read and write plain memory (__ldg, const __restrict__)"
)
_TEXTURE_CALL = re.compile(r"cuda\w*(?:Texture|Surface|Array|ChannelDesc)")
_TEXTURE_OPCODE = re.compile(r"tex\.|tld4\.|txq\.|su(?:ld|st|red|q)\.")
_OWNERS: Mapping[Owner, str] = {
    "buffer": "a buffer",
    "scratch": "a cudaMalloc allocation",
    "heap": "memory that a kernel allocated",
    "variable": "a module variable",
    "constant": "a __constant__ variable",
    "shared": "shared memory",
    "local": "local memory",
    "param": "kernel parameters",
    "allocation": "the nearest allocation",
}
_DECISIONS: Mapping[Decision, str] = {
    "address": "is part of an address",
    "branch": "decides a branch",
    "access": "decides whether memory is accessed",
    "atomic": "takes part in an atomic",
    "collective": "decides what lanes of a warp exchange",
    "operand": "is an operand of an instruction that needs all of it",
    "output": "is stored as a result",
}
_LACKS: Mapping[CopyLack, str] = {
    "commit": "its group is not committed",
    "commit-before-wait": "its group was committed after the wait, which does not cover it",
    "wait": "no wait covers its group",
}
_SYNC: Mapping[SyncReason | SyncKind, str] = {
    "different-barriers": "lanes of one warp are at different barriers: the others wait{elsewhere}",
    "different-thread-counts": "{opcode}: different thread counts",
    "no-such-barrier": "{opcode}: no such barrier",
    "not-a-member": "{opcode}{mask}: a lane executes it without being in its own mask",
    "missing-lanes": "{opcode}{mask}: not every lane of the mask gets here",
    "absent-lane": "{opcode} reads lane {lane}, which takes no part",
    "phase-incomplete": "{opcode} waits for ever: {missing} of the phase never come{elsewhere}",
    "cluster-incomplete": (
        "{opcode} waits for ever: not all threads of the cluster arrive{elsewhere}"
    ),
    "too-many-arrivals": "{opcode}: more arrivals in one phase than the mbarrier expects",
    "no-such-count": "{opcode}: a count of arrivals or bytes that an mbarrier cannot hold",
    "unpaired-cluster-barrier": "{opcode}: arrive and wait do not take turns",
    "missing-warps": "{opcode}: not all four warps of a warpgroup execute it",
    "different-operands": "{opcode}: not the same in all lanes and warps of a warpgroup{elsewhere}",
    "unwaited": "{opcode} touches a register of the product{elsewhere}, which was not waited for",
    "unfenced": "{opcode}: no wgmma.fence since its registers were written{elsewhere}",
    "deadlock": "no thread of the block can go on: some wait at {opcode}{others}",
}
_MEANINGS: Mapping[str, str] = {
    "cudaErrorIllegalAddress": "a thread touched memory that is not its own",
    "cudaErrorMisalignedAddress": "an address is not a multiple of the access size",
    "cudaErrorHardwareStackError": "a thread's stack is broken",
    "cudaErrorInvalidAddressSpace": "an instruction for one memory space was given "
    "another's address",
    "cudaErrorAssert": "device code called assert, and it did not hold",
    "cudaErrorIllegalInstruction": "a thread met a trap or an instruction that is none",
    "cudaErrorInvalidPc": "a thread jumped to where no code is",
    "cudaErrorLaunchFailure": "a thread met a trap, or touched shared or local memory that is not "
    "there",
    "cudaErrorLaunchTimeout": "the kernel ran for longer than the driver allows",
    "cudaErrorMemoryAllocation": "device memory ran out",
    "cudaErrorOperatingSystem": "the driver lost something of the operating system's in this "
    "process, as happens when host code touches descriptors that are not its own",
}
"""By CUDA's name of an error: what the error says of the kernel."""
_ELEMENTS: Mapping[ElementKind, str] = {
    ElementKind.INFINITE: "infinity: an overflow or a division by zero",
    ElementKind.ZEROS: "all zeros",
    ElementKind.CONSTANT: "one constant everywhere",
    ElementKind.TRANSPOSED: "the transpose of what it should be",
    ElementKind.SHIFTED: "every element is one place off",
    ElementKind.REVERSED: "in reverse order",
    ElementKind.NEGATED: "the negative of what it should be",
    ElementKind.CONJUGATED: "the complex conjugate of what it should be",
    ElementKind.PARTS_SWAPPED: "real and imaginary parts changed places",
    ElementKind.ONE_TOO_MANY: "off by one: too many",
    ElementKind.ONE_TOO_FEW: "off by one: too few",
    ElementKind.TOO_MANY: "too many: counters are not reset, or values are counted twice",
    ElementKind.ROUNDED_TO_TF32: "rounding to TF32 or half precision: the task asks for strict "
    "float32",
    ElementKind.ROUNDED_TO_BF16: "rounding to bfloat16, or sums kept in half precision",
    ElementKind.ROW_SUMS: "sums over this row are off by more than rounding of its elements "
    "explains",
}
"""By kind that holds no further fact: what the wrong elements look like."""


def describe(verdict: Verdict, *, hardware_figures: bool = True) -> tuple[str, ...]:
    """Describe what became of a candidate: the finding, its place, then the likely meaning.

    Without `hardware_figures` no line names a limit of the GPU, only what the candidate asked for.
    """
    match verdict:
        case Passed(differential=differential, guarded_races=races, notes=notes):
            oracle = "the oracle was the task's own baseline, not an independent reference"
            return _lines(oracle if differential else "", *map(_guarded_race, races), *notes)
        case NoCode():
            return (_no_code(verdict),)
        case Duplicate(of=of):
            return (f"the same kernel as {of}",)
        case CompileFailed():
            return _compile_failure(verdict)
        case PolicyViolation():
            return _policy_violation(verdict)
        case LoadFailed(fault=fault, symbol=symbol, detail=detail):
            missing = "it cannot be loaded"
            if fault == "undefined-function":
                missing = f"{symbol} is declared and used, but never defined"
            elif fault == "no-solve":
                missing = "no function `solve` is exported"
            return (detail or missing,)
        case LaunchFailed(kernel=kernel, error=error, limit=limit, launch=launch):
            if limit is not None and not hardware_figures:
                limit = replace(limit, allowed=None, most_bytes=None)
            return _lines(f"{kernel}: {error}" if kernel else error, phrase(limit), phrase(launch))
        case DeviceFault():
            return _device_fault(verdict)
        case TimedOut():
            return _timeout(verdict)
        case OutOfMemory():
            return (_out_of_memory(verdict),)
        case HostCrashed():
            return _host_crash(verdict)
        case WrongResult():
            return _wrong_result(verdict)
        case GuardOverwritten(buffer=buffer, side=side, offset_bytes=offset):
            return (f"{offset} bytes {side} the edge of {buffer} were overwritten",)
        case InputMutated(buffer=buffer):
            return (f"{buffer} is an input and was changed",)
        case Nondeterministic(buffer=buffer):
            return _lines(f"{buffer} differs between runs on the same input", _instability(verdict))
        case LateWrite(buffer=buffer):
            return (f"{buffer} changed after solve had finished",)
        case ImpossibleTime(time_us=time_us, floor_us=floor_us):
            floor = f"the floor of {floor_us:.3g} us" if hardware_figures else "the floor"
            first = f"{time_us:.3g} us is below {floor}"
            return (
                first,
                "the bytes and operations of the task need longer, or [roofline] of task.toml asks "
                "too much",
            )
        case EmulatorUnsupported(opcode=opcode, kernel=kernel, others=others, spot=spot):
            is_texture = _TEXTURE_OPCODE.match(opcode)
            why = f": {PLAIN_READS}" if is_texture else ", which only a real GPU executes"
            more = f"and {others} other operations" if others else ""
            return _lines(f"{kernel} needs {opcode}{why}", more, _at(spot))
        case Quarantined():
            return (_suspicion(verdict),)
        case InfraFailed(component=component, detail=detail):
            whose = "a fault of our parts or of the device, not of the kernel"
            return (f"{component}: {detail}", whose)
        case _:
            assert_never(verdict)


Fact: TypeAlias = (
    SourceSpot
    | CudaError
    | FailedCall
    | CopyUnderWay
    | Replay
    | MemoryAccess
    | Location
    | LaunchShape
    | ExceededLimit
    | PolicyBreach
    | CompilerStop
    | ElementPattern
    | CasePattern
    | BaselineDoubt
)
"""What a verdict or a measurement may hold and `phrase` puts into words."""


def phrase(fact: Fact | None) -> str:
    """Return a fact as one phrase; empty where the fact is not known."""
    match fact:
        case None:
            return ""
        case SourceSpot(text=text, inlined_at=callers):
            own = f"{fact}  `{text}`" if text else str(fact)
            return ", inlined at ".join((own, *map(phrase, callers)))
        case CudaError():
            return _cuda_error(fact)
        case FailedCall():
            return _failed_call(fact)
        case CopyUnderWay():
            return _copy_under_way(fact)
        case Replay():
            return _replay(fact)
        case MemoryAccess():
            return _access(fact)
        case Location():
            return _location(fact)
        case LaunchShape(grid=grid, block=block, dynamic_shared_bytes=shared):
            dynamic = f", {shared:,} bytes of dynamic shared memory" if shared else ""
            return f"grid {grid}, block {block}{dynamic}"
        case ExceededLimit():
            return _exceeded_limit(fact)
        case PolicyBreach():
            return _breach(fact)
        case CompilerStop():
            return _compiler_stop(fact)
        case ElementPattern():
            return _elements(fact)
        case CasePattern():
            return _cases(fact)
        case BaselineDoubt():
            return _baseline_doubt(fact)
        case _:
            assert_never(fact)


def _lines(*texts: str) -> tuple[str, ...]:
    return tuple(filter(None, texts))


def _at(spot: SourceSpot | None) -> str:
    return f"at {phrase(spot)}" if spot else ""


def _count(number: int, what: str) -> str:
    """Return `1 byte`, `4 bytes`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _no_code(verdict: NoCode) -> str:
    """Return a generator's own words, else why there is no answer, else the words for the kind."""
    words = verdict.message or verdict.call_fault
    if not words:
        kinds = {**REPLY_FAULTS, "exhausted": "every kernel of the playbook was tried"}
        words = kinds.get(verdict.kind, verdict.kind)
        most = verdict.most_characters if verdict.kind == "too_long" else None
        words += "" if most is None else f" (at most {most:,} characters)"
    return f"{words}: {verdict.said}" if verdict.said else words


def _compile_failure(verdict: CompileFailed) -> tuple[str, ...]:
    """Return the reason, then the compiler's errors with their lines of source."""
    reason = _compile_reason(verdict)
    lines = [reason]
    for error in verdict.diagnostics:
        if error.severity == "error":
            spot = error.spot
            if error.message not in reason:
                lines.append(f"{spot}: {error.message}" if spot else error.message)
            if spot and spot.text:
                lines.append(f"  {spot.line} | {spot.text}")
    if verdict.omitted:
        lines.append(f"... and {verdict.omitted} more")
    return tuple(lines)


def _compile_reason(verdict: CompileFailed) -> str:
    if verdict.stop is not None:
        return phrase(verdict.stop)
    if verdict.declaration:
        return f"`solve` has another signature: it must be `{verdict.declaration}`"
    first = verdict.first_error
    if first is None:
        return verdict.compiler_output or "it does not compile"
    return f"{first.spot}: {first.message}" if first.spot else first.message


def _compiler_stop(stop: CompilerStop) -> str:
    """Say what ended the compilation, and what to write instead where a limit ended it."""
    program = stop.program or "nvcc"
    name = "the preprocessor" if program == "cpp" else program
    less = f": {_LESS[program]}" if program in _LESS else ""
    mib = "the limit" if stop.limit_bytes is None else f"{stop.limit_bytes >> 20} MiB"
    match stop.kind:
        case "empty-source":
            return f"{stop.file or 'the source'} is empty: it holds no code"
        case "too-many-processes":
            return "the compiler started too many processes"
        case "file-size":
            return f"the compiler wrote a file larger than {mib}"
        case "memory":
            return f"{name} needs more than {mib} of memory{less}"
        case "processor-time":
            limit = "its share" if stop.limit_s is None else f"{stop.limit_s:g} s"
            return f"{name} needs more than {limit} of processor time{less}"
        case "device-code":
            return (
                f"its device code is more than {mib} of PTX, which an emulated device does not "
                "translate: unroll and inline less"
            )
        case "crash":
            return f"{program} crashed (signal {stop.signal})"
        case "exit-code":
            return f"{program} ended with code {stop.exit_code}"


def _policy_violation(verdict: PolicyViolation) -> tuple[str, ...]:
    rule, location = verdict.rule, verdict.location
    how = phrase(verdict.breach) or _RULES.get(rule, "")
    touched = f": {phrase(location)}" if location else ""
    return _lines(f"{rule}: {how}{touched}" if how else rule, _at(verdict.spot))


def _breach(breach: PolicyBreach) -> str:
    names = ", ".join(breach.names)
    limit = "is allowed" if breach.limit_bytes is None else f"{breach.limit_bytes >> 20} MiB"
    at_load = "code of the kernel would run when it is loaded: "
    match breach.kind:
        case "outside-file":
            where = "is outside the kernel's folder: include headers by their library name"
            return f"{names or 'a file there'} {where}"
        case "forbidden-call":
            is_texture = any(map(_TEXTURE_CALL.match, breach.names))
            return f"a kernel may not call {names}{f': {PLAIN_READS}' if is_texture else ''}"
        case "forbidden-library":
            return f"a kernel may not use {names}"
        case "dynamic-entry":
            return f"the library carries {names}"
        case "visible-name":
            return f"{names} is visible to others"
        case "reserved-name":
            return f"a kernel may not define {names}"
        case "static-initialiser":
            return f"{at_load}an initialiser of a global object"
        case "load-function":
            return f"{at_load}{names}"
        case "load-section":
            return f"{at_load}section {names}"
        case "indirect-function":
            return f"{at_load}{names} is resolved by it"
        case "no-function":
            return f"{at_load}an entry that is no function"
        case "system-call":
            return f"the host part calls {names or f'number {breach.number}'}"
        case "large-copy":
            return f"cudaMemcpy of more than {limit} from host to device"
        case "large-copies":
            return f"more than {limit} from host to device in one call"
        case "unjoined-stream":
            return (
                f"solve returned before {names or 'work'} in another stream was waited for: call "
                "cudaStreamSynchronize, or cudaEventRecord and cudaStreamWaitEvent on stream 0"
            )


def _exceeded_limit(limit: ExceededLimit) -> str:
    """Say what the launch asked for and, where known, how much the hardware allows."""
    asked = "more" if limit.asked is None else f"{limit.asked:,}"
    most = "" if limit.allowed is None else f", at most {limit.allowed:,}"
    match limit.name:
        case "grid-extent" | "block-extent":
            what = limit.name.removesuffix("-extent")
            allowed = "must be more than 0" if limit.asked == 0 else "must be in range"
            if limit.allowed is not None:
                allowed = f"must be 1 to {limit.allowed:,}"
            return f"extent {limit.axis or ''} of the {what} is {asked}: {allowed}"
        case "threads-per-block":
            return f"{asked} threads a block{most}"
        case "launch-bounds":
            return f"{asked} threads a block, where __launch_bounds__ allows fewer{most}"
        case "shared-memory":
            static = f" beside {limit.static_bytes:,} static ones" if limit.static_bytes else ""
            raised = ""
            if limit.most_bytes is not None:
                raised = (
                    f" (cudaFuncAttributeMaxDynamicSharedMemorySize raises it up to "
                    f"{limit.most_bytes:,} in all)"
                )
            return f"{asked} bytes of dynamic shared memory{static}{most}{raised}"
        case "registers":
            return f"{asked} registers a block{most}"
        case "resident-blocks":
            return f"{asked} blocks of a cooperative launch on the device at once{most}"
        case "cluster":
            return f"clusters of {asked} blocks{most}"


def _device_fault(verdict: DeviceFault) -> tuple[str, ...]:
    """Return the finding, its place, and where the place comes from if a GPU gave a code alone."""
    finding, error = _finding(verdict), phrase(verdict.error)
    if not finding:
        finding, error = error or verdict.code.replace("_", " ").lower(), ""
    other = verdict.other if isinstance(verdict, DataRace | InvalidSync) else None
    used_at = verdict.used_at if isinstance(verdict, UninitialisedRead) else None
    return _lines(
        finding,
        _at(verdict.spot),
        f"in {verdict.thread}" if verdict.thread else "",
        f"against {phrase(other)}" if other else "",
        f"used {_at(used_at)}" if used_at else "",
        phrase(verdict.copy) if isinstance(verdict, DataRace | UninitialisedRead) else "",
        *describe_call(verdict),
        error,
        phrase(verdict.replay),
        UNPLACED if lacks_place(verdict) else "",
    )


def _finding(verdict: DeviceFault) -> str:
    """Return the fault itself; empty where only an error code is known."""
    match verdict:
        case Misaligned(access=MemoryAccess(location=Location()) as access):
            return f"{_access(access)}: not a multiple of {access.bytes}"
        case UninitialisedRead(access=MemoryAccess() as access):
            yet = " yet" if verdict.copy else ""
            return f"{_access(access)}, which nothing has written{yet}{_decided(verdict)}"
        case UninitialisedRead(decides=str()):
            return f"a value that nothing has set{_decided(verdict)}"
        case IllegalAccess(access=access) | Misaligned(access=access):
            return phrase(access)
        case DeviceAssert(assertion=str(assertion)):
            return assertion
        case DeviceAssert(reason="trap", error=None):
            return "__trap()"
        case DeviceAssert(called=0):
            return "a call through a null pointer"
        case DeviceAssert(called=int(address)):
            return f"a call of {address:#x}, which is no __device__ function with such parameters"
        case DataRace():
            return f"{verdict.kind}: {_race(verdict)}"
        case InvalidSync():
            return f"{verdict.kind}: {_sync(verdict)}"
    return ""


def _decided(verdict: UninitialisedRead) -> str:
    return f"; the value {phrase_decision(verdict.decides)}" if verdict.decides else ""


def phrase_decision(decision: Decision) -> str:
    """Return what a value is used for, e.g. `decides a branch`."""
    return _DECISIONS[decision]


def name_owner(location: Location) -> str:
    """Return `buffer C`, `cudaMalloc allocation 2`, `shared memory`."""
    if location.owner is None:
        return "its memory"
    if location.owner == "buffer" and location.name:
        return f"buffer {location.name}"
    if location.owner == "scratch" and location.number is not None:
        return f"cudaMalloc allocation {location.number}"
    return _OWNERS[location.owner]


def _access(access: MemoryAccess) -> str:
    """Return `reads 4 bytes at byte 4000 of buffer C (4000 bytes)`."""
    size = "" if access.bytes is None else f" {_count(access.bytes, 'byte')}"
    what = f"{_VERBS[access.kind]}{size}"
    if access.descriptor is not None:
        what = f"a {_FLAWS[access.descriptor]}: {what}"
    if access.location is not None:
        return f"{what} {_location(access.location)}"
    return f"{what} of {access.space} memory" if access.space else what


def _place_in(array: SharedArray) -> str:
    """Return `tile[1][0], byte 132 of the shared array tile (4,224 bytes)`."""
    size = "" if array.size_bytes is None else f" ({array.size_bytes:,} bytes)"
    element = f"{array.name}{''.join(f'[{one}]' for one in array.index)}, " if array.index else ""
    return f"{element}byte {array.offset_bytes:,} of the shared array {array.name}{size}"


def _location(location: Location) -> str:
    """Return `at byte 4000 of buffer C (4000 bytes)`, `8 bytes before the start of buffer C`."""
    if location.relation == "nowhere":
        at = "" if location.address is None else f"at {location.address:#x}, "
        return f"{at}which is nobody's memory" if at else "in nobody's memory"
    owner, size, offset = name_owner(location), location.size_bytes, location.offset_bytes
    freed = ", freed" if location.freed else ""
    if location.array is not None and not location.freed:
        return f"at {_place_in(location.array)}"
    if location.owner in {"shared", "local", "param"} and size is not None:
        exited = " of a block that has exited" if location.freed else ""
        owner, extent = f"{size} bytes of {owner}{exited}", ""
    else:
        extent = f" ({size} bytes{freed})" if size is not None else ""
    if offset is None:
        sides = {"past-end": "past the end of", "before-start": "before the start of"}
        return f"{sides.get(location.relation or '', 'in')} {owner}{extent}"
    if offset < 0:
        return f"{-offset} bytes before the start of {owner}{extent}"
    return f"at byte {offset} of {owner}{extent}"


MOST_UNLAUNCHED = 3
"""Most kernels that are named as never launched."""


def describe_call(verdict: DeviceFault | WrongResult) -> tuple[str, ...]:
    """Describe what else the call of `solve` shows that may explain the verdict: a line a fact."""
    names, most = verdict.unlaunched, MOST_UNLAUNCHED
    rest = f" and {len(names) - most} others" if len(names) > most else ""
    unlaunched = f"never launched in this call: {', '.join(names[:most])}{rest}" if names else ""
    return _lines(*map(phrase, verdict.failed_calls), unlaunched)


def _failed_call(failed: FailedCall) -> str:
    """Return `cudaMemsetAsync at mine.cu:20 returned cudaErrorInvalidValue, and solve went on`."""
    call = failed.call
    if failed.kernel is not None:
        is_launch = call.startswith(("cudaLaunch", "__cudaLaunch"))
        call = f"the launch of {failed.kernel}" if is_launch else f"{call} for {failed.kernel}"
    where = f" at {failed.spot}" if failed.spot else ""
    times = f" ({failed.times:,} times)" if failed.times > 1 else ""
    return f"{call}{where} returned {failed.error}{times}, and solve went on"


def _copy_under_way(copy: CopyUnderWay) -> str:
    where = f" {_at(copy.spot)}" if copy.spot else ""
    return f"the cp.async{where} has yet to bring these bytes: {_LACKS[copy.lacks]}"


def _guarded_race(race: DataRace) -> str:
    """Say which plain read races with which update, and why that changes no result."""
    read, update = race.read_and_update
    return (
        f"a plain read of {race.space} memory {_at(read) or 'somewhere'} races with an atomic "
        f"update {_at(update) or 'elsewhere'}: what it reads only decides whether to update, so "
        "that no result depends on it (DATA_RACE with --strict)"
    )


def _race(verdict: DataRace) -> str:
    """Say which two accesses of which word."""
    if verdict.hazards is not None:
        return f"{_count(verdict.hazards, 'hazard')} in {verdict.space} memory"
    earlier, _, later = verdict.kind.partition("-")
    verb = _VERBS["atomic" if verdict.atomic else "write" if later == "write" else "read"]
    word = f"{_word(verdict)} of {verdict.space} memory"
    if verdict.location is not None and verdict.location.array is not None:
        word = _place_in(verdict.location.array)
    elif verdict.location is not None and verdict.location.owner in {"buffer", "scratch"}:
        word = f"{_word(verdict)} of {name_owner(verdict.location)}"
    where = "" if verdict.other is None else f" at {verdict.other}"
    if verdict.unfenced:
        return (
            f"a bulk copy or wgmma reads {word} after a store{where}, "
            "with no fence.proxy.async between the two"
        )
    return (
        f"{verb} {word} after another thread's {earlier}{where}, with nothing between that orders "
        "the two"
    )


def _word(race: DataRace) -> str:
    return "a word" if race.offset_bytes is None else f"byte {race.offset_bytes}"


def _sync(verdict: InvalidSync) -> str:
    """Say which barrier or collective, and which threads are missing."""
    elsewhere = "" if verdict.other is None else f" at {verdict.other}"
    arrivals, size = verdict.missing_arrivals or 0, verdict.missing_bytes or 0
    parts = ((arrivals, "arrival"), (size, "byte"))
    missing = " and ".join(_count(number, what) for number, what in parts if number)
    return _SYNC.get(verdict.reason or verdict.kind, "not all threads reach {opcode}").format(
        opcode=verdict.opcode or "barrier",
        lane=verdict.lane,
        mask="" if verdict.mask is None else f" with mask {verdict.mask:#010x}",
        missing=missing or "the arrivals",
        elsewhere=elsewhere,
        others=elsewhere and f", others{elsewhere}",
    )


def _cuda_error(error: CudaError) -> str:
    where = f" in {error.kernel}" if error.kernel else ""
    meaning = _MEANINGS.get(error.name)
    return f"{meaning} ({error.name}{where})" if meaning else f"{error.name}{where}"


def _replay(replay: Replay) -> str:
    """Say where a place comes from that a GPU did not name, or why there is none."""
    match replay.outcome:
        case "located":
            return "the GPU gave an error code alone; the emulated device ran the case and shows it"
        case "nothing-found":
            return "the emulated device ran the same case and found nothing: compute-sanitizer may"
        case "other-verdict":
            return f"the emulated device ran the same case and says {replay.code}"
        case "not-finished":
            limit = "" if replay.limit_s is None else f" within {replay.limit_s:g} s"
            return f"the emulated device did not finish the same case{limit}"
        case "not-run":
            why = f": {replay.detail}" if replay.detail else ""
            return f"the emulated device could not run the same case{why}"


def _timeout(verdict: TimedOut) -> tuple[str, ...]:
    """Say which stage, what is still running, and where."""
    running = ""
    if verdict.thread is not None:
        loop = f" in the loop at {verdict.spot}" if verdict.spot else ""
        running = f"{verdict.thread} is still running{loop}"
    elif verdict.stage == "host":
        running = "`solve` did not return"
    elif verdict.processor_time:
        running = "processor time"
    deadlock = "possible deadlock: it launches more blocks than are resident at once"
    kernel = verdict.kernel or (verdict.thread.kernel if verdict.thread else "")
    stage = f"{verdict.stage} {kernel}" if verdict.stage == "kernel" and kernel else verdict.stage
    return _lines(
        f"{stage} did not finish within {verdict.limit_s:g} s",
        "; ".join(_lines(running, deadlock if verdict.crowded else "")),
        _at(verdict.spot),
        phrase(verdict.error),
        phrase(verdict.replay),
    )


def _out_of_memory(verdict: OutOfMemory) -> str:
    """Say what asked for how much, and which limit was reached."""
    size = "" if verdict.bytes is None else f"{verdict.bytes:,} bytes"
    match verdict.request:
        case "cudaMalloc":
            bound = "its quota is used up"
            if verdict.bound == "device":
                bound = "device memory is used up"
            elif verdict.allowed_bytes is not None:
                bound = f"the task allows {verdict.allowed_bytes:,} bytes at once"
            request = f"cudaMalloc of {size or 'too much'}: {bound}"
        case "variables":
            request = f"module variables need more than device memory has: {size}"
        case "to-load":
            request = "the device code needs more memory than there is"
        case "to-run":
            request = "no memory is left to call it beside what it holds"
        case None:
            request = phrase(verdict.error)
    left = {None: "", "exit": "; then `solve` gave up"}.get(verdict.then, f"; then {verdict.then}")
    beside = "it leaves the baseline beside it no memory: " if verdict.beside_baseline else ""
    return f"{beside}{request}{left}" or "device memory ran out"


def _host_crash(verdict: HostCrashed) -> tuple[str, ...]:
    """Say which signal ended the host part, and what the host part touched."""
    how = phrase(verdict.error)
    if not how and verdict.status is not None:
        how = f"`solve` ended the process: {verdict.status}"
    elif not how and verdict.killed:
        how = "the process was killed; perhaps memory ran out"
    elif not how and verdict.address is not None:
        how = f"it touched address {verdict.address:#x}"
    return _lines(f"the host part died of {verdict.signal}", how)


def _wrong_result(verdict: WrongResult) -> tuple[str, ...]:
    """Say which case, which element, how far off, and what the pattern looks like."""
    index = ", ".join(str(i) for i in verdict.index)
    where = describe_dims(verdict.dims) if verdict.dims else f"a {verdict.size_class} size"
    got, expected = verdict.numbers
    first = (
        f"{verdict.failed_cases} of {verdict.cases} cases: {where}, {verdict.distribution} input, "
        f"{verdict.buffer}[{index}] is {got:.9g}, should be {expected:.9g}"
    )
    count = extent = ""
    if verdict.wrong is not None and verdict.elements is not None:
        count = f"{verdict.wrong:,} of {verdict.elements:,} elements are wrong"
    if verdict.limit:  # Where results have to be equal, an error has no size.
        extent = describe_error(verdict)
    patterns = _lines(
        phrase(verdict.looks_like),
        phrase(verdict.case_pattern),
        REPEATED_CALLS.get(verdict.repeat, ""),
    )
    return _lines(
        first, "; ".join(_lines(count, extent)), "; ".join(patterns), *describe_call(verdict)
    )


def describe_error(verdict: WrongResult) -> str:
    """Say how far the outputs are off: a number, unless one of them is none."""
    if math.isfinite(verdict.error):
        return f"largest error {verdict.error:.3g} units, allowed {verdict.limit:.3g}"
    got, _ = verdict.numbers
    found = "NaN" if got != got else "infinity" if abs(got) == math.inf else "NaN or infinity"
    return f"{found} is right only where the reference has the same"


def _elements(pattern: ElementPattern) -> str:
    """Say what the wrong elements look like. Ratios, no counts: a size may be hidden."""
    kind, factor, share = pattern.kind, pattern.factor, pattern.share
    match kind:
        case ElementKind.UNWRITTEN:
            if pattern.region is not None:
                return f"never written: {_region(pattern.region)}"
            if share in (None, 1.0):
                return "the output is never written"
            return f"{_percent(share or 0.0)} of the elements are never written"
        case ElementKind.NAN:
            return "NaN" if share is None else f"NaN in {_percent(share)} of the elements"
        case ElementKind.COPIED:
            return f"a copy of {pattern.buffer}"
        case ElementKind.MULTIPLE:
            return f"{factor} times what it should be: terms are counted {factor} times"
        case ElementKind.FRACTION:
            return f"one {factor}th of what it should be: most terms are lost"
        case ElementKind.TOO_FEW:
            return "too few" if share is None else f"too few: {share:.2g} of all are lost"
        case ElementKind.LOCATED:
            return "" if pattern.region is None else _region(pattern.region)
        case _:
            return _ELEMENTS[kind]


def _region(region: Region) -> str:
    match region.kind:
        case RegionKind.FIRST_ELEMENT | RegionKind.LAST_ELEMENT:
            return f"the {region.kind.value.removesuffix('-element')} element only"
        case RegionKind.LAST_CORNER:
            return "the last corner: the last rows and columns"
        case RegionKind.EVERY_NTH:
            return f"every {region.period}th element"
        case _:
            what = region.kind.value.removeprefix("last-")
            share = "" if region.share is None else f" ({_percent(region.share)} of them)"
            return f"the last {what} are wrong{share}: a tail or last tile"


def _percent(share: float) -> str:
    """Return `3.1 %`."""
    return f"{100 * share:.2g} %"


def _cases(pattern: CasePattern) -> str:
    """Say what the wrong cases have in common."""
    dims = " and ".join(pattern.dims)
    right, wrong = pattern.right_at or 0, pattern.wrong_at or 0
    match pattern.kind:
        case CaseKind.EXACTNESS_PROBE:
            return (
                "only the exactness probe is wrong: sums of whole numbers that float32 holds "
                "exactly come out rounded"
            )
        case CaseKind.MULTIPLE_OF if len(pattern.dims) > 1:
            return f"right only where {dims} are multiples of {pattern.step}"
        case CaseKind.MULTIPLE_OF:
            rest = "the tail after whole vectors" if pattern.is_vector else "the last partial tile"
            every = f"every size where {dims} is a multiple of {pattern.step} is right"
            return f"{every}: {rest} is not handled"
        case CaseKind.EQUAL_DIMS:
            return f"right only where {' equals '.join(pattern.dims)}"
        case CaseKind.ABOVE:
            return f"right up to {dims} = {right:,}, wrong from {dims} = {wrong:,} on"
        case CaseKind.BELOW:
            return f"wrong up to {dims} = {wrong:,}, right from {dims} = {right:,} on"
        case CaseKind.DISTRIBUTION:
            return f"only inputs drawn from {' or '.join(pattern.distributions)} are wrong"


def _instability(verdict: Nondeterministic) -> str:
    """Say how two calls differ."""
    if verdict.kind == "order-of-execution":
        return (
            "right with one order of blocks and warps, wrong with another: threads depend on an "
            "order nothing enforces"
        )
    if verdict.units is None or verdict.limit is None:
        return ""
    if not math.isfinite(verdict.units):
        return "of two calls on the same inputs one has NaN or infinity where the other has none"
    return (
        f"two calls on the same inputs differ by {verdict.units:.3g} rounding units, more than a "
        f"quarter of the tolerance ({verdict.limit:.3g})"
    )


def _suspicion(verdict: Quarantined) -> str:
    """Say why the time of a kernel is not believed."""
    beyond = verdict.beyond_us
    match verdict.kind:
        case "slow-start":
            more = "" if beyond is None else f", by {beyond:.0f} us more than can be explained"
            return (
                f"the first calls of a batch take longer than the following ones{more}: the time "
                "of a call depends on how many are timed"
            )
        case "merged-calls":
            more = "" if beyond is None else f", by {beyond:.1f} us more than noise explains"
            return (
                "a call of which nothing is known before the one before it has ended takes longer "
                f"than one of a batch{more}: work of several calls may be done in one"
            )
        case "uncounted-launches":
            many = "its" if verdict.launches is None else f"{verdict.launches:,}"
            return f"{many} launches are more than can be counted: how long they take is not known"
        case "unseen-stores":
            left = verdict.left_out
            if left is None:
                return (
                    "its outputs are right, but fewer bytes were seen to be stored than they have: "
                    "work is hidden from the count"
                )
            return (
                f"at {describe_dims(left.dims)} it was seen to store {left.counted:,.0f} bytes of "
                f"its outputs, of at least {left.least:,.0f}: work is left out, or hidden from the "
                "count"
            )
        case "less-work":
            left = verdict.left_out
            if left is None:
                return (
                    "at a size that is timed it computes less for each result than at those where "
                    "its results were compared: work may be left out"
                )
            return (
                f"at {describe_dims(left.dims)}, where its results were not compared, it does "
                f"{left.counted:.3g} floating-point operations, of at least {left.least:.3g} in "
                f"proportion to {describe_dims(left.beside)}, where they were right: let a size "
                "that is compared take the same path"
            )
        case None:
            return "set aside for a person to look at"


def _baseline_doubt(doubt: BaselineDoubt) -> str:
    """Say what the baseline took, which of its times is believed, and why."""
    taken = (
        f"at {describe_dims(doubt.dims)} the baseline took {doubt.beside_us:.4g} us beside this "
        f"kernel, {doubt.reference_us:.4g} us alone before, and {doubt.again_us:.4g} us beside "
        "this kernel in a new process"
    )
    match doubt.outcome:
        case "odd-process":
            return f"{taken}: the first process was odd, and nothing timed beside it is used"
        case "stale-reference":
            return f"{taken}: the GPU has another pace than before, for this kernel too"
        case "unsettled":
            alone = doubt.alone_us
            more = "" if alone is None else f", but {alone:.4g} us alone in another new one"
            return f"{taken}{more}: other work is on this GPU, or this kernel slows others down"
