"""A fault of the emulated device as a verdict with words."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from cuda_llm.outcomes import (
    DataRace,
    DeviceAssert,
    EmulatorUnsupported,
    IllegalAccess,
    InfraFailed,
    InvalidSync,
    Misaligned,
    PolicyViolation,
    TimedOut,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.spots import ThreadSpot
from cuda_llm.tools.emulator.report_layout import NONE, text_of
from cuda_llm.tools.emulator.tables import KernelTable, Site


class FaultKind(IntEnum):
    """`emu::Fault`."""

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
    POLICY = 13
    HOST_COPY = 14
    READ_ONLY = 15
    INFRASTRUCTURE = 16


_SPACES = ("", "global", "shared", "local", "const", "param")
_ACCESSES = ("", "read", "write", "atomic")
_VERBS = {"": "accesses", "read": "reads", "write": "writes", "atomic": "atomically updates"}
_ALLOCATIONS = ("", "buffer", "scratch", "variable", "workspace")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault record whose numbers are in range."""

    kind: FaultKind
    kernel: int | None
    site: int | None
    other_site: int | None
    basic_block: int | None
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    space: str
    access: str
    other_access: str
    bytes: int
    allocation: str
    allocation_index: int
    allocation_freed: bool
    address: int
    offset: int
    allocation_bytes: int
    detail: str

    @classmethod
    def read(cls, record: Any, kernels: Sequence[KernelTable]) -> "Fault | None":
        """The record, or None where a number is out of range."""
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
        ):
            return None
        limits = {"site": len(table.sites), "other_site": len(table.sites)}
        limits["basic_block"] = len(table.blocks)
        places = {name: None if number[name] == NONE else number[name] for name in limits}
        if any(value is not None and value >= limits[name] for name, value in places.items()):
            return None
        return cls(
            kind=FaultKind(number["fault"]),
            kernel=kernel,
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
            address=number["address"],
            offset=number["allocation_offset"],
            allocation_bytes=number["allocation_bytes"],
            detail=text_of(record["detail"]),
        )


_NUMBERS = (
    "fault",
    "kernel",
    "site",
    "other_site",
    "basic_block",
    "space",
    "access",
    "other_access",
    "bytes",
    "allocation_kind",
    "allocation_index",
    "allocation_freed",
    "address",
    "allocation_offset",
    "allocation_bytes",
)


def _three(values: Any) -> tuple[int, int, int]:
    return int(values[0]), int(values[1]), int(values[2])


def fault_verdict(
    fault: Fault, kernels: Sequence[KernelTable], buffers: Sequence[str], limit_s: float
) -> Verdict:
    """What the fault means for the candidate."""
    table = kernels[fault.kernel] if fault.kernel is not None else KernelTable(symbol="")
    site = table.sites[fault.site] if fault.site is not None else None
    other = table.sites[fault.other_site] if fault.other_site is not None else None
    spot = site.spot if site else None
    thread = ThreadSpot(kernel=table.symbol, block=fault.block, thread=fault.thread)
    match fault.kind:
        case FaultKind.OUT_OF_BOUNDS | FaultKind.READ_ONLY:
            return IllegalAccess(
                space=fault.space,
                access=fault.access,
                bytes=fault.bytes,
                detail=_access_words(fault, buffers),
                thread=thread,
                spot=spot,
            )
        case FaultKind.MISALIGNED:
            return Misaligned(
                space=fault.space,
                bytes=fault.bytes,
                detail=f"{_access_words(fault, buffers)}: not a multiple of {fault.bytes}",
                thread=thread,
                spot=spot,
            )
        case FaultKind.UNINITIALISED:
            return UninitialisedRead(
                space=fault.space,
                detail=f"{_access_words(fault, buffers)}, which nothing has written",
                thread=thread,
                spot=spot,
            )
        case FaultKind.RACE:
            return _race(fault, thread, site, other)
        case (
            FaultKind.DIVERGENT_BARRIER
            | FaultKind.PARTIAL_MASK
            | FaultKind.ABSENT_LANE
            | FaultKind.DEADLOCK
        ):
            return _invalid_sync(fault, thread, site, other)
        case FaultKind.ENDLESS_LOOP:
            block = table.blocks[fault.basic_block] if fault.basic_block is not None else None
            where = block.spot if block else None
            loop = f" in the loop at {where}" if where else ""
            return TimedOut(
                stage="kernel",
                limit_s=limit_s,
                detail=f"{thread} is still running{loop}",
                spot=where,
            )
        case FaultKind.TRAP:
            return DeviceAssert(detail=fault.detail or "__trap()", thread=thread, spot=spot)
        case FaultKind.UNSUPPORTED:
            return _unsupported(table)
        case FaultKind.HOST_TOUCHED_DEVICE:
            return PolicyViolation(
                rule="host-touches-device-memory",
                detail="host code dereferences a device pointer: "
                + (_place(fault, buffers) or f"address {fault.address:#x}"),
            )
        case FaultKind.POLICY:
            return PolicyViolation(rule="api-call", detail=fault.detail)
        case FaultKind.HOST_COPY:
            return PolicyViolation(rule="host-copy", detail=fault.detail)
        case FaultKind.INFRASTRUCTURE:
            return InfraFailed(component="device", detail=fault.detail)


