"""Reads the report of a call from its memfd.

The process that writes the report runs the candidate: every number is checked, and a report that is
not valid is an `InfraFailed`, never an exception.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from cuda_llm.outcomes import (
    DataRace,
    DependentLaunch,
    DeviceFinding,
    ExceededLimit,
    FailedCall,
    InfraFailed,
    LaunchFailed,
    LaunchShape,
    LimitName,
    MemoryBound,
    OutOfMemory,
    Verdict,
    fault_key,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.compiler.audit import CUDA_CALLS
from cuda_llm.tools.emulator.report_layout import (
    COUNTERS_OFFSET,
    LAUNCH_ENTRY,
    LOG_ENTRIES,
    LOG_OFFSET,
    MAGIC,
    REPORT,
    SHARING,
    SITE_COUNTERS,
    TEXT_BYTES,
    TEXT_OFFSET,
    TICKS,
    text_of,
)
from cuda_llm.tools.emulator.verdicts import Fault, FaultKind, fault_verdict, race_of
from cuda_llm.tools.profiler.counters import LaunchCounters, Sharing, SiteCounters, scale_up
from cuda_llm.tools.profiler.tables import PIPES, KernelTable

_COUNTER_LIMIT = 1 << 62

_LIMITS: tuple[LimitName | None, ...] = (
    None,
    "grid-extent",
    "block-extent",
    "threads-per-block",
    "launch-bounds",
    "shared-memory",
    "registers",
    "resident-blocks",
    "cluster",
    "cluster",
)
"""Names of launch limits, indexed by `emu::LimitNumber`."""
_AXES: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")
_CUDA_ERRORS = {
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    9: "cudaErrorInvalidConfiguration",
    13: "cudaErrorInvalidSymbol",
    21: "cudaErrorInvalidMemcpyDirection",
    52: "cudaErrorMissingConfiguration",
    98: "cudaErrorInvalidDeviceFunction",
    101: "cudaErrorInvalidDevice",
    400: "cudaErrorInvalidResourceHandle",
    500: "cudaErrorSymbolNotFound",
    701: "cudaErrorLaunchOutOfResources",
    720: "cudaErrorCooperativeLaunchTooLarge",
    801: "cudaErrorNotSupported",
    912: "cudaErrorInvalidClusterSize",
}
_FINDINGS = get_args(get_args(DeviceFinding)[0])
_CALLS = frozenset(CUDA_CALLS.split())


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """Faults, launches, counters and copies of a call of `solve`, as the emulated device reports
    them."""

    fault: Verdict | None = None
    """The first race, else what ended the call."""
    dependent: DependentLaunch | None = None
    """Why a launch cannot be sampled: the call ended there."""
    refused: LaunchFailed | None = None
    """The first launch (or attribute) that CUDA would have refused."""
    out_of_memory: OutOfMemory | None = None
    """An allocation was refused. The candidate may have handled that."""
    failed_calls: tuple[FailedCall, ...] = ()
    """Functions of the runtime API that returned an error, the first ones."""
    guarded_races: tuple[DataRace, ...] = ()
    """Races of plain reads that only guard an atomic update. The call went on."""
    launches: int = 0
    """Kernels that ran to their end, logged or not."""
    launched: tuple[int, ...] | None = ()
    """Numbers of the kernels that ran or were running; None where not every launch was logged."""
    accounts: tuple[LaunchCounters, ...] = ()
    """Counters of each counted launch, in order. Empty at level `check`."""
    copies: int = 0
    """Number of fills and copies by the CUDA API."""
    pieces: int = 0
    """Rows beyond the first of rectangular copies and fills."""
    copied_bytes: int = 0
    """Bytes of device memory that copies and fills read or wrote, in whole 32-byte sectors."""
    host_bytes: int = 0
    """Bytes that copies moved between host and device."""
    held_bytes: int = 0
    """Bytes of device memory that `solve` allocated and did not free."""
    held_allocations: int = 0
    only_slow: bool = False
    """Whether blocks were still ending when the time was up."""
    complete: bool = True
    """False when there were more launches than the report has room for."""
    output: str = ""
    """Text that device code printed, bounded."""
    running: str = ""
    """Kernel that was running when the process ended, if any."""
    running_at: SourceSpot | None = None


def read_report(
    report: bytes | memoryview,
    kernels: Sequence[KernelTable],
    buffers: Sequence[str],
    limit_s: float = 0.0,
) -> CallRecord | InfraFailed:
    """Decode the report of a call.

    `kernels` are the tables of the translated module, `buffers` the names of the call's buffers by
    `CallBuffer.index`, `limit_s` the time limit of the call in seconds.
    """
    if len(report) < COUNTERS_OFFSET:
        return _senseless("it is too short")
    head: Any = np.frombuffer(report, REPORT, 1)[0]
    if int(head["magic"]) != MAGIC:
        return _senseless("it has no heading")
    fault, dependent = None, None
    if int(head["fault"]["fault"]) != 0:
        decoded = Fault.read(head["fault"], kernels)
        if decoded is None:
            return _senseless("its fault record is out of range")
        if decoded.kind is FaultKind.DEPENDENT:
            dependent = _dependence(decoded, kernels)
        else:
            fault = fault_verdict(decoded, kernels, buffers, limit_s)
    guarded, races = (_races(head[name], kernels, buffers) for name in ("guarded", "races"))
    if guarded is None or races is None:
        return _senseless("a record of a race is out of range")
    if races:
        last = (fault,) if isinstance(fault, _FINDINGS) else ()
        distinct: dict[object, DeviceFinding] = {}
        for one in (*races, *last):
            distinct.setdefault(fault_key(one), one)
        fault = replace(races[0], further=tuple(distinct.values())[1:])
    accounts = _read_accounts(report, head, kernels)
    if isinstance(accounts, InfraFailed):
        return accounts
    launches = int(head["launches"])
    running = int(head["progress"]["kernel"])
    table = kernels[running] if head["progress"]["in_kernel"] and running < len(kernels) else None
    block = int(head["progress"]["basic_block"])
    text_bytes = min(int(head["text_bytes"]), TEXT_BYTES)
    text = bytes(report[TEXT_OFFSET : TEXT_OFFSET + text_bytes]).decode("utf-8", "replace")
    return CallRecord(
        fault=fault,
        dependent=dependent,
        refused=_refused(head["launch_error"], kernels),
        failed_calls=_failed_calls(head["failed_calls"], kernels),
        out_of_memory=_out_of_memory(head),
        guarded_races=guarded,
        launches=launches,
        launched=_launched(report, head, kernels),
        accounts=accounts,
        copies=int(head["copies"]),
        pieces=int(head["pieces"]),
        copied_bytes=int(head["copied_sectors"]) * 32,
        host_bytes=int(head["host_bytes"]),
        held_bytes=int(head["held_bytes"]),
        held_allocations=int(head["held_allocations"]),
        only_slow=bool(head["only_slow"]),
        complete=launches <= LOG_ENTRIES and not head["counters_overflowed"],
        output=text + ("\n[more was printed]\n" if head["text_truncated"] else ""),
        running=table.symbol if table else "",
        running_at=table.blocks[block].spot if table and block < len(table.blocks) else None,
    )


def _dependence(fault: Fault, kernels: Sequence[KernelTable]) -> DependentLaunch | None:
    if fault.kernel is None:
        return None
    table = kernels[fault.kernel]
    spot = table.sites[fault.site].spot if fault.site is not None else None
    return DependentLaunch(kernel=table.symbol, spot=spot)


def _races(
    records: Any, kernels: Sequence[KernelTable], buffers: Sequence[str]
) -> tuple[DataRace, ...] | None:
    """Return the races that are recorded; None where a record is out of range."""
    found = [Fault.read(one, kernels) for one in records if int(one["fault"]) != 0]
    races = [one for one in found if one is not None and one.kind is FaultKind.RACE]
    if len(races) < len(found):
        return None
    return tuple(race_of(one, kernels, buffers) for one in races)


def _failed_calls(records: Any, kernels: Sequence[KernelTable]) -> tuple[FailedCall, ...]:
    """Return the calls that failed; a name that no function of the API has is left out."""
    found = []
    for record in records:
        call, kernel = text_of(record["call"]), int(record["kernel"])
        if int(record["times"]) and call in _CALLS:
            number = int(record["error"])
            found.append(
                FailedCall(
                    call=call,
                    error=_CUDA_ERRORS.get(number, f"cudaError {number}"),
                    kernel=kernels[kernel].symbol if kernel < len(kernels) else None,
                    times=int(record["times"]),
                )
            )
    return tuple(found)


def _launched(
    report: bytes | memoryview, head: Any, kernels: Sequence[KernelTable]
) -> tuple[int, ...] | None:
    if int(head["launches"]) != int(head["logged"]) or int(head["logged"]) > LOG_ENTRIES:
        return None
    log = np.frombuffer(report, LAUNCH_ENTRY, int(head["logged"]), LOG_OFFSET)
    progress = head["progress"]
    running = {int(progress["kernel"])} if progress["in_kernel"] else set()
    refused = {int(head["launch_error"]["kernel"])} if head["launch_error"]["error"] else set()
    known = {int(one) for one in np.unique(log["kernel"])} | running | refused
    return tuple(sorted(one for one in known if one < len(kernels)))


def _senseless(why: str) -> InfraFailed:
    return InfraFailed(component="report", detail=f"the device's report makes no sense: {why}")


def _refused(error: Any, kernels: Sequence[KernelTable]) -> LaunchFailed | None:
    number, kernel = int(error["error"]), int(error["kernel"])
    if number == 0:
        return None
    return LaunchFailed(
        kernel=kernels[kernel].symbol if kernel < len(kernels) else "",
        error=_CUDA_ERRORS.get(number, f"cudaError {number}"),
        limit=_limit(error),
        launch=_launch(error) if any(error["grid"]) or any(error["block"]) else None,
    )


def _limit(error: Any) -> ExceededLimit | None:
    number, axis = int(error["limit"]), int(error["axis"])
    name = _LIMITS[number] if number < len(_LIMITS) else None
    if name is None or axis >= len(_AXES):
        return None
    is_shared = name == "shared-memory"
    return ExceededLimit(
        name=name,
        asked=int(error["asked"]),
        allowed=int(error["allowed"]),
        axis=_AXES[axis] if name in {"grid-extent", "block-extent"} else None,
        static_bytes=int(error["static_shared_bytes"]) if is_shared else None,
        most_bytes=int(error["most_shared_bytes"]) or None if is_shared else None,
    )


def _launch(error: Any) -> LaunchShape:
    return LaunchShape(
        grid=_three(error["grid"]),
        block=_three(error["block"]),
        dynamic_shared_bytes=int(error["dynamic_shared_bytes"]),
    )


def _out_of_memory(head: Any) -> OutOfMemory | None:
    reason, size = int(head["allocation_failed"]), int(head["refused_bytes"])
    if reason == 0:
        return None
    if reason == 3:
        return OutOfMemory(request="variables", bytes=size, bound="device")
    bound: MemoryBound = "quota" if reason == 1 else "device"
    allowed_bytes = int(head["allowed_bytes"]) if bound == "quota" else None
    return OutOfMemory(request="cudaMalloc", bytes=size, allowed_bytes=allowed_bytes, bound=bound)


def _read_accounts(
    report: bytes | memoryview, head: Any, kernels: Sequence[KernelTable]
) -> tuple[LaunchCounters, ...] | InfraFailed:
    logged = int(head["logged"])
    if logged > LOG_ENTRIES:
        return _senseless("its launch log is too long")
    accounts = []
    for entry in np.frombuffer(report, LAUNCH_ENTRY, logged, LOG_OFFSET):
        if int(entry["counters_offset"]) == 0:
            continue
        account = _read_account(report, entry, kernels)
        if account is None:
            return _senseless("its launch log is out of range")
        accounts.append(account)
    return tuple(accounts)


def _read_account(
    report: bytes | memoryview, entry: Any, kernels: Sequence[KernelTable]
) -> LaunchCounters | None:
    kernel, offset = int(entry["kernel"]), int(entry["counters_offset"])
    total, counted = int(entry["blocks_total"]), int(entry["counted_blocks"])
    sampled = int(entry["wave_blocks"]) != 0
    if kernel >= len(kernels) or not 0 < counted <= total:
        return None
    table = kernels[kernel]
    blocks, sites = len(table.blocks), len(table.sites)
    if (int(entry["block_count"]), int(entry["site_count"])) != (blocks, sites):
        return None
    row = 8 * blocks
    behind = offset + 2 * row + sites * SITE_COUNTERS.itemsize
    end = behind + (sites * SHARING.itemsize if sampled else 0)
    if offset < COUNTERS_OFFSET or offset % 8 != 0 or end > len(report):
        return None
    rows = np.frombuffer(report, "u8", 2 * blocks, offset)
    counters = np.frombuffer(report, SITE_COUNTERS, sites, offset + 2 * row)
    everything = np.concatenate([rows, counters.view("u8").ravel()])
    if everything.size and int(everything.max()) > _COUNTER_LIMIT:
        return None
    account = LaunchCounters(
        kernel=kernel,
        grid=_three(entry["grid"]),
        block=_three(entry["block"]),
        static_shared_bytes=int(entry["static_shared_bytes"]),
        dynamic_shared_bytes=int(entry["dynamic_shared_bytes"]),
        cooperative=bool(entry["cooperative"]),
        blocks_total=total,
        block_warps=tuple(map(float, rows[:blocks].tolist())),
        block_lanes=tuple(map(float, rows[blocks:].tolist())),
        sites=tuple(_site_count(one, counted) for one in counters),
        heaviest=_heaviest(entry),
        path_clk=int(entry["path_ticks"]) / TICKS / counted,
        longest_clk=int(entry["longest_ticks"]) / TICKS,
        worst_line=float(entry["worst_line"]),
        grid_barriers=-(-int(entry["meetings"]) // total),
        footprint_bytes=int(entry["footprint_bytes"]),
        reused_bytes=int(entry["reused_bytes"]),
        barriers=float(entry["barriers"]),
    )
    if not sampled:
        return account
    rows = np.frombuffer(report, SHARING, sites, behind)
    sharing = [Sharing(*map(float, one)) for one in rows.tolist()]
    if any(one.in_block > _COUNTER_LIMIT for one in sharing):
        return None
    return scale_up(
        account,
        sharing,
        counted_blocks=counted,
        path_error_clk=int(entry["path_error"]) / TICKS,
        wave_blocks=int(entry["wave_blocks"]),
        shared_line=float(entry["shared_line"]),
        allocated_bytes=int(entry["allocated_bytes"]),
        l2_bytes=int(entry["l2_bytes"]),
    )


def _heaviest(entry: Any) -> dict[str, float]:
    units = (*(kind.value for kind in PIPES), "issue", "path")
    return {
        unit: min(1.0, int(most) / int(whole))
        for unit, most, whole in zip(units, entry["heaviest"], entry["work"], strict=True)
        if whole
    }


def _site_count(one: Any, counted_blocks: int) -> SiteCounters:
    return SiteCounters(
        requests=float(one["requests"]),
        lanes=float(one["lanes"]),
        sectors=float(one["sectors"]),
        lines=float(one["lines"]),
        wavefronts=float(one["wavefronts"]),
        ideal_wavefronts=float(one["ideal_wavefronts"]),
        worst_ways=int(one["worst_ways"]),
        l2_sectors=float(one["l2_sectors"]),
        dram_sectors=float(one["dram_sectors"]),
        serial=float(one["serial"]),
        path_clk=int(one["path_ticks"]) / TICKS / counted_blocks,
    )


def _three(values: Any) -> tuple[int, int, int]:
    return int(values[0]), int(values[1]), int(values[2])
