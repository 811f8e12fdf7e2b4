"""Verdicts in words for a person: what went wrong, where, and what it means. One entry a line."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

from cuda_llm.figure_wording import describe_dims
from cuda_llm.outcomes import (
    AccessKind,
    BaselineDoubt,
    CaseKind,
    CasePattern,
    CompileFailed,
    CompilerStop,
    CudaError,
    DataRace,
    DescriptorFlaw,
    DeviceAssert,
    DeviceFault,
    Diagnostic,
    Duplicate,
    ElementKind,
    ElementPattern,
    EmulatorUnsupported,
    ExceededLimit,
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
    ReplyFault,
    SyncKind,
    SyncReason,
    ThreadSpot,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
    lacks_place,
)
from cuda_llm.source_file import SourceSpot


def describe(verdict: Verdict, *, hardware_figures: bool = True) -> tuple[str, ...]:
    """Describe what became of a candidate: the finding, then its place, then what it hints at.

    Without `hardware_figures` no limit of the GPU is named, only what the candidate asked for.
    """
    match verdict:
        case Passed(differential=differential, notes=notes):
            oracle = ("the oracle was the task's own baseline, not an independent reference",)
            return (*(oracle if differential else ()), *notes)
        case WrongResult():
            return describe_wrong(verdict)
        case CompileFailed(diagnostics=diagnostics, omitted=omitted):
            reason = describe_compile_failure(verdict)
            return (reason, *describe_diagnostics(reason, diagnostics, omitted))
        case PolicyViolation():
            return describe_violation(verdict)
        case LoadFailed():
            return describe_load_failure(verdict)
        case OutOfMemory():
            return describe_out_of_memory(verdict)
        case LaunchFailed(kernel=kernel, error=error, limit=limit, launch=launch, detail=detail):
            exceeded = () if limit is None else (describe_limit(limit, figures=hardware_figures),)
            shape = () if launch is None else (describe_launch(launch),)
            named = f"{kernel}: {error}" if kernel else error
            # Words of others about a refused launch are about what the hardware allows.
            why = exceeded or line_of(detail if hardware_figures else "")
            return (named, *why, *shape)
        case DeviceFault():
            return describe_fault(verdict)
        case TimedOut():
            return describe_timeout(verdict)
        case HostCrashed():
            return describe_crash(verdict)
        case GuardOverwritten(buffer=buffer, side=side, offset_bytes=offset):
            return (f"{offset} bytes {side} the edge of {buffer} were overwritten",)
        case InputMutated(buffer=buffer):
            return (f"{buffer} is an input and was changed",)
        case Nondeterministic(buffer=buffer, detail=detail):
            first = f"{buffer} differs between runs on the same input"
            return (first, *line_of(detail or describe_instability(verdict)))
        case LateWrite(buffer=buffer):
            return (f"{buffer} changed after solve had finished",)
        case ImpossibleTime(time_us=time_us, floor_us=floor_us):
            floor = f"the floor of {floor_us:.3g} us" if hardware_figures else "the floor"
            first = f"{time_us:.3g} us is below {floor}"
            return (first, "the bytes and operations of the task need longer")
        case EmulatorUnsupported(opcode=opcode, kernel=kernel, others=others, spot=spot):
            needs = f"{kernel} needs {opcode}, which only a real GPU executes"
            more = f"and {others} other operations" if others else verdict.detail
            return (needs, *line_of(more), *describe_place(spot))
        case NoCode():
            return (describe_no_code(verdict),)
        case Quarantined():
            return (describe_suspicion(verdict),)
        case Duplicate(of=of):
            return (f"the same kernel as {of}",)
        case InfraFailed(component=component, detail=detail):
            whose = "a fault of our parts or of the device, not of the kernel"
            return (f"{component}: {detail}", whose)
        case _:
            assert_never(verdict)


REPEATED_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "one-changed": "the call before was right: same addresses, one input element differs",
        "fresh": "the call before was right: same addresses, other contents",
        "extra": "the calls before were right: same addresses, same contents",
    }
)
"""By `WrongResult.repeat`."""


def describe_wrong(verdict: WrongResult) -> tuple[str, ...]:
    """Describe which case, which element, how far off, and what the pattern looks like."""
    index = ", ".join(str(i) for i in verdict.index)
    where = describe_dims(verdict.dims) if verdict.dims else f"a {verdict.size_class} size"
    first = (
        f"{verdict.failed_cases} of {verdict.cases} cases: {where}, {verdict.distribution} input, "
        f"{verdict.buffer}[{index}] is {verdict.got:.9g}, should be {verdict.expected:.9g}"
    )
    extent = f"largest error {verdict.error:.3g} units, allowed {verdict.limit:.3g}"
    if verdict.wrong is not None and verdict.elements is not None:
        extent = f"{verdict.wrong:,} of {verdict.elements:,} elements are wrong; {extent}"
    return (first, extent, *phrases(*describe_patterns(verdict)))


def describe_patterns(verdict: WrongResult) -> tuple[str, ...]:
    """Describe what wrong elements look like and what wrong cases have in common."""
    elements, cases = verdict.looks_like, verdict.case_pattern
    return (
        *(() if elements is None else (describe_elements(elements),)),
        *(() if cases is None else (describe_cases(cases),)),
        *line_of(REPEATED_CALLS.get(verdict.repeat, "")),
        *line_of(verdict.detail),
    )


def describe_timeout(verdict: TimedOut) -> tuple[str, ...]:
    """Describe which stage, what is still running, and where."""
    late = f"{verdict.stage} did not finish within {verdict.limit_s:g} s"
    running = ""
    if verdict.thread is not None:
        loop = f" in the loop at {verdict.spot}" if verdict.spot else ""
        running = f"{verdict.thread} is still running{loop}"
    elif verdict.kernel is not None:
        running = f"{verdict.kernel or 'a kernel'} is still running"
    elif verdict.stage == "host":
        running = "`solve` did not return"
    elif verdict.processor_time:
        running = "processor time"
    if verdict.crowded:
        running += "; possible deadlock: it launches more blocks than are resident at once"
    error = () if verdict.error is None else (describe_error(verdict.error),)
    replayed = () if verdict.replay is None else (describe_replay(verdict.replay),)
    return (
        late,
        *line_of(verdict.detail or running),
        *describe_place(verdict.spot),
        *error,
        *replayed,
    )


def describe_out_of_memory(verdict: OutOfMemory) -> tuple[str, ...]:
    """Describe what asked for how much, and whose end was reached."""
    size = "" if verdict.bytes is None else f"{verdict.bytes:,} bytes"
    match verdict.request:
        case "cudaMalloc":
            request = f"cudaMalloc of {size or 'too much'}: {describe_bound(verdict)}"
        case "variables":
            request = f"module variables need more than device memory has: {size}"
        case "to-load":
            request = "the device code needs more memory than there is"
        case "to-run":
            request = "no memory is left to call it beside what it holds"
        case None:
            request = describe_error(verdict.error) if verdict.error else ""
    detail = f" ({verdict.detail})" if request and verdict.detail else verdict.detail
    left = {None: "", "exit": "; then `solve` gave up"}.get(verdict.then, f"; then {verdict.then}")
    beside = "it leaves the baseline beside it no memory: " if verdict.beside_baseline else ""
    return (f"{beside}{request}{detail}{left}" or "device memory ran out",)


def describe_bound(verdict: OutOfMemory) -> str:
    """Describe whose end a cudaMalloc reached."""
    if verdict.bound == "device":
        return "device memory is used up"
    if verdict.allowed_bytes is None:
        return "its quota is used up"
    return f"the task allows {verdict.allowed_bytes:,} bytes at once"


def describe_crash(verdict: HostCrashed) -> tuple[str, ...]:
    """Describe of which signal, and what it touched."""
    died = f"the host part died of {verdict.signal}"
    if verdict.error is not None:
        return (died, describe_error(verdict.error))
    if verdict.status is not None:
        return (died, f"`solve` ended the process: {verdict.status}")
    if verdict.killed:
        return (died, "the process was killed; perhaps memory ran out")
    where = "" if verdict.address is None else f"it touched address {verdict.address:#x}"
    return (died, *line_of(verdict.detail or where))


def describe_instability(verdict: Nondeterministic) -> str:
    """Describe how two calls differ."""
    if verdict.kind == "order-of-execution":
        return (
            "right with one order of blocks and warps, wrong with another: threads depend on an "
            "order nothing enforces"
        )
    if verdict.units is None or verdict.limit is None:
        return ""
    return (
        f"two calls on the same inputs differ by {verdict.units:.3g} rounding units, more than a "
        f"quarter of the tolerance ({verdict.limit:.3g})"
    )


def describe_doubt(doubt: BaselineDoubt) -> str:
    """Return what the baseline took, which of it is believed, and why."""
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
        case _:
            assert_never(doubt.outcome)


_PHRASES: Mapping[ElementKind, str] = {
    ElementKind.INFINITE: "infinity: an overflow or a division by zero",
    ElementKind.ZEROS: "all zeros",
    ElementKind.CONSTANT: "one constant everywhere",
    ElementKind.TRANSPOSED: "the transpose of what it should be",
    ElementKind.SHIFTED: "every element is one place off",
    ElementKind.REVERSED: "in reverse order",
    ElementKind.NEGATED: "the negative of what it should be",
    ElementKind.ONE_TOO_MANY: "off by one: too many",
    ElementKind.ONE_TOO_FEW: "off by one: too few",
    ElementKind.TOO_MANY: "too many: counters are not reset, or values are counted twice",
    ElementKind.ROUNDED_TO_TF32: "rounding to TF32 or half precision: the task asks for strict "
    "float32",
    ElementKind.ROUNDED_TO_BF16: "rounding to bfloat16, or sums kept in half precision",
    ElementKind.ROW_SUMS: "sums over this row are off by more than rounding of its elements "
    "explains",
}


def describe_elements(pattern: ElementPattern) -> str:
    """Describe the wrong elements in one phrase. Ratios, no counts: a size may be hidden."""
    kind, factor = pattern.kind, pattern.factor
    of_all = "" if pattern.share is None else f" in {percent(pattern.share)} of the elements"
    match kind:
        case ElementKind.UNWRITTEN:
            if pattern.region is not None:
                return f"never written: {describe_region(pattern.region)}"
            if pattern.share in (None, 1.0):
                return "the output is never written"
            return f"{percent(pattern.share or 0.0)} of the elements are never written"
        case ElementKind.NAN:
            return f"NaN{of_all}"
        case ElementKind.COPIED:
            return f"a copy of {pattern.buffer}"
        case ElementKind.MULTIPLE:
            return f"{factor} times what it should be: terms are counted {factor} times"
        case ElementKind.FRACTION:
            return f"one {factor}th of what it should be: most terms are lost"
        case ElementKind.TOO_FEW:
            lost = "" if pattern.share is None else f": {pattern.share:.2g} of all are lost"
            return f"too few{lost}"
        case ElementKind.LOCATED:
            return "" if pattern.region is None else describe_region(pattern.region)
        case _:
            return _PHRASES[kind]


def describe_region(region: Region) -> str:
    """Describe where the elements are."""
    match region.kind:
        case RegionKind.FIRST_ELEMENT | RegionKind.LAST_ELEMENT:
            return f"the {region.kind.value.removesuffix('-element')} element only"
        case RegionKind.LAST_CORNER:
            return "the last corner: the last rows and columns"
        case RegionKind.EVERY_NTH:
            return f"every {region.period}th element"
        case _:
            what = region.kind.value.removeprefix("last-")
            share = "" if region.share is None else f" ({percent(region.share)} of them)"
            return f"the last {what} are wrong{share}: a tail or last tile"


def percent(share: float) -> str:
    """Return `3.1 %`."""
    return f"{100 * share:.2g} %"


def describe_cases(pattern: CasePattern) -> str:
    """Describe what the wrong cases have in common, in one phrase."""
    dims = " and ".join(pattern.dims)
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
            right, wrong = pattern.right_at or 0, pattern.wrong_at or 0
            return f"right up to {dims} = {right:,}, wrong from {dims} = {wrong:,} on"
        case CaseKind.BELOW:
            right, wrong = pattern.right_at or 0, pattern.wrong_at or 0
            return f"wrong up to {dims} = {wrong:,}, right from {dims} = {right:,} on"
        case CaseKind.DISTRIBUTION:
            return f"only inputs drawn from {' or '.join(pattern.distributions)} are wrong"


_REPLY_FAULTS: Mapping[ReplyFault, str] = {
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
    "too_long": "the file has more than {most} characters: write a shorter one",
}
"""What was wrong with a reply, and what the next prompt asks to do about it."""


def describe_reply_fault(verdict: NoCode) -> str | None:
    """Describe what was wrong with a model's reply; None for other reasons."""
    words = {str(fault): text for fault, text in _REPLY_FAULTS.items()}.get(verdict.kind)
    if words is None:
        return None
    most = verdict.most_characters
    return words.format(most="the allowed number of" if most is None else f"{most:,}")


