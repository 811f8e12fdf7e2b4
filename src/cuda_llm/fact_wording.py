"""Facts of verdicts in words: faults, accesses, limits of a launch, errors of CUDA."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuda_llm.facts import (
    AccessKind,
    CudaError,
    DescriptorFlaw,
    ExceededLimit,
    LaunchShape,
    Location,
    MemoryAccess,
    Owner,
    Replay,
    SourceSpot,
    SyncKind,
    SyncReason,
    ThreadSpot,
)
from cuda_llm.failures import (
    DataRace,
    DeviceAssert,
    DeviceFault,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    UninitialisedRead,
    lacks_place,
)

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
