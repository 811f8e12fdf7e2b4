"""Turns a fault of the emulated device into a verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, get_args

from cuda_llm.outcomes import (
    AccessKind,
    CopyLack,
    CopyUnderWay,
    DataRace,
    Decision,
    DescriptorFlaw,
    DeviceAssert,
    EmulatorUnsupported,
    IllegalAccess,
    InfraFailed,
    InvalidSync,
    Location,
    MemoryAccess,
    MemorySpace,
    Misaligned,
    Owner,
    PolicyBreach,
    PolicyViolation,
    RaceKind,
    Relation,
    SharedArray,
    SyncKind,
    SyncReason,
    ThreadSpot,
    TimedOut,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.emulator.report_layout import FAULT_RECORD, NONE, Reason, text_of
from cuda_llm.tools.profiler.tables import InstructionSite, KernelTable, SharedVariable

_SPACES: tuple[MemorySpace | None, ...] = (None, "global", "shared", "local", "const", "param")
_ACCESSES: tuple[AccessKind | None, ...] = (None, "read", "write", "atomic")
_ALLOCATIONS: tuple[Owner | None, ...] = (
    *(None, "buffer", "scratch", "variable"),
    None,  # the runtime's own workspace, which no candidate owns
    "heap",
)
_NUMBERS = tuple(set(FAULT_RECORD.names or ()) - {"block", "thread", "detail"})
_RACES: dict[tuple[bool, bool], RaceKind] = {
    (True, True): "write-write",
    (True, False): "write-read",
    (False, True): "read-write",
}
"""Kind of a race, by whether the earlier access writes and whether the later access writes."""


class FaultKind(IntEnum):
    """Kind of a fault, numbered as `emu::Fault`."""

    OUT_OF_BOUNDS = 1
    MISALIGNED = 2
    RACE = 3
    UNINITIALISED = 4
    DIVERGENT_BARRIER = 5
    PARTIAL_MASK = 6
    ABSENT_LANE = 7
    DEADLOCK = 8
    ENDLESS_LOOP = 9
    TRAP = 10
    UNSUPPORTED = 11
    HOST_TOUCHED_DEVICE = 12
    LARGE_COPY = 13
    HOST_COPY = 14
    READ_ONLY = 15
    INFRASTRUCTURE = 16
    LARGE_COPIES = 17
    DEPENDENT = 18
    UNWAITED = 19
    UNFENCED = 20
    UNJOINED = 21


class CopyState(IntEnum):
    """How far a `cp.async` is, numbered as `emu::CopyNumber`."""

    NONE = 0
    UNCOMMITTED = 1
    LATE = 2
    UNWAITED = 3


_LACKS: dict[CopyState, CopyLack] = {
    CopyState.UNCOMMITTED: "commit",
    CopyState.LATE: "commit-before-wait",
    CopyState.UNWAITED: "wait",
}


def _words(kind: Any) -> dict[Reason, Any]:
    return {one: word for one in Reason for word in get_args(kind) if word == one.word}


_SYNC_REASONS: dict[Reason, SyncReason] = _words(SyncReason)
_DECISIONS: dict[Reason, Decision] = {
    one: word for one in Reason for word in get_args(Decision) if one.word == f"decides-{word}"
}
_DESCRIPTORS: dict[Reason, DescriptorFlaw] = _words(DescriptorFlaw)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault record whose numbers are in range."""

    kind: FaultKind
    kernel: int | None
    site: int | None
    other_site: int | None
    other_kernel: int | None
    basic_block: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    space: MemorySpace | None
    access: AccessKind | None
    other_access: AccessKind | None
    bytes: int
    allocation: Owner | None
    allocation_index: int
    allocation_freed: bool
    reason: Reason
    address: int
    offset: int
    allocation_bytes: int
    detail: str
    copy_site: int | None
    copy_state: CopyState

    @classmethod
    def read(cls, record: Any, kernels: Sequence[KernelTable]) -> "Fault | None":
        """Read a fault record; None where a number is out of range."""
        number = {name: int(record[name]) for name in _NUMBERS}
        kernel = None if number["kernel"] == NONE else number["kernel"]
        if kernel is not None and kernel >= len(kernels):
            return None
        table = kernels[kernel] if kernel is not None else KernelTable(symbol="")
        if (
            number["fault"] not in set(FaultKind)
            or number["space"] >= len(_SPACES)
            or number["access"] >= len(_ACCESSES)
            or number["other_access"] >= len(_ACCESSES)
            or number["allocation_kind"] >= len(_ALLOCATIONS)
            or number["reason"] not in set(Reason)
            or number["copy_state"] not in set(CopyState)
        ):
            return None
        elsewhere = None if number["other_kernel"] == NONE else number["other_kernel"]
        if elsewhere is not None and elsewhere >= len(kernels):
            return None
        other = table if elsewhere is None else kernels[elsewhere]
        limits = {"site": len(table.sites), "other_site": len(other.sites)}
        limits["copy_site"] = len(table.sites)
        limits["basic_block"] = len(table.blocks)
        places = {name: None if number[name] == NONE else number[name] for name in limits}
        if any(value is not None and value >= limits[name] for name, value in places.items()):
            return None
        return cls(
            kind=FaultKind(number["fault"]),
            kernel=kernel,
            other_kernel=elsewhere,
            **places,
            block=_three(record["block"]),
            thread=_three(record["thread"]),
            space=_SPACES[number["space"]],
            access=_ACCESSES[number["access"]],
            other_access=_ACCESSES[number["other_access"]],
            bytes=number["bytes"],
            allocation=_ALLOCATIONS[number["allocation_kind"]],
            allocation_index=number["allocation_index"],
            allocation_freed=bool(number["allocation_freed"]),
            reason=Reason(number["reason"]),
            address=number["address"],
            offset=number["allocation_offset"],
            allocation_bytes=number["allocation_bytes"],
            detail=text_of(record["detail"]),
            copy_state=CopyState(number["copy_state"]),
        )