def describe_no_code(verdict: NoCode) -> str:
    """Describe why there is no kernel: in a generator's own words, or in those for its kind."""
    words = verdict.message or verdict.call_fault or describe_reply_fault(verdict)
    if not words:
        exhausted = verdict.kind == "exhausted"
        words = "every kernel of the playbook was tried" if exhausted else verdict.kind
    return f"{words}: {verdict.said}" if verdict.said else words


def describe_compile_failure(verdict: CompileFailed) -> str:
    """Return one line: the first error, or why there is none (out of memory, killed ...)."""
    if verdict.detail:
        return verdict.detail
    if verdict.stop is not None:
        return describe_stop(verdict.stop)
    if verdict.declaration:
        return f"`solve` has another signature: it must be `{verdict.declaration}`"
    first = next((one for one in verdict.diagnostics if one.severity == "error"), None)
    if first is None:
        return verdict.compiler_output or "it does not compile"
    return f"{first.spot}: {first.message}" if first.spot else first.message


_LESS: Mapping[str, str] = {
    "cpp": "expand fewer macros and include less",
    "cudafe++": "instantiate fewer templates and compute less at compile time",
    "cicc": "instantiate fewer templates, compute less at compile time, unroll and inline less",
    "ptxas": "unroll and inline less, and keep tables small",
    "cc1plus": "instantiate fewer templates in host code and compute less at compile time",
    "as": "assemble less and keep tables small",
}
"""What makes less work for a program of the toolkit."""


