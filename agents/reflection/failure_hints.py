"""Verdicts in words for a model: `hint_from` gives the likely cause, the evidence and a remedy.

The text of a hint holds no fact of the hardware and no size that may be hidden: what the hardware
adds stands apart. The words for a person are in `cuda_llm.verdict_wording`.
"""

import re
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, assert_never

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.kernel_context import KernelContext
from cuda_llm.figure_wording import describe_dims
from cuda_llm.outcomes import (
    BuildFault,
    CaseKind,
    CompileFailed,
    DataRace,
    DeviceAssert,
    DeviceFault,
    Duplicate,
    ElementKind,
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
    LimitName,
    LoadFailed,
    LoadFault,
    Location,
    MemoryAccess,
    Misaligned,
    NoCode,
    Nondeterministic,
    OutOfMemory,
    Passed,
    PolicyViolation,
    Quarantined,
    RegionKind,
    StopReason,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
    findings_of,
)
from cuda_llm.search import Hint
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import ArgumentRole
from cuda_llm.verdict_wording import (
    REPEATED_CALLS,
    REPLY_FAULTS,
    describe,
    describe_call,
    name_owner,
    phrase,
    phrase_decision,
)

_VECTOR_TAIL = "vector tail"

_RULES: Mapping[str, str] = {
    "include-outside": "Include headers by their library name only; no files beside the kernel.",
    "embed-file": "Embed no files: everything comes through the arguments of `solve`.",
    "kernel-parameters": "Let inline PTX load no more of a parameter than it holds.",
    "import": "Call nothing but CUDA's runtime and the C and C++ libraries' plain functions.",
    "export": 'Make only `solve` visible (extern "C"); everything else static or in a namespace.',
    "constructor": "Let no code run at load: no global objects with constructors.",
    "syscall": "Make no system calls: no files, no threads, no processes, no sockets.",
    "host-touches-device-memory": (
        "Arguments are device pointers: host code must not dereference them. Move the work into a "
        "kernel."
    ),
    "no-launch": "The result must be computed by a kernel that `solve` launches.",
    "host-copy": "Keep data on the device: no copies to the host, no computing there.",
    "api-call": "Use plain runtime calls only, and wait for streams of your own before returning.",
    "runner-protocol": "Write to no descriptor: print nothing from the host.",
    "memory-quota": "Stay within the scratch memory that the task allows.",
}
_ANY_RULE = "Do nothing in `solve` but launch kernels on its arguments."
_MOST_FINDINGS = 3
"""Most faults of one call that a prompt names, the verdict included."""
_MOST_CALLERS = 2
"""Most lines that an inlined function is called at that a prompt names."""
_NEAR_BYTES = 4096
"""Distance past an end up to which an access may be one of a last tile or vector."""
_FAMILIES: Mapping[str, str] = {
    "warp-group matrix operations (wgmma)": r"^wgmma",
    "fifth-generation tensor operations (tcgen05)": r"^tcgen05",
    "sparse or sub-byte products on tensor cores": r"^(?:wmma|mma|ldmatrix|stmatrix)",
    "asynchronous bulk copies and their barriers": r"^(?:cp\.async\.bulk|mbarrier)",
    "clusters": r"cluster|^mapa|^getctarank",
    "textures and surfaces": r"^(?:tex|tld4|txq|su(?:ld|st|red|q))\.",
    "recursion": r"^call",
}
"""Families of PTX operations, by the opcodes that belong to each."""
_FEW = 4
"""Most outputs for which a lost term and lost precision look equally wrong."""
_VECTOR_STEP = "vector step"
"""Right sizes are multiples of a step as short as a vector."""
_TAILS = (
    *(RegionKind.LAST_ROWS, RegionKind.LAST_COLUMNS, RegionKind.LAST_ELEMENTS),
    RegionKind.LAST_CORNER,
)


class Remedy(NamedTuple):
    """A likely cause of a failure, with its remedy."""

    cause: str
    """Stable name of the cause: hints with the same code and cause say the same."""
    text: str
    hardware: str = ""
    """Facts of the hardware that belong to `text`. May refer to fields of `Limits`, and to
    `sm_count`."""


def hint_from(verdict: Verdict, context: KernelContext) -> Hint | None:
    """Return what a verdict teaches; None where the kernel passed or is not to blame."""
    match verdict:
        case NoCode():
            return _no_code(verdict, context)
        case Duplicate():
            return _duplicate(verdict, context)
        case CompileFailed():
            return _compile_failed(verdict, context)
        case PolicyViolation():
            return _policy_violation(verdict, context)
        case LoadFailed():
            return _load_failed(verdict, context)
        case LaunchFailed():
            return _launch_failed(verdict, context)
        case IllegalAccess():
            return _illegal_access(verdict, context)
        case Misaligned():
            return _misaligned(verdict, context)
        case DeviceAssert():
            return _device_assert(verdict, context)
        case DataRace():
            return _data_race(verdict, context)
        case UninitialisedRead():
            return _uninitialised_read(verdict, context)
        case InvalidSync():
            return _invalid_sync(verdict, context)
        case TimedOut():
            return _timed_out(verdict, context)
        case OutOfMemory():
            return _out_of_memory(verdict, context)
        case HostCrashed():
            return _host_crashed(verdict, context)
        case WrongResult():
            return _wrong_result(verdict, context)
        case GuardOverwritten():
            return _guard_overwritten(verdict, context)
        case InputMutated():
            return _input_mutated(verdict, context)
        case Nondeterministic():
            return _nondeterministic(verdict, context)
        case LateWrite():
            return _late_write(verdict, context)
        case ImpossibleTime():
            return _impossible_time(verdict, context)
        case EmulatorUnsupported():
            return _emulator_unsupported(verdict, context)
        case Passed() | Quarantined() | InfraFailed():
            return None
        case _:
            assert_never(verdict)


