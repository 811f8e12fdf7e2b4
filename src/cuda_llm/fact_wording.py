"""Facts of verdicts in words: accesses, limits of a launch, errors of CUDA, patterns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuda_llm.facts import (
    AccessKind,
    CudaError,
    ExceededLimit,
    LaunchShape,
    Location,
    MemoryAccess,
    Owner,
    Replay,
    SourceSpot,
    ThreadSpot,
)
from cuda_llm.patterns import CaseKind, CasePattern, ElementKind, ElementPattern, Region, RegionKind

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
    """What the error means, and where a GPU met it."""
    where = f" in {error.kernel}" if error.kernel else ""
    meaning = _MEANINGS.get(error.name)
    return f"{meaning} ({error.name}{where})" if meaning else f"{error.name}{where}"


def describe_replay(replay: Replay) -> str:
    """Where a place comes from that a GPU did not tell, or why there is none."""
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


UNPLACED = (
    "a GPU names neither line nor thread: `cuda-llm evaluate --device emulated` or "
    "compute-sanitizer does"
)
"""How to find out more than an error code."""


def describe_access(access: MemoryAccess) -> str:
    """`reads 4 bytes at byte 4000 of buffer C (4000 bytes)`."""
    what = VERBS[access.kind]
    if access.bytes is not None:
        what += f" {count(access.bytes, 'byte')}"
    if access.location is not None:
        return f"{what} {describe_location(access.location)}"
    return f"{what} of {access.space} memory" if access.space else what


def describe_location(location: Location) -> str:
    """`at byte 4000 of buffer C (4000 bytes)`, `8 bytes before the start of buffer C`."""
    if location.relation == "nowhere":
        at = "" if location.address is None else f"at {location.address:#x}, "
        return f"{at}which is nobody's memory" if at else "in nobody's memory"
    owner, size, offset = name_owner(location), location.size_bytes, location.offset_bytes
    freed = ", freed" if location.freed else ""
    if location.owner in {"shared", "local", "param"} and size is not None:
        owner, extent = f"{size} bytes of {owner}", ""
    else:
        extent = f" ({size} bytes{freed})" if size is not None else ""
    if offset is None:
        sides = {"past-end": "past the end of", "before-start": "before the start of"}
        return f"{sides.get(location.relation or '', 'in')} {owner}{extent}"
    if offset < 0:
        return f"{-offset} bytes before the start of {owner}{extent}"
    return f"at byte {offset} of {owner}{extent}"


def name_owner(location: Location) -> str:
    """`buffer C`, `cudaMalloc allocation 2`, `shared memory`."""
    if location.owner is None:
        return "its memory"
    if location.owner == "buffer" and location.name:
        return f"buffer {location.name}"
    if location.owner == "scratch" and location.number is not None:
        return f"cudaMalloc allocation {location.number}"
    return _OWNERS[location.owner]


def describe_launch(launch: LaunchShape) -> str:
    """`grid (4, 1, 1), block (256, 1, 1), 60,000 bytes of dynamic shared memory`."""
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


def describe_elements(pattern: ElementPattern) -> str:
    """What the wrong elements look like, in one phrase. Ratios, no counts: a size may be hidden."""
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


def describe_region(region: Region) -> str:
    """Where the elements are."""
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


def describe_cases(pattern: CasePattern) -> str:
    """What the wrong cases have in common, in one phrase."""
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
            rest = "the tail after whole vectors" if is_vector(pattern) else "the last partial tile"
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


LONGEST_VECTOR = 8
"""Elements of one vector access, at most: what fails at other multiples is a tile."""


def is_vector(pattern: CasePattern) -> bool:
    """Whether a step is that of a vector rather than of a tile."""
    return len(pattern.dims) == 1 and pattern.step is not None and pattern.step <= LONGEST_VECTOR


def describe_spot(spot: SourceSpot) -> str:
    """`mine.cu:14  `source line``."""
    return f"{spot}  `{spot.text}`" if spot.text else str(spot)


def describe_place(spot: SourceSpot | None, thread: ThreadSpot | None = None) -> tuple[str, ...]:
    """Where it happened, and which thread did it."""
    return (
        *(() if spot is None else (f"at {describe_spot(spot)}",)),
        *(() if thread is None else (f"in {thread}",)),
    )


def line_of(text: str) -> tuple[str, ...]:
    """The text as a line, or nothing."""
    return (text,) if text else ()


def phrases(*found: str) -> Sequence[str]:
    """Those that say something, as one line."""
    line = "; ".join(filter(None, found))
    return (line,) if line else ()


def percent(share: float) -> str:
    """`3.1 %`."""
    return f"{100 * share:.2g} %"


def count(number: int, what: str) -> str:
    """`1 byte`, `4 bytes`."""
    return f"{number} {what}{'' if number == 1 else 's'}"