def _three(values: Any) -> tuple[int, int, int]:
    return int(values[0]), int(values[1]), int(values[2])


def fault_verdict(
    fault: Fault, kernels: Sequence[KernelTable], buffers: Sequence[str], limit_s: float
) -> Verdict:
    """Return the verdict that a fault is for the candidate."""
    table = kernels[fault.kernel] if fault.kernel is not None else KernelTable(symbol="")
    site = table.sites[fault.site] if fault.site is not None else None
    other_table = table if fault.other_kernel is None else kernels[fault.other_kernel]
    other = other_table.sites[fault.other_site] if fault.other_site is not None else None
    spot = site.spot if site else None
    thread = ThreadSpot(kernel=table.symbol, block=fault.block, thread=fault.thread)
    match fault.kind:
        case FaultKind.OUT_OF_BOUNDS | FaultKind.READ_ONLY:
            return IllegalAccess(access=_access(fault, table, buffers), thread=thread, spot=spot)
        case FaultKind.MISALIGNED:
            return Misaligned(access=_access(fault, table, buffers), thread=thread, spot=spot)
        case FaultKind.UNINITIALISED:
            return UninitialisedRead(
                access=_access(fault, table, buffers) if fault.space is not None else None,
                thread=thread,
                # Of a register that nothing has set, only the use has a line.
                spot=spot if site or other is None else other.spot,
                decides=_DECISIONS.get(fault.reason),
                used_at=other.spot if site and other else None,
                copy=_copy(fault, table),
            )
        case FaultKind.RACE:
            return race_of(fault, kernels, buffers)
        case FaultKind.DIVERGENT_BARRIER | FaultKind.PARTIAL_MASK | FaultKind.ABSENT_LANE:
            return _invalid_sync(fault, thread, site, other)
        case FaultKind.DEADLOCK | FaultKind.UNWAITED | FaultKind.UNFENCED:
            return _invalid_sync(fault, thread, site, other)
        case FaultKind.ENDLESS_LOOP:
            block = table.blocks[fault.basic_block] if fault.basic_block is not None else None
            return TimedOut(
                stage="kernel",
                limit_s=limit_s,
                thread=thread,
                kernel=table.symbol or None,
                spot=block.spot if block else None,
            )
        case FaultKind.TRAP if fault.reason is Reason.ASSERTION:
            return DeviceAssert(reason="assert", assertion=fault.detail, thread=thread, spot=spot)
        case FaultKind.TRAP if fault.reason is Reason.NO_FUNCTION:
            called = fault.address
            return DeviceAssert(reason="invalid-pc", called=called, thread=thread, spot=spot)
        case FaultKind.TRAP:
            return DeviceAssert(reason="trap", thread=thread, spot=spot)
        case FaultKind.UNSUPPORTED:
            return _unsupported(table, site)
        case FaultKind.HOST_TOUCHED_DEVICE:
            location = _location(fault, table, buffers)
            return PolicyViolation(rule="host-touches-device-memory", location=location)
        case FaultKind.LARGE_COPY:
            breach = PolicyBreach(kind="large-copy", limit_bytes=fault.address)
            return PolicyViolation(rule="api-call", breach=breach)
        case FaultKind.LARGE_COPIES:
            breach = PolicyBreach(kind="large-copies", limit_bytes=fault.address)
            return PolicyViolation(rule="api-call", breach=breach)
        case FaultKind.UNJOINED:
            names = (table.symbol,) if table.symbol else ()
            breach = PolicyBreach(kind="unjoined-stream", names=names)
            return PolicyViolation(rule="api-call", breach=breach)
        case FaultKind.HOST_COPY:
            return PolicyViolation(rule="host-copy")
        case FaultKind.DEPENDENT | FaultKind.INFRASTRUCTURE:
            return InfraFailed(component="device", detail=fault.detail)


def _access(fault: Fault, table: KernelTable, buffers: Sequence[str]) -> MemoryAccess:
    return MemoryAccess(
        space=fault.space,
        kind=fault.access,
        bytes=fault.bytes or None,
        location=_location(fault, table, buffers),
        descriptor=_DESCRIPTORS.get(fault.reason),
    )