def _hint(
    verdict: Verdict | DeviceFault,
    context: KernelContext,
    remedy: Remedy,
    *evidence: str,
    hardware: str = "",
    avoid: tuple[str, ...] = (),
) -> Hint:
    return Hint(
        round=context.round,
        about=context.about,
        code=verdict.code,
        cause=remedy.cause,
        text=remedy.text,
        evidence=join_parts(*evidence),
        hardware_text=hardware,
        avoid=avoid,
    )


def _fault_hint(
    verdict: DeviceFault, context: KernelContext, remedy: Remedy, *seen: str, placed: bool = True
) -> Hint:
    """Return the hint of a fault in device code: line, facts of the fault, thread, GPU's report."""
    thread, callers = verdict.thread, verdict.spot.inlined_at if verdict.spot else ()
    return _hint(
        verdict,
        context,
        remedy,
        context.quote_line(verdict.spot),
        *(f"inlined at {context.quote_line(one)}" for one in callers[:_MOST_CALLERS]),
        *seen,
        f"thread {thread.thread} of block {thread.block}" if thread else "",
        *map(one_line, describe_call(verdict)),
        context.gpu_report(verdict.error, verdict.replay, placed=placed),
    )


def _no_code(verdict: NoCode, context: KernelContext) -> Hint | None:
    """Return what is wrong with a reply; None for a generator's other reasons."""
    words = REPLY_FAULTS.get(verdict.kind)
    if words is None:
        return None
    most = verdict.most_characters
    allowed = "" if most is None else f"at most {most:,} characters"
    remedy = Remedy(verdict.kind, f"{words[0].upper()}{words[1:]}.")
    return _hint(verdict, context, remedy, one_line(verdict.said), allowed)


def _duplicate(verdict: Duplicate, context: KernelContext) -> Hint:
    remedy = Remedy(
        "repeat",
        "The same kernel came again, apart from layout and comments: change the structure, not "
        "names or formatting.",
    )
    return _hint(verdict, context, remedy, f"the same as {one_line(verdict.of, 40)}")


_BUILD_FAULTS: Mapping[BuildFault | None, Remedy] = {
    "signature": Remedy(
        "signature",
        '`solve` must have exactly the signature that the task gives, as extern "C".',
    ),
    "undefined-name": Remedy(
        "undefined {name}",
        "`{name}` is used but not declared there: declare it, include its header, or use the name "
        "that exists in CUDA.",
    ),
    "no-member": Remedy(
        "no member {name}",
        "There is no member `{name}`: use what the header really declares.",
    ),
    "unknown-namespace": Remedy(
        "unknown namespace",
        "A namespace is not known: include the header that declares it.",
    ),
    "no-vector-operator": Remedy(
        "no operator of {name}",
        "`{name}` has no arithmetic operators: compute its parts (.x, .y ...) one by one and put "
        "them together with make_{name}.",
    ),
    "collective-without-mask": Remedy(
        "collective without mask",
        "Votes and shuffles take the mask of lanes first: use __shfl_sync, __any_sync, __all_sync "
        "and __ballot_sync.",
    ),
    "missing-header": Remedy(
        "missing header",
        "A header is missing: include only CUDA's own headers and those the task names.",
    ),
    "static-shared-memory": Remedy(
        "static shared memory",
        "The `__shared__` arrays are too large together: make the tiles smaller, or declare them "
        "`extern __shared__` and ask for the size at launch after cudaFuncSetAttribute.",
    ),
    "unsupported-instruction": Remedy(
        "unsupported instruction",
        "This GPU does not have an instruction: use the plain form of the same operation.",
    ),
    "host-call-in-device-code": Remedy(
        "host call in device code",
        "Device code calls a host function: use its device form, or mark it `__device__`.",
    ),
    "device-call-in-host-code": Remedy(
        "device call in host code",
        "Host code calls a device function: move the call into a kernel.",
    ),
    "redefinition": Remedy("redefinition", "A name is defined twice: keep one definition."),
    "not-a-constant": Remedy(
        "not a constant",
        "A constant expression is needed: use constexpr, a template parameter or a #define for "
        "array sizes and unroll counts.",
    ),
    "types": Remedy(
        "types",
        "Types do not fit together: check the arguments of the call or the cast in that line.",
    ),
    "syntax": Remedy(
        "syntax",
        "The text is not C++ at that line: look for a missing bracket, brace or semicolon, or a "
        "file that was cut short.",
    ),
    "undefined-reference": Remedy(
        "undefined reference",
        "A function is declared and called but defined nowhere in this file.",
    ),
    "too-large": Remedy(
        "too large to compile",
        "Compiling needs too much time or memory: unroll less and instantiate fewer templates.",
    ),
    "empty": Remedy("empty", "The file holds no code: write the whole kernel, `solve` included."),
    None: Remedy("other", "The compiler refuses the source: fix its first error first."),
}
"""Cause and text may name what the message is about; None where the message is not recognised."""


def _compile_failed(verdict: CompileFailed, context: KernelContext) -> Hint:
    """Explain the first error: later errors are often its consequences."""
    first = verdict.first_error
    fault = verdict.fault or (first.fault if first else None)
    cause, text, _ = _BUILD_FAULTS[fault]
    name = (first.subject if first else None) or ""
    if fault == "signature":
        text += f" It is: {signature(context.task)}"
    remedy = Remedy(cause.format(name=name), text.format(name=name) if name else text)
    seen = one_line(first.message if first else describe(verdict)[0])
    secret = first is not None and first.names_hardware
    others = verdict.omitted + sum(
        one.severity == "error" and one is not first for one in verdict.diagnostics
    )
    return _hint(
        verdict,
        context,
        remedy,
        context.quote_line(first.spot) if first else "",
        "" if secret else seen,
        f"{others} more error{'s' if others != 1 else ''}" if others else "",
        hardware=seen if secret else "",
    )