def describe_stop(stop: CompilerStop) -> str:
    """Describe what ended the compilation, and what to write instead where a limit did."""
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


def describe_diagnostics(
    reason: str, diagnostics: tuple[Diagnostic, ...], omitted: int
) -> tuple[str, ...]:
    """Return the compiler's errors with their lines, without repeating the reason."""
    lines = []
    for diagnostic in diagnostics:
        if diagnostic.severity == "error":
            spot = diagnostic.spot
            message = f"{spot}: {diagnostic.message}" if spot else diagnostic.message
            if diagnostic.message not in reason:
                lines.append(message)
            if spot and spot.text:
                lines.append(f"  {spot.line} | {spot.text}")
    if omitted:
        lines.append(f"... and {omitted} more")
    return tuple(lines)


_RULES: Mapping[str, str] = {
    "embed-file": "a kernel may not embed files",
    "kernel-parameters": "inline PTX reads outside of the parameter that it names",
    "syscall": "the host part makes a system call that it may not",
    "host-touches-device-memory": "host code dereferences a device pointer",
    "no-launch": "the result is computed without a kernel",
    "host-copy": "solve copies from device to host",
    "runner-protocol": "the host part wrote to a descriptor that is not its own",
}
"""What a rule says that can be broken in one way only."""


def describe_violation(verdict: PolicyViolation) -> tuple[str, ...]:
    """Return the rule and how it is broken, then the place."""
    touched = "" if verdict.location is None else f": {describe_location(verdict.location)}"
    how = f"{describe_breach(verdict)}{touched}"
    first = f"{verdict.rule}: {how}" if how else verdict.rule
    return (first, *describe_place(verdict.spot))