def _access_words(fault: Fault, buffers: Sequence[str]) -> str:
    """`reads 4 bytes at byte 4000 of buffer C (4000 bytes)`."""
    verb = _VERBS[fault.access]
    size = f"{fault.bytes} byte{'s' if fault.bytes != 1 else ''}"
    place = _place(fault, buffers)
    return f"{verb} {size} {place or f'at {fault.address:#x}, which is nobody’s memory'}"


def _place(fault: Fault, buffers: Sequence[str]) -> str:
    if fault.space in {"shared", "local"}:
        return f"at byte {fault.offset} of {fault.allocation_bytes} bytes of {fault.space} memory"
    if fault.space == "param":
        return f"at byte {fault.offset} of {fault.allocation_bytes} bytes of kernel parameters"
    if fault.allocation == "buffer":
        known = fault.allocation_index < len(buffers)
        owner = f"buffer {buffers[fault.allocation_index]}" if known else "a buffer"
    elif fault.allocation == "scratch":
        owner = f"cudaMalloc allocation {fault.allocation_index}"
    elif fault.allocation == "variable":
        constant = fault.space == "const" or fault.kind == FaultKind.READ_ONLY
        owner = "a __constant__ variable" if constant else "a module variable"
    else:
        return ""
    size = f"({fault.allocation_bytes} bytes{', freed' if fault.allocation_freed else ''})"
    if fault.offset < 0:
        return f"{-fault.offset} bytes before the start of {owner} {size}"
    return f"at byte {fault.offset} of {owner} {size}"


def _race(fault: Fault, thread: ThreadSpot, site: Site | None, other: Site | None) -> DataRace:
    now, before = fault.access, fault.other_access
    kind = "-".join("write" if a == "atomic" else a for a in (before or "write", now or "write"))
    earlier = f" at {other.spot}" if other and other.spot else ""
    return DataRace(
        kind=kind,
        detail=(
            f"{_VERBS[now]} byte {fault.offset} of shared memory after another warp's "
            f"{before or 'access'}{earlier}, with no barrier between the two"
        ),
        thread=thread,
        spot=site.spot if site else None,
        other=other.spot if other else None,
    )


def _invalid_sync(
    fault: Fault, thread: ThreadSpot, site: Site | None, other: Site | None
) -> InvalidSync:
    opcode = site.opcode if site else "barrier"
    elsewhere = f" at {other.spot}" if other and other.spot else ""
    match fault.kind:
        case FaultKind.DIVERGENT_BARRIER if fault.detail == "different barriers":
            kind = "divergent-barrier"
            detail = f"lanes of one warp are at different barriers: the others wait{elsewhere}"
        case FaultKind.DIVERGENT_BARRIER:
            kind, detail = "divergent-barrier", f"{opcode}: {fault.detail}"
        case FaultKind.PARTIAL_MASK:
            kind = "partial-mask"
            missing = "a lane executes it without being in its own mask"
            if fault.detail != "not a member":
                missing = "not every lane of the mask gets here"
            detail = f"{opcode} with mask {fault.address & NONE:#010x}: {missing}"
        case FaultKind.ABSENT_LANE:
            kind = "partial-mask"
            detail = f"{opcode} reads lane {fault.address & 31}, which takes no part"
        case _:
            kind = "deadlock"
            detail = f"no thread of the block can go on: some wait at {opcode}" + (
                f", others{elsewhere}" if elsewhere else ""
            )
    return InvalidSync(kind=kind, detail=detail, thread=thread, spot=site.spot if site else None)


def _unsupported(table: KernelTable) -> EmulatorUnsupported:
    first = table.unsupported[0] if table.unsupported else None
    more = len(table.unsupported) - 1
    return EmulatorUnsupported(
        opcode=first.opcode if first else "unknown",
        kernel=table.symbol,
        detail=f"and {more} other operations" if more > 0 else "",
        spot=first.spot if first else None,
    )