def _policy_violation(verdict: PolicyViolation, context: KernelContext) -> Hint:
    return _hint(
        verdict,
        context,
        Remedy(one_line(verdict.rule, 40), _RULES.get(verdict.rule, _ANY_RULE)),
        context.quote_line(verdict.spot),
        one_line(phrase(verdict.breach)),
        _place(verdict.location),
    )


_NOT_LOADED = Remedy(
    "other",
    "The compiled file cannot be loaded: define every function it calls in the same file.",
)
_LOAD_FAULTS: Mapping[LoadFault | None, Remedy] = {
    "undefined-function": Remedy("undefined function", _NOT_LOADED.text),
    "no-solve": Remedy(
        "no solve",
        'There is no `solve` to call: define it once, as extern "C", outside namespaces.',
    ),
    "driver": Remedy(
        "device code",
        "The driver does not load the device code: keep to what this GPU can execute.",
    ),
}


def _load_failed(verdict: LoadFailed, context: KernelContext) -> Hint:
    remedy = _LOAD_FAULTS.get(verdict.fault, _NOT_LOADED)
    return _hint(verdict, context, remedy, one_line(describe(verdict)[0]))


_CONFIGURATION = Remedy(
    "configuration",
    "An extent of grid or block is 0 or too large: round up when dividing, and check the order "
    "of x, y and z.",
    "a block has at most {threads_per_block:,} threads",
)
_REGISTERS = Remedy(
    "registers",
    "The block needs more registers than there are: use fewer threads a block, smaller "
    "per-thread tiles, or __launch_bounds__ with the real block size.",
    "a block has {registers_per_block:,} registers",
)
_COOPERATIVE = Remedy(
    "cooperative grid",
    "A cooperative launch must fit on the device at once: ask "
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor and loop over the rest of the work.",
    "the device has {sm_count} SMs",
)
_CLUSTER = Remedy(
    "cluster",
    "The cluster does not fit: ask cudaOccupancyMaxPotentialClusterSize, and let the grid be a "
    "multiple of the cluster in each dimension.",
)
_BY_LIMIT: Mapping[LimitName, Remedy] = {
    "grid-extent": _CONFIGURATION,
    "block-extent": _CONFIGURATION,
    "threads-per-block": Remedy(
        "threads a block",
        "The block has too many threads: the product of its three extents counts.",
        "a block has at most {threads_per_block:,} threads",
    ),
    "launch-bounds": Remedy(
        "launch bounds", "The block has more threads than its __launch_bounds__ say."
    ),
    "shared-memory": Remedy(
        "shared memory",
        "The launch asks for more shared memory than a block gets by default: make the tile "
        "smaller, or raise cudaFuncAttributeMaxDynamicSharedMemorySize before the launch.",
        "a block gets {shared_bytes_per_block:,} bytes by default and "
        "{shared_bytes_per_block_optin:,} at most",
    ),
    "registers": _REGISTERS,
    "resident-blocks": _COOPERATIVE,
    "cluster": _CLUSTER,
}
_BY_ERROR: Mapping[str, Remedy] = {
    "cudaErrorLaunchOutOfResources": _REGISTERS,
    "cudaErrorCooperativeLaunchTooLarge": _COOPERATIVE,
    "cudaErrorInvalidClusterSize": _CLUSTER,
    "cudaErrorInvalidDeviceFunction": Remedy(
        "no such kernel",
        "CUDA knows no such kernel: launch the functions of this file by their own names.",
    ),
}
"""Remedies by CUDA's name of the error, for errors whose exceeded limit is not known."""


def _launch_failed(verdict: LaunchFailed, context: KernelContext) -> Hint:
    limit = verdict.limit
    remedy = _BY_LIMIT[limit.name] if limit else _BY_ERROR.get(verdict.error, _CONFIGURATION)
    facts = {**vars(context.hardware.limits), "sm_count": context.hardware.sm_count}
    return _hint(
        verdict,
        context,
        remedy,
        one_line(verdict.error, 60),
        context.launch_of(verdict.kernel),
        hardware=join_parts(remedy.hardware.format(**facts), one_line(phrase(limit))),
    )


def _place(location: Location | None) -> str:
    """Return where an access lies against its buffer, without figures: a size may be hidden."""
    if location is None or location.relation is None:
        return ""
    if location.relation == "nowhere":
        return "in nobody's memory"
    owner = one_line(name_owner(location), 60)
    match location.relation:
        case "before-start":
            return f"before the start of {owner}"
        case "past-end":
            past = (location.offset_bytes or 0) - (location.size_bytes or 0)
            return f"{'just' if past < _NEAR_BYTES else 'far'} past the end of {owner}"
    return f"in {owner}, which is freed" if location.freed else f"in {owner}"


def _is_near(spot: SourceSpot | None, lines: tuple[int, ...], reach: int = 2) -> bool:
    """Return whether one of `lines` lies within `reach` lines of the spot."""
    if spot is None or not spot.text:
        return False
    return any(abs(spot.line - line) <= reach for line in lines)