def describe_breach(verdict: PolicyViolation) -> str:
    """Describe how the rule is broken."""
    breach = verdict.breach
    if verdict.detail or breach is None:
        return verdict.detail or _RULES.get(verdict.rule, "")
    names = ", ".join(breach.names)
    at_load = "code of the kernel would run when it is loaded: "
    match breach.kind:
        case "outside-file":
            where = "is outside the kernel's folder: include headers by their library name"
            return f"{names or 'a file there'} {where}"
        case "forbidden-call":
            return f"a kernel may not call {names}"
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
            return f"cudaMemcpy of more than {_mib(breach)} from host to device"
        case "large-copies":
            return f"more than {_mib(breach)} from host to device in one call"


def _mib(breach: PolicyBreach) -> str:
    return "is allowed" if breach.limit_bytes is None else f"{breach.limit_bytes >> 20} MiB"


def describe_load_failure(verdict: LoadFailed) -> tuple[str, ...]:
    """Describe what is missing, or return what linker and driver say."""
    if verdict.detail:
        return (verdict.detail,)
    if verdict.fault == "undefined-function":
        return (f"{verdict.symbol} is declared and used, but never defined",)
    if verdict.fault == "no-solve":
        return ("no function `solve` is exported",)
    return ("it cannot be loaded",)


