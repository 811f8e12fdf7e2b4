"""Verdicts on kernels that were stopped, in words."""

from cuda_llm.fact_wording import (
    UNPLACED,
    VERBS,
    count,
    describe_access,
    describe_error,
    describe_place,
    describe_replay,
    describe_spot,
    line_of,
)
from cuda_llm.failures import (
    DataRace,
    DeviceAssert,
    DeviceFault,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    TimedOut,
    UninitialisedRead,
    lacks_place,
)
from cuda_llm.outcomes import HostCrashed, OutOfMemory


def describe_fault(verdict: DeviceFault) -> tuple[str, ...]:
    """The finding, its place, and how it is known where a GPU gave an error code alone."""
    other = getattr(verdict, "other", None)
    earlier = () if other is None else (f"against {describe_spot(other)}",)
    replayed = () if verdict.replay is None else (describe_replay(verdict.replay),)
    unplaced = (UNPLACED,) if lacks_place(verdict) else ()
    found = describe_finding(verdict)
    said = () if verdict.error is None else (describe_error(verdict.error),)
    if verdict.error is not None and not found:
        said, found = (), describe_error(verdict.error)
    first = found or verdict.detail or verdict.code.replace("_", " ").lower()
    return (
        first,
        *describe_place(verdict.spot, verdict.thread),
        *earlier,
        *said,
        *replayed,
        *unplaced,
    )


def describe_finding(verdict: DeviceFault) -> str:
    """What is known of the fault itself; empty where that is an error code, or words of others."""
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
    """Which two accesses of which word."""
    if verdict.hazards is not None:
        return f"{count(verdict.hazards, 'hazard')} in {verdict.space} memory"
    earlier, _, later = verdict.kind.partition("-")
    verb = VERBS["atomic" if verdict.atomic else "write" if later == "write" else "read"]
    word = "a word" if verdict.offset_bytes is None else f"byte {verdict.offset_bytes}"
    where = "" if verdict.other is None else f" at {verdict.other}"
    return (
        f"{verb} {word} of {verdict.space} memory after another thread's {earlier}{where}, with "
        "nothing between that orders the two"
    )


def describe_sync(verdict: InvalidSync) -> str:
    """Which barrier or collective, and who is missing."""
    opcode = verdict.opcode or "barrier"
    elsewhere = "" if verdict.other is None else f" at {verdict.other}"
    mask = "" if verdict.mask is None else f" with mask {verdict.mask:#010x}"
    match verdict.reason:
        case "different-barriers":
            return f"lanes of one warp are at different barriers: the others wait{elsewhere}"
        case "different-thread-counts":
            return f"{opcode}: different thread counts"
        case "no-such-barrier":
            return f"{opcode}: no such barrier"
        case "not-a-member":
            return f"{opcode}{mask}: a lane executes it without being in its own mask"
        case "missing-lanes":
            return f"{opcode}{mask}: not every lane of the mask gets here"
        case "absent-lane":
            return f"{opcode} reads lane {verdict.lane}, which takes no part"
        case None if verdict.kind == "deadlock":
            others = f", others{elsewhere}" if elsewhere else ""
            return f"no thread of the block can go on: some wait at {opcode}{others}"
        case None:
            return f"not all threads reach {opcode}"


def describe_timeout(verdict: TimedOut) -> tuple[str, ...]:
    """Which stage, what is still running, and where."""
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
    """What asked for how much, and whose end was reached."""
    size = "" if verdict.bytes is None else f"{verdict.bytes:,} bytes"
    match verdict.request:
        case "cudaMalloc":
            whose = "device memory" if verdict.bound == "device" else "its quota"
            told = f"cudaMalloc of {size or 'too much'}: {whose} is used up"
        case "variables":
            told = f"module variables need more than device memory has: {size}"
        case "to-load":
            told = "the device code needs more memory than there is"
        case "to-run":
            told = "no memory is left to call it beside what it holds"
        case None:
            told = describe_error(verdict.error) if verdict.error else ""
    said = f" ({verdict.detail})" if told and verdict.detail else verdict.detail
    left = {None: "", "exit": "; then `solve` gave up"}.get(verdict.then, f"; then {verdict.then}")
    beside = "it leaves the baseline beside it no memory: " if verdict.beside_baseline else ""
    return (f"{beside}{told}{said}{left}" or "device memory ran out",)


def describe_crash(verdict: HostCrashed) -> tuple[str, ...]:
    """Of which signal, and what it touched."""
    died = f"the host part died of {verdict.signal}"
    if verdict.error is not None:
        return (died, describe_error(verdict.error))
    if verdict.status is not None:
        return (died, f"`solve` ended the process: {verdict.status}")
    if verdict.killed:
        return (died, "the process was killed; perhaps memory ran out")
    where = "" if verdict.address is None else f"it touched address {verdict.address:#x}"
    return (died, *line_of(verdict.detail or where))