_PLACE_UNKNOWN = Remedy(
    "place unknown",
    "A thread touched memory that is not its own, and the GPU does not say where. Check each "
    "index against the extent of its buffer: `if (i < n)` before every load and store, the "
    "last elements of vectors one by one, products of ints that overflow, and that no host "
    "pointer reaches a kernel.",
)
_UNPLACED_ACCESSES: Mapping[str, Remedy] = {
    "cudaErrorHardwareStackError": Remedy(
        "stack",
        "A thread's stack is broken: look for recursion without an end, large local arrays, and "
        "writes past their ends.",
    ),
    "cudaErrorInvalidAddressSpace": Remedy(
        "address space",
        "An instruction for one memory space got an address of another: look for casts between "
        "generic and shared pointers, and at inline PTX.",
    ),
}


def _illegal_access(verdict: IllegalAccess, context: KernelContext) -> Hint:
    """Explain an index that is unchecked, wrongly checked, or leaves a tile that is too small."""
    access = verdict.access
    if access is None:
        error = verdict.error.name if verdict.error is not None else ""
        remedy = _UNPLACED_ACCESSES.get(error, _PLACE_UNKNOWN)
        return _fault_hint(verdict, context, remedy, placed=False)
    size = "" if access.bytes is None else f" of {access.bytes} bytes"
    space = "" if access.space is None else f" of {access.space} memory"
    return _fault_hint(
        verdict,
        context,
        _outside(verdict, access, context),
        f"{access.kind or 'access'}{size}{space}",
        _place(access.location),
        context.shared_array(verdict.spot) if access.space == "shared" else "",
    )


def _outside(verdict: IllegalAccess, access: MemoryAccess, context: KernelContext) -> Remedy:
    # A line without its text is one of a header, where a sanitizer saw an atomic, say.
    line = verdict.spot.line if verdict.spot and verdict.spot.text else 0
    location = access.location or Location()
    if location.relation == "nowhere":
        return Remedy(
            "wild pointer",
            "The address belongs to no buffer: look for host pointers passed to a kernel, swapped "
            "arguments, memory freed too early, and products of ints that overflow.",
        )
    if access.space in {"shared", "local"}:
        return Remedy(
            f"{access.space} array",
            f"The index leaves the {access.space} array: its extents do not fit the block or the "
            "loop that fills it. Derive both from the same constant.",
        )
    if access.space == "const" or location.owner == "constant":
        return Remedy(
            "constant memory", "Constant memory is read only and no larger than declared."
        )
    if location.relation == "before-start":
        return Remedy(
            "negative index",
            "The index is negative: halos and `i - 1` need a check at the lower edge as well.",
        )
    if _is_near(verdict.spot, context.source.vector_accesses) or (access.bytes or 0) >= 8:
        return Remedy(
            _VECTOR_TAIL,
            "A vector access reaches past the end where the length is no multiple of its width: "
            "treat the last elements one by one.",
        )
    if not line:
        return Remedy(
            "out of bounds",
            "The index goes past the end: guard each dimension before the access, with "
            "`if (i < n)`, and look for `<=` and `i + 1` where there is a check already.",
        )
    if not context.source.guards(line):
        return Remedy(
            "no bound check",
            "The index is not checked against the extent: blocks rarely divide the sizes. Guard "
            "each dimension before the access, with `if (i < n)`.",
        )
    return Remedy(
        "wrong bound",
        "There is a check, but it lets this index through: look for `<=` where `<` belongs, rows "
        "and columns swapped, one dimension unchecked, and tails of unrolled loops.",
    )


def _misaligned(verdict: Misaligned, context: KernelContext) -> Hint:
    """Explain a vector access at an address that only scalars may use."""
    access, vectors = verdict.access, context.source.vector_accesses
    size = access.bytes if access is not None else None
    if verdict.spot is None and size is None:
        vector = bool(vectors)
    else:
        vector = (size or 0) > 8 or _is_near(verdict.spot, vectors)
    needs = (
        "An address is not a multiple of the size of what is accessed there: "
        if size is None
        else f"A {size}-byte access needs an address that is a multiple of {size}: "
    )
    remedy = Remedy(
        "cast", "check casts between pointer types and offsets into dynamic shared memory."
    )
    if vector:
        remedy = Remedy(
            "vector access",
            "rows whose length is no multiple of the vector start unaligned. Take the vector path "
            "only where index and row length are multiples of its width, and a scalar path "
            "elsewhere.",
        )
    return _fault_hint(
        verdict,
        context,
        Remedy(remedy.cause, needs + remedy.text),
        context.vector_access() if verdict.spot is None else "",
        "" if access is None else _place(access.location),
        placed=access is not None,
    )


_ASSERTION = Remedy(
    "assertion", "The kernel's own assert or trap fired: a condition it relies on does not hold."
)
_STOPS: Mapping[StopReason | None, Remedy] = {
    "illegal-instruction": Remedy(
        "illegal instruction",
        "A thread met a __trap or an instruction that this GPU does not have: look for asserts, "
        "inline PTX, and calls through pointers.",
    ),
    "invalid-pc": Remedy(
        "wild jump",
        "A thread jumped to where no code is: look for calls through pointers, and for writes past "
        "a local array.",
    ),
    "launch-failure": Remedy(
        "launch failure",
        "A thread met a __trap, or touched shared or local memory outside of its arrays: check "
        "every index into them against their extents.",
    ),
}


def _device_assert(verdict: DeviceAssert, context: KernelContext) -> Hint:
    """Explain a kernel that stopped itself or jumped to where no code is."""
    remedy = _STOPS.get(verdict.reason, _ASSERTION)
    seen = one_line(verdict.assertion or "")
    return _fault_hint(verdict, context, remedy, seen, placed=verdict.spot is not None)


_MISSING_BARRIER = Remedy(
    "missing barrier",
    "__syncthreads() is missing between the two accesses: every thread must pass it after the "
    "writes and before any other thread reads them.",
)
_MISSING_PROXY_FENCE = Remedy(
    "missing proxy fence",
    "Bulk copies and wgmma do not see plain stores to shared memory by themselves: every thread "
    "that stores calls fence.proxy.async (cuda::ptx::fence_proxy_async), then all meet, then one "
    "issues the copy.",
)