def _location(fault: Fault, table: KernelTable, buffers: Sequence[str]) -> Location:
    if fault.space in {"shared", "local", "param"}:
        return Location(
            relation=_relation(fault),
            owner=fault.space,
            offset_bytes=fault.offset,
            size_bytes=fault.allocation_bytes,
            freed=fault.reason is Reason.EXITED_BLOCK,
            array=_array(fault, table) if fault.space == "shared" else None,
        )
    owner = fault.allocation
    if owner is None:
        return Location(relation="nowhere", address=fault.address)
    if owner == "variable" and (fault.space == "const" or fault.kind is FaultKind.READ_ONLY):
        owner = "constant"
    is_named = owner == "buffer" and fault.allocation_index < len(buffers)
    return Location(
        relation=_relation(fault),
        owner=owner,
        name=buffers[fault.allocation_index] if is_named else None,
        number=fault.allocation_index if owner == "scratch" else None,
        offset_bytes=fault.offset,
        size_bytes=fault.allocation_bytes,
        freed=fault.allocation_freed,
    )


def _relation(fault: Fault) -> Relation:
    if fault.offset < 0:
        return "before-start"
    return "inside" if fault.offset < fault.allocation_bytes else "past-end"


def _array(fault: Fault, table: KernelTable) -> SharedArray | None:
    """Return the last array that begins at or before the access."""
    before = [one for one in table.shared if one.offset_bytes <= fault.offset]
    if not before:
        return None
    found = max(before, key=lambda one: one.offset_bytes)
    offset = fault.offset - found.offset_bytes
    return SharedArray(
        name=found.name,
        offset_bytes=offset,
        size_bytes=found.size_bytes,
        index=_index(found, offset),
    )


def _index(array: SharedVariable, offset_bytes: int) -> tuple[int, ...]:
    """Return the element at an offset; empty where the extents are not known, or behind the end."""
    size = array.size_bytes or 0
    if not array.shape or offset_bytes >= size:
        return ()
    rest, index = offset_bytes * math.prod(array.shape) // size, []
    for extent in reversed(array.shape):
        index.append(rest % extent)
        rest //= extent
    return tuple(reversed(index))


def _copy(fault: Fault, table: KernelTable) -> CopyUnderWay | None:
    lack = _LACKS.get(fault.copy_state)
    if fault.copy_site is None or lack is None:
        return None
    return CopyUnderWay(spot=table.sites[fault.copy_site].spot, lacks=lack)


def race_of(fault: Fault, kernels: Sequence[KernelTable], buffers: Sequence[str]) -> DataRace:
    """Return the race that a fault of this kind records."""
    table = kernels[fault.kernel] if fault.kernel is not None else KernelTable(symbol="")
    site = table.sites[fault.site] if fault.site is not None else None
    other = table.sites[fault.other_site] if fault.other_site is not None else None
    return DataRace(
        kind=_RACES.get((fault.other_access != "read", fault.access != "read"), "write-read"),
        space=fault.space or "shared",
        offset_bytes=fault.offset,
        atomic=fault.access == "atomic",
        unfenced=fault.reason is Reason.NO_PROXY_FENCE,
        thread=ThreadSpot(kernel=table.symbol, block=fault.block, thread=fault.thread),
        spot=site.spot if site else None,
        other=other.spot if other else None,
        location=_location(fault, table, buffers),
        copy=_copy(fault, table),
    )


_SYNC_KINDS: dict[FaultKind, SyncKind] = {
    FaultKind.DIVERGENT_BARRIER: "divergent-barrier",
    FaultKind.PARTIAL_MASK: "partial-mask",
    FaultKind.ABSENT_LANE: "partial-mask",
    FaultKind.UNWAITED: "unwaited",
    FaultKind.UNFENCED: "unfenced",
}


def _invalid_sync(
    fault: Fault, thread: ThreadSpot, site: InstructionSite | None, other: InstructionSite | None
) -> InvalidSync:
    absent = fault.kind is FaultKind.ABSENT_LANE
    is_phase = fault.reason is Reason.PHASE_INCOMPLETE
    return InvalidSync(
        kind=_SYNC_KINDS.get(fault.kind, "deadlock"),
        reason="absent-lane" if absent else _SYNC_REASONS.get(fault.reason),
        opcode=site.opcode if site else None,
        mask=fault.address & NONE if fault.kind is FaultKind.PARTIAL_MASK else None,
        lane=fault.address & 31 if absent else None,
        missing_arrivals=fault.address if is_phase else None,
        missing_bytes=fault.bytes if is_phase else None,
        thread=thread,
        spot=site.spot if site else None,
        other=other.spot if other else None,
    )


def _unsupported(table: KernelTable, site: InstructionSite | None) -> EmulatorUnsupported:
    if site is not None:
        return EmulatorUnsupported(opcode=site.opcode, kernel=table.symbol, spot=site.spot)
    first = table.unsupported[0] if table.unsupported else None
    return EmulatorUnsupported(
        opcode=first.opcode if first else "unknown",
        kernel=table.symbol,
        others=max(0, len(table.unsupported) - 1),
        spot=first.spot if first else None,
    )