def describe_suspicion(verdict: Quarantined) -> str:
    """Describe why the time of a kernel is not believed."""
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
            return (
                "its outputs are right, but fewer bytes were seen to be stored than they have: "
                "work is hidden from the count"
            )
        case "less-work":
            return (
                "at a size that is timed it computes less for each result than at those where its "
                "results were looked at: work may be left out"
            )
        case None:
            return verdict.detail or "set aside for a person to look at"


VERBS: Mapping[AccessKind | None, str] = {
    None: "accesses",
    "read": "reads",
    "write": "writes",
    "atomic": "atomically updates",
}

_OWNERS: Mapping[Owner, str] = {
    "buffer": "a buffer",
    "scratch": "a cudaMalloc allocation",
    "variable": "a module variable",
    "constant": "a __constant__ variable",
    "shared": "shared memory",
    "local": "local memory",
    "param": "kernel parameters",
    "allocation": "the nearest allocation",
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
"""What an error of CUDA says of a kernel."""


def describe_error(error: CudaError) -> str:
    """Describe what the error means, and where a GPU met it."""
    where = f" in {error.kernel}" if error.kernel else ""
    meaning = _MEANINGS.get(error.name)
    return f"{meaning} ({error.name}{where})" if meaning else f"{error.name}{where}"


def describe_replay(replay: Replay) -> str:
    """Describe where a place comes from that a GPU did not name, or why there is none."""
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


UNPLACED = "a GPU names neither line nor thread: the emulated device or compute-sanitizer would"
"""How to find out more than an error code."""


def describe_access(access: MemoryAccess) -> str:
    """Return `reads 4 bytes at byte 4000 of buffer C (4000 bytes)`."""
    size = "" if access.bytes is None else f" {count(access.bytes, 'byte')}"
    what = f"{VERBS[access.kind]}{size}"
    if access.descriptor is not None:
        what = f"a {_FLAWS[access.descriptor]}: {what}"
    if access.location is not None:
        return f"{what} {describe_location(access.location)}"
    return f"{what} of {access.space} memory" if access.space else what


_FLAWS: Mapping[DescriptorFlaw, str] = {
    "reserved-bits": "matrix descriptor sets bits that are to be 0",
    "no-pattern": "matrix descriptor does not begin, or go on, where a pattern of its swizzle does",
    "negative-start": "tile that is written begins at a negative coordinate",
}


def describe_location(location: Location) -> str:
    """Return `at byte 4000 of buffer C (4000 bytes)`, `8 bytes before the start of buffer C`."""
    if location.relation == "nowhere":
        at = "" if location.address is None else f"at {location.address:#x}, "
        return f"{at}which is nobody's memory" if at else "in nobody's memory"
    owner, size, offset = name_owner(location), location.size_bytes, location.offset_bytes
    freed = ", freed" if location.freed else ""
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


def name_owner(location: Location) -> str:
    """Return `buffer C`, `cudaMalloc allocation 2`, `shared memory`."""
    if location.owner is None:
        return "its memory"
    if location.owner == "buffer" and location.name:
        return f"buffer {location.name}"
    if location.owner == "scratch" and location.number is not None:
        return f"cudaMalloc allocation {location.number}"
    return _OWNERS[location.owner]


def describe_launch(launch: LaunchShape) -> str:
    """Return `grid (4, 1, 1), block (256, 1, 1), 60,000 bytes of dynamic shared memory`."""
    shared = launch.dynamic_shared_bytes
    dynamic = f", {shared:,} bytes of dynamic shared memory" if shared else ""
    return f"grid {launch.grid}, block {launch.block}{dynamic}"


def describe_limit(limit: ExceededLimit, *, figures: bool = True) -> str:
    """Describe what was asked for and, with `figures`, how much the hardware allows."""
    if not figures:
        limit = replace(limit, allowed=None, most_bytes=None)
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
            static = limit.static_bytes
            beside = f" beside {static:,} static ones" if static else ""
            more = (
                f" (cudaFuncAttributeMaxDynamicSharedMemorySize raises it up to "
                f"{limit.most_bytes:,} in all)"
                if limit.most_bytes is not None
                else ""
            )
            return f"{asked} bytes of dynamic shared memory{beside}{most}{more}"
        case "registers":
            return f"{asked} registers a block{most}"
        case "resident-blocks":
            return f"{asked} blocks of a cooperative launch on the device at once{most}"
        case "cluster":
            return f"clusters of {asked} blocks{most}"


def describe_spot(spot: SourceSpot) -> str:
    """Return `mine.cu:14  `source line``."""
    return f"{spot}  `{spot.text}`" if spot.text else str(spot)


def describe_place(spot: SourceSpot | None, thread: ThreadSpot | None = None) -> tuple[str, ...]:
    """Describe where it happened, and which thread did it."""
    return (
        *(() if spot is None else (f"at {describe_spot(spot)}",)),
        *(() if thread is None else (f"in {thread}",)),
    )


def describe_fault(verdict: DeviceFault) -> tuple[str, ...]:
    """Describe the finding, its place, and its source where a GPU gave an error code alone."""
    other = getattr(verdict, "other", None)
    earlier = () if other is None else (f"against {describe_spot(other)}",)
    replayed = () if verdict.replay is None else (describe_replay(verdict.replay),)
    unplaced = (UNPLACED,) if lacks_place(verdict) else ()
    found = describe_finding(verdict)
    error = () if verdict.error is None else (describe_error(verdict.error),)
    if verdict.error is not None and not found:
        error, found = (), describe_error(verdict.error)
    first = found or verdict.detail or verdict.code.replace("_", " ").lower()
    return (
        first,
        *describe_place(verdict.spot, verdict.thread),
        *earlier,
        *error,
        *replayed,
        *unplaced,
    )


def describe_finding(verdict: DeviceFault) -> str:
    """Describe the fault itself; empty where only an error code, or words of others, are known."""
    match verdict:
        case Misaligned(access=access) if access is not None and access.location is not None:
            return f"{describe_access(access)}: not a multiple of {access.bytes}"
        case UninitialisedRead(access=access) if access is not None and not verdict.detail:
            return f"{describe_access(access)}, which nothing has written"
        case IllegalAccess(access=access) if access is not None and access.location is not None:
            return describe_access(access)
        case DeviceAssert(assertion=assertion) if assertion is not None:
            return assertion
        case DeviceAssert(reason="trap", error=None) if not verdict.detail:
            return "__trap()"
        case DataRace():
            return f"{verdict.kind}: {verdict.detail or describe_race(verdict)}"
        case InvalidSync():
            return f"{verdict.kind}: {verdict.detail or describe_sync(verdict)}"
        case IllegalAccess(access=access) | Misaligned(access=access) if not verdict.detail:
            return "" if access is None else describe_access(access)
    return ""


def describe_race(verdict: DataRace) -> str:
    """Describe which two accesses of which word."""
    if verdict.hazards is not None:
        return f"{count(verdict.hazards, 'hazard')} in {verdict.space} memory"
    earlier, _, later = verdict.kind.partition("-")
    verb = VERBS["atomic" if verdict.atomic else "write" if later == "write" else "read"]
    word = "a word" if verdict.offset_bytes is None else f"byte {verdict.offset_bytes}"
    where = "" if verdict.other is None else f" at {verdict.other}"
    if verdict.unfenced:
        return (
            f"a bulk copy or wgmma reads {word} of {verdict.space} memory after a store{where}, "
            "with no fence.proxy.async between the two"
        )
    return (
        f"{verb} {word} of {verdict.space} memory after another thread's {earlier}{where}, with "
        "nothing between that orders the two"
    )


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


def describe_sync(verdict: InvalidSync) -> str:
    """Describe which barrier or collective, and who is missing."""
    elsewhere = "" if verdict.other is None else f" at {verdict.other}"
    return _SYNC.get(verdict.reason or verdict.kind, "not all threads reach {opcode}").format(
        opcode=verdict.opcode or "barrier",
        lane=verdict.lane,
        mask="" if verdict.mask is None else f" with mask {verdict.mask:#010x}",
        missing=_missing(verdict),
        elsewhere=elsewhere,
        others=elsewhere and f", others{elsewhere}",
    )


def _missing(verdict: InvalidSync) -> str:
    arrivals, size = verdict.missing_arrivals or 0, verdict.missing_bytes or 0
    parts = ((arrivals, "arrival"), (size, "byte"))
    return " and ".join(count(number, what) for number, what in parts if number) or "the arrivals"


def line_of(text: str) -> tuple[str, ...]:
    """Return the text as a line, or nothing."""
    return (text,) if text else ()


def phrases(*found: str) -> Sequence[str]:
    """Join those that are not empty into one line."""
    line = "; ".join(filter(None, found))
    return (line,) if line else ()


def count(number: int, what: str) -> str:
    """Return `1 byte`, `4 bytes`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