def _data_race(verdict: DataRace, context: KernelContext) -> Hint:
    """Explain two accesses of one word with no barrier between them."""
    here, before = verdict.spot, verdict.other
    barriers = ""
    if here and before and here.line != before.line:
        between = context.source.barriers_between(here.line, before.line)
        barriers = "no barrier stands between them in the text"
        if between:
            barriers = f"barriers between them in the text: line {', '.join(map(str, between))}"
    return _fault_hint(
        verdict,
        context,
        _race_remedy(verdict, context),
        f"{verdict.kind} against {context.quote_line(before)}" if before else verdict.kind,
        barriers,
        one_line(phrase(verdict.copy)),
        *(_also(one, context) for one in findings_of(verdict)[1:_MOST_FINDINGS]),
    )


def _also(further: Verdict, context: KernelContext) -> str:
    """Return a further fault of the same call in one phrase, with its lines."""
    spot = further.spot if isinstance(further, DeviceFault) else None
    other = further.other if isinstance(further, DataRace) else None
    at = f" at {context.quote_line(spot)}" if spot else ""
    against = f" against {context.quote_line(other)}" if other else ""
    return f"also {further.code}{at}{against}"


_LATE_COPY = Remedy(
    "copy without a wait",
    "Shared memory is read before the asynchronous copy into it is there: commit each group before "
    "the wait, let the wait leave no more groups than were committed after the one that is read "
    "(0 for the last), and let a __syncthreads() follow the wait.",
)


def _race_remedy(verdict: DataRace, context: KernelContext) -> Remedy:
    if verdict.unfenced or verdict.copy:
        return _MISSING_PROXY_FENCE if verdict.unfenced else _LATE_COPY
    here, before = verdict.spot, verdict.other
    if here is None or before is None:
        return _MISSING_BARRIER
    if here.line == before.line:
        if verdict.kind == "write-write":
            return Remedy(
                "same word",
                "Several warps write the same shared word in one line: give each its own word, or "
                "use an atomic.",
            )
        return Remedy(
            "turns of one line",
            "Threads read in that line what others write there: a __syncthreads() that all threads "
            "reach belongs between its turns, outside the branch that picks the workers.",
        )
    loops = context.source.around(here.line, "for", "while")
    same_loop = any(loop.first <= before.line <= loop.last for loop in loops)
    separated = bool(context.source.barriers_between(here.line, before.line))
    if same_loop and (verdict.kind == "read-write" or separated):
        return Remedy(
            "next turn overwrites",
            "The next turn of the loop overwrites shared memory that other threads still read: a "
            "second __syncthreads() belongs at the end of the loop body, or use two buffers.",
        )
    return _MISSING_BARRIER


def _uninitialised_read(verdict: UninitialisedRead, context: KernelContext) -> Hint:
    """Explain the read of a value that no thread has written yet."""
    access = verdict.access or MemoryAccess()
    location = access.location
    return _fault_hint(
        verdict,
        context,
        _read_remedy(verdict, context),
        f"in {one_line(name_owner(location), 60)}" if location and location.owner else "",
        context.shared_array(verdict.spot) if access.space == "shared" else "",
        f"the value {phrase_decision(verdict.decides)}" if verdict.decides else "",
        f"used at {context.quote_line(verdict.used_at)}" if verdict.used_at else "",
        one_line(phrase(verdict.copy)),
    )


def _read_remedy(verdict: UninitialisedRead, context: KernelContext) -> Remedy:
    if verdict.copy is not None:
        return _LATE_COPY
    if verdict.access is None and verdict.decides:
        return _UNSET
    return _unwritten(verdict.access or MemoryAccess(), context)


_UNSET = Remedy(
    "unset variable",
    "A variable is used that no path to its use has set, or a lane takes a value from a lane "
    "outside the mask of its shuffle: give the variable a value where it is declared, and name "
    "every lane that is read in the mask.",
)


def _unwritten(access: MemoryAccess, context: KernelContext) -> Remedy:
    if access.space == "shared":
        return Remedy(
            "partly filled tile",
            "Shared memory is read where no thread has written it: fill the whole tile before the "
            "barrier, with the neutral value (0 for sums) outside the data, leave no thread out of "
            "the filling, and check the index: padding is never written.",
        )
    if access.space == "local":
        return Remedy(
            "local array", "Give every element of the local array a value before it is read."
        )
    name = access.location.name if access.location else None
    if any(one.name == name and one.role == ArgumentRole.OUT for one in context.task.arguments):
        return Remedy(
            "garbage output",
            f"`{name}` arrives filled with garbage and is read or added to: write it outright, or "
            "clear it first (cudaMemsetAsync or a kernel of its own) before anything adds to it.",
        )
    if access.location is None or access.location.owner is None:
        return Remedy(
            "unwritten memory",
            "Global memory is read where nothing has been written: outputs arrive filled with "
            "garbage, and so does what cudaMalloc gives. Write each element before it is read, "
            "outputs outright instead of adding to them.",
        )
    return Remedy(
        "scratch memory",
        "Device memory from cudaMalloc starts as garbage: clear it, or write every element, "
        "before it is read. This holds for counters and partial sums at every call.",
    )


_WAITS: Mapping[str | None, Remedy] = {
    "partial-mask": Remedy(
        "partial mask",
        "A warp collective needs every lane of its mask to arrive: call it outside the branch "
        "that some lanes skip, or build the mask with __ballot_sync before the branch.",
    ),
    "unwaited": Remedy(
        "missing wgmma wait",
        "A product of a warpgroup owns its registers until wgmma.commit_group and a "
        "wgmma.wait_group that leaves fewer groups open: touch them after that wait.",
    ),
    "unfenced": Remedy(
        "missing wgmma fence",
        "Before the first product, and whenever its registers were written since, the warpgroup "
        "executes wgmma.fence.",
    ),
    "phase-incomplete": Remedy(
        "phase never completes",
        "A phase of an mbarrier is waited for that cannot complete: let as many threads arrive as "
        "it was made for, expect exactly the bytes that the bulk copies bring, and flip the parity "
        "each time the stage comes round.",
    ),
    "too-many-arrivals": Remedy(
        "too many arrivals",
        "More threads arrive at an mbarrier in one phase than it was made for: elect those that "
        "arrive, or make it for as many.",
    ),
    "cluster-incomplete": Remedy(
        "cluster barrier",
        "Threads wait for their cluster while others of it never arrive: let all threads of all "
        "its blocks pass the same barriers of the cluster.",
    ),
    "unpaired-cluster-barrier": Remedy(
        "cluster barrier",
        "barrier.cluster.arrive and barrier.cluster.wait have to take turns in every thread.",
    ),
    "missing-warps": Remedy(
        "incomplete warpgroup",
        "All four warps of a warpgroup, the first one a multiple of four, execute each wgmma: let "
        "them take the same branches, and launch whole warpgroups.",
    ),
    "different-operands": Remedy(
        "incomplete warpgroup",
        "All warps of a warpgroup execute the same wgmma instructions with the same descriptors: "
        "compute what goes into them from the warpgroup's number alone.",
    ),
}
"""Remedies by `SyncKind`, else by `SyncReason`, for the kinds and reasons that need no source."""


def _invalid_sync(verdict: InvalidSync, context: KernelContext) -> Hint:
    """Explain a barrier or a collective that some of its threads never reach."""
    line = verdict.spot.line if verdict.spot else 0
    source, seen = context.source, ""
    if known := _WAITS.get(verdict.kind) or _WAITS.get(verdict.reason):
        remedy = known
    elif line and (branch := source.branch_around(line)):
        remedy = Remedy(
            "barrier in a branch",
            "The barrier stands under a branch that not all threads take: move it out of the "
            "branch, and let the branch guard the work alone.",
        )
        seen = f"under line {branch.first}{context.quote(branch.header)}"
    elif line and (early := source.left_early(line)):
        remedy = Remedy(
            "early return",
            "Threads return before a barrier that the others wait at: keep all threads alive to "
            "the last barrier, and guard the loads and stores instead.",
        )
        seen = f"return in line {early}"
    elif line and (loops := source.around(line, "for", "while")):
        remedy = Remedy(
            "barrier in an uneven loop",
            "The barrier stands in a loop that threads leave after different numbers of turns: "
            "let all threads make the same number of turns and guard the body.",
        )
        seen = f"in the loop of line {loops[0].first}"
    else:
        remedy = Remedy(
            verdict.kind,
            "Not all threads reach the same barrier: give every thread one way through it.",
        )
    return _fault_hint(verdict, context, remedy, seen)


def _timed_out(verdict: TimedOut, context: KernelContext) -> Hint:
    """Explain a loop that does not end, or far too much work."""
    line = verdict.spot.line if verdict.spot else 0
    loop = next(iter(context.source.around(line, "for", "while", "do")), None) if line else None
    match verdict.stage:
        case "compile":
            text = "Compiling takes too long: unroll less, instantiate fewer templates."
        case "host":
            text = (
                "The host part of `solve` does not return: look for loops that wait for the "
                "device or whose bound never comes."
            )
        case _ if verdict.crowded or (loop and loop.kind == "while" and context.source.atomics):
            text = (
                "Threads spin for others that may never run: a lock inside a warp, or waiting for "
                "blocks that are not resident, never ends. Do without the lock."
            )
        case _:
            text = (
                "The kernel does not end or does far too much: check that each loop moves towards "
                "its bound (a zero step, unsigned i >= 0), and that the work is spread over the "
                "whole grid."
            )
    return _hint(
        verdict,
        context,
        Remedy(one_line(verdict.stage, 20), text),
        context.quote_line(verdict.spot),
        f"in the loop of line {loop.first}{context.quote(loop.header)}" if loop else "",
        "more blocks than are resident at once" if verdict.crowded else "",
        context.launch_of(verdict.kernel) if not (verdict.spot or verdict.error) else "",
        context.gpu_report(verdict.error, verdict.replay, placed=verdict.spot is not None),
    )


def _out_of_memory(verdict: OutOfMemory, context: KernelContext) -> Hint:
    allowed = context.task.capabilities.scratch_bytes
    text = f"Scratch memory is limited to {allowed} bytes here."
    if allowed.strip() == "0":
        text = (
            "This task allows no scratch memory: work in registers, shared memory and the outputs."
        )
    remedy = Remedy("scratch memory", f"{text} Free what cudaMalloc gave before `solve` returns.")
    return _hint(verdict, context, remedy, hardware=one_line(describe(verdict)[0]))


_BAD_POINTER = Remedy(
    "bad pointer",
    "Host code reads or writes memory that is not its own: check its arrays and pointers.",
)
_ENDS_THE_PROCESS = Remedy(
    "ends the process",
    "Host code ends the process: return from `solve` instead of exit, abort or a throw.",
)
_HOST_CRASHES: Mapping[str, Remedy] = {
    "SIGFPE": Remedy(
        "division by zero",
        "Host code divides by zero: a size of 1 or less than a tile makes a count 0.",
    ),
    "exit": _ENDS_THE_PROCESS,
    "SIGABRT": _ENDS_THE_PROCESS,
    "cudaErrorOperatingSystem": Remedy(
        "foreign descriptor",
        "Host code took something from the driver: write to and close no descriptor.",
    ),
}
"""Remedies by `HostCrashed.signal`."""


def _host_crashed(verdict: HostCrashed, context: KernelContext) -> Hint:
    remedy = _HOST_CRASHES.get(verdict.signal, _BAD_POINTER)
    return _hint(verdict, context, remedy, one_line(verdict.signal, 20))


def _impossible_time(verdict: ImpossibleTime, context: KernelContext) -> Hint:
    remedy = Remedy(
        "work left out",
        "The time is shorter than the task's bytes and operations allow: the kernel does not do "
        "all the work at that size. Compute every element from the inputs at every call.",
    )
    figures = f"{verdict.time_us:.3g} us, where {verdict.floor_us:.3g} us is the floor."
    return _hint(verdict, context, remedy, hardware=figures)


def _emulator_unsupported(verdict: EmulatorUnsupported, context: KernelContext) -> Hint:
    """Explain a kernel that may be right, but that this device cannot execute."""
    families = (name for name, pattern in _FAMILIES.items() if re.search(pattern, verdict.opcode))
    family = next(families, "that operation")
    text = (
        "The device of this run cannot execute an operation of the kernel, so nothing is known "
        "about it: use plain CUDA for the same work."
    )
    return _hint(
        verdict,
        context,
        Remedy(family, text),
        context.quote_line(verdict.spot),
        hardware=f"The emulated device does not execute {one_line(verdict.opcode, 60)}.",
        avoid=(family,),
    )


_Sign = ElementKind | CaseKind | RegionKind | str
_BY_PATTERN: Sequence[tuple[Set[_Sign], str, str]] = (
    (
        {ElementKind.ROUNDED_TO_TF32, ElementKind.ROUNDED_TO_BF16, CaseKind.EXACTNESS_PROBE},
        "precision",
        "Precision is lost: keep inputs and sums in the type the task asks for, without tensor "
        "cores of a shorter type and without fast approximations; large sums need several "
        "accumulators or a tree.",
    ),
    (
        {_VECTOR_STEP},
        _VECTOR_TAIL,
        "Only sizes that are multiples of the vector width are right: the elements after the "
        "last whole vector are not handled. Treat them one by one.",
    ),
    (
        {*_TAILS, CaseKind.MULTIPLE_OF},
        "last tile",
        "The last, partial tile is wrong: round the grid up, and guard loads and stores by the "
        "real extent in each dimension.",
    ),
    (
        {ElementKind.UNWRITTEN},
        "not written",
        "Elements of the output are never written: the grid or the loop does not reach them, "
        "or the launch fails unseen. Round the grid up and check the index arithmetic.",
    ),
    (
        {CaseKind.EQUAL_DIMS},
        "strides swapped",
        "Only square sizes are right: a row length is used where a column length belongs.",
    ),
    (
        {ElementKind.TRANSPOSED, ElementKind.SHIFTED, ElementKind.REVERSED},
        "index mapping",
        "The values are right, but lie in the wrong place: rows and columns, or an offset, are "
        "mixed up.",
    ),
    (
        {ElementKind.MULTIPLE, ElementKind.TOO_MANY, ElementKind.ONE_TOO_MANY},
        "counted twice",
        "Terms are counted more than once: overlapping tiles, partial sums added by every "
        "thread, or counters that are not cleared at each call.",
    ),
    (
        {ElementKind.FRACTION, ElementKind.TOO_FEW, ElementKind.ONE_TOO_FEW},
        "terms lost",
        "Terms are lost: partial sums of some warps or blocks are not added, an update is not "
        "atomic, or the last terms of a loop are skipped.",
    ),
    (
        {ElementKind.NAN, ElementKind.INFINITE},
        "not finite",
        "NaN or infinity: garbage is used as a number, or something overflows or divides by zero.",
    ),
    (
        {ElementKind.ZEROS, ElementKind.CONSTANT, ElementKind.COPIED},
        "nothing computed",
        "Nothing of the inputs reaches the output at this size: the kernel does not run, the "
        "part beyond whole tiles is left out, or the result is never stored.",
    ),
    (
        {CaseKind.DISTRIBUTION},
        "special inputs",
        "Only some kinds of input are wrong: look at signs, large magnitudes, cancellation and "
        "repeated values.",
    ),
    (
        {CaseKind.ABOVE, CaseKind.BELOW},
        "size limit",
        "Right and wrong part at one size: look for a grid, an index type or a buffer with a "
        "fixed limit, and for paths taken only beyond it.",
    ),
    (
        {RegionKind.EVERY_NTH, RegionKind.FIRST_ELEMENT, RegionKind.LAST_ELEMENT},
        "single places",
        "Wrong at regular or single places: look at the edges of tiles and at what one thread "
        "of each group does.",
    ),
    ({ElementKind.NEGATED}, "sign", "The sign is wrong."),
    (
        {ElementKind.CONJUGATED},
        "sign of the imaginary part",
        "The sign of the imaginary parts is wrong: a factor is conjugated that should not be, or "
        "the reverse; (a + bi)(c + di) is (ac - bd) + (ad + bc)i.",
    ),
    (
        {ElementKind.PARTS_SWAPPED},
        "order of the parts",
        "Real and imaginary parts changed places: the real part, `.x`, comes first.",
    ),
)
"""Remedies by the signs of a pattern; one sign is enough, and the first entry that fits decides."""


def _wrong_result(verdict: WrongResult, context: KernelContext) -> Hint:
    """Explain wrong elements by their pattern, with the case that shows them."""
    remedy = _by_pattern(verdict, context) or _by_amount(verdict)
    if verdict.repeat:
        remedy = Remedy(
            "state across calls",
            "The first call was right and a later one was not: keep nothing from one call to the "
            "next, reset every device variable in each call, and leave nothing to the order of "
            "threads.",
        )
    patterns = (
        phrase(verdict.looks_like),
        phrase(verdict.case_pattern),
        REPEATED_CALLS.get(verdict.repeat, ""),
    )
    return _hint(
        verdict,
        context,
        remedy,
        f"{verdict.failed_cases} of {verdict.cases} cases wrong",
        one_line(join_parts(*patterns), 240),
        *map(one_line, describe_call(verdict)),
        _case(verdict),
        context.vector_access() if remedy.cause == _VECTOR_TAIL else "",
    )


def _by_pattern(verdict: WrongResult, context: KernelContext) -> Remedy | None:
    """Return what the pattern points at; None where no pattern is known.

    Few sizes may share a multiple by chance: a vector tail needs vectors in the source.
    """
    elements, cases = verdict.looks_like, verdict.case_pattern
    signs: set[_Sign] = set()
    if elements is not None:
        signs |= {elements.kind, *([elements.region.kind] if elements.region else [])}
    if cases is not None:
        signs |= {cases.kind, *([_VECTOR_STEP] if cases.is_vector else [])}
    vectors = bool(context.source.vector_accesses)
    fitting = (Remedy(cause, text) for kinds, cause, text in _BY_PATTERN if signs & kinds)
    known = next((one for one in fitting if vectors or one.cause != _VECTOR_TAIL), None)
    is_few = verdict.elements is not None and verdict.elements <= _FEW
    if known is not None and known.cause == "precision" and is_few:
        return Remedy(
            "terms or precision",
            "So few outputs show no pattern: look first for terms that are left out or added twice "
            "(a tail after whole vectors, a last partial block), then for sums kept in a shorter "
            "type.",
        )
    return known


def _by_amount(verdict: WrongResult) -> Remedy:
    """Return what the number of wrong elements and the size of the error point at."""
    everything = verdict.elements is not None and verdict.wrong == verdict.elements
    if verdict.failed_cases < verdict.cases and everything:
        return Remedy(
            "some cases",
            "Wrong as a whole in some cases, right in others: look for paths chosen by size, and "
            "for state kept from one call to the next.",
        )
    if everything:
        return Remedy(
            "formula",
            "Every element is wrong: check the formula and the index mapping against the task "
            "before anything else.",
        )
    if verdict.error and verdict.error < 1e3 * verdict.limit:
        return Remedy(
            "accuracy",
            "The result is close, but not within the tolerance: add in float32 without shorter "
            "types, and in several accumulators or as a tree.",
        )
    return Remedy(
        "some elements",
        "Some elements are wrong: check the edges of tiles, the index arithmetic, and barriers "
        "between writing and reading shared memory.",
    )


def _case(verdict: WrongResult) -> str:
    """Return the case that shows the error; of a hidden size only that the size is hidden."""
    if not verdict.dims or verdict.size_class == "hidden":
        return "seen at a hidden size" if verdict.size_class == "hidden" else ""
    index = ", ".join(map(str, verdict.index))
    extent = ""
    if verdict.wrong is not None and verdict.elements is not None:
        extent = f"; {verdict.wrong:,} of {verdict.elements:,} are wrong"
    got, expected = verdict.numbers
    return (
        f"at {describe_dims(verdict.dims)}: {one_line(verdict.buffer, 40)}[{index}] is "
        f"{got:.6g}, should be {expected:.6g}{extent}"
    )


def _guard_overwritten(verdict: GuardOverwritten, context: KernelContext) -> Hint:
    vectors = context.vector_access()
    lands = f"A write lands {verdict.side} {one_line(verdict.buffer, 40)}: "
    if verdict.side == "after" and vectors:
        text = "the last vector store reaches past the end. Store the last elements one by one."
        return _hint(verdict, context, Remedy(_VECTOR_TAIL, lands + text), vectors)
    text = "guard every store by the real extent, not by the padded one."
    return _hint(verdict, context, Remedy("unchecked store", lands + text))


def _input_mutated(verdict: InputMutated, context: KernelContext) -> Hint:
    cast = re.search(r"const_cast|\(\s*\w+\s*\*\s*\)", context.source.code)
    remedy = Remedy(
        "writes an input",
        f"`{one_line(verdict.buffer, 40)}` is an input: work on a copy or in registers, never in "
        "place.",
    )
    return _hint(verdict, context, remedy, "a cast takes the const away" if cast else "")


_ORDER_OF_ATOMICS = Remedy(
    "order of atomics",
    "The same input gives different results: plain reads stand beside atomics, or a result is read "
    "before all blocks have added to it.",
)
_UNSYNCHRONISED_BLOCKS = Remedy(
    "unsynchronised blocks",
    "The same input gives different results: blocks read what others write in the same launch, or "
    "several threads write one element; use two launches, or give each element one writer.",
)


def _nondeterministic(verdict: Nondeterministic, context: KernelContext) -> Hint:
    atomics = context.source.atomics
    return _hint(
        verdict,
        context,
        _ORDER_OF_ATOMICS if atomics else _UNSYNCHRONISED_BLOCKS,
        one_line(join_parts(*describe(verdict)[1:])),
        f"atomics in line {atomics[0]}" if atomics else "",
    )


def _late_write(verdict: LateWrite, context: KernelContext) -> Hint:
    remedy = Remedy(
        "work outlives the call",
        f"`{one_line(verdict.buffer, 40)}` changes after `solve` has ended: launch on the default "
        "stream alone and leave no work running.",
    )
    return _hint(verdict, context, remedy)
