"""The shim's log of a call, and CUDA's errors by number (CUresult and cudaError_t share them).

A candidate may have written the log: every number is checked, nothing raises, and nothing in it
decides a rank.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from cuda_llm.outcomes import (
    CudaError,
    DeviceAssert,
    ExceededLimit,
    HostCrashed,
    IllegalAccess,
    InfraFailed,
    LaunchFailed,
    LaunchShape,
    LimitName,
    Misaligned,
    OutOfMemory,
    StopReason,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.cuda.protocol import (
    LOG_ENTRIES,
    NO_TEXT,
    REPORT_MAGIC,
    TEXT_BYTES,
    EntryKind,
    LogEntry,
    RefusedCall,
    Report,
)
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch

_NAMES = {
    1: "cudaErrorInvalidValue",
    2: "cudaErrorMemoryAllocation",
    9: "cudaErrorInvalidConfiguration",
    98: "cudaErrorInvalidDeviceFunction",
    209: "cudaErrorNoKernelImageForDevice",
    214: "cudaErrorECCUncorrectable",
    304: "cudaErrorOperatingSystem",
    700: "cudaErrorIllegalAddress",
    701: "cudaErrorLaunchOutOfResources",
    702: "cudaErrorLaunchTimeout",
    710: "cudaErrorAssert",
    714: "cudaErrorHardwareStackError",
    715: "cudaErrorIllegalInstruction",
    716: "cudaErrorMisalignedAddress",
    717: "cudaErrorInvalidAddressSpace",
    718: "cudaErrorInvalidPc",
    719: "cudaErrorLaunchFailure",
    720: "cudaErrorCooperativeLaunchTooLarge",
    721: "cudaErrorTensorMemoryLeak",
    912: "cudaErrorInvalidClusterSize",
    999: "cudaErrorUnknown",
}
_LAUNCH = {1, 9, 98, 209, 701, 720, 912}
_ILLEGAL = {700, 714, 717}
_STOPPED: dict[int, StopReason] = {
    710: "assert",
    715: "illegal-instruction",
    718: "invalid-pc",
    719: "launch-failure",
}

REPORT_BYTES = ctypes.sizeof(Report)
_KINDS = {
    EntryKind.KERNEL: LaunchKind.KERNEL,
    EntryKind.COPY: LaunchKind.COPY,
    EntryKind.SET: LaunchKind.SET,
}
_LIMITS: tuple[LimitName | None, ...] = (
    None,
    "grid-extent",
    "block-extent",
    "threads-per-block",
    "launch-bounds",
    "shared-memory",
    "registers",
    "resident-blocks",
)
"""Names of launch limits, indexed by `gpu::LimitNumber`."""
_AXES: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS = 1024
_MOST_NAME = 512


def error_name(number: int) -> str:
    """Return the name of an error in the CUDA runtime's headers."""
    return _NAMES.get(number, f"cudaError {number}")


def verdict_on_error(number: int, kernel: str, limit_s: float) -> Verdict:
    """Return the verdict on a kernel whose context was lost with CUDA error `number`.

    A GPU reports neither thread nor address. `kernel` is the kernel launched last, and may be
    empty.
    """
    error = CudaError(number=number, name=error_name(number), kernel=kernel or None)
    if number in _LAUNCH:
        return LaunchFailed(kernel=kernel, error=error.name)
    if number in _ILLEGAL:
        return IllegalAccess(error=error)
    if number in _STOPPED:
        return DeviceAssert(reason=_STOPPED[number], error=error)
    match number:
        case 2:
            return OutOfMemory(bound="device", error=error)
        case 716:
            return Misaligned(error=error)
        case 702:
            return TimedOut(stage="kernel", limit_s=limit_s, kernel=error.kernel, error=error)
        case 304 if kernel:
            # Host code ran here and nowhere else, and the device answers right before and after.
            return HostCrashed(signal=error.name, error=error)
    where = f" in {kernel}" if kernel else ""
    return InfraFailed(component="device", detail=f"{error.name}{where}")


@dataclass(frozen=True, kw_only=True)
class CallLog:
    """Launches, copies, allocations and refusals of a call or capture of `solve`, as its runner
    reports them."""

    launches: int = 0
    """Number of kernel launches, logged or not."""
    entries: tuple[LoggedLaunch, ...] = ()
    complete: bool = True
    """False where the launches exceeded a report's capacity, or a logged entry was not valid."""
    refused: LaunchFailed | None = None
    """The first launch that CUDA refused. The candidate may have found another way."""
    out_of_memory: OutOfMemory | None = None
    """An allocation was refused. The candidate may have coped with that."""
    crowded: str = ""
    """Symbol of the first kernel with more blocks than fit on the GPU at once; else empty."""
    waiting: bool = False
    """The host part waited for the GPU."""

    def with_kernel_names(self, names: Mapping[str, str]) -> "CallLog":
        """Return the log with a refused kernel's name as in its source; `names` are by symbol."""
        if self.refused is None or self.refused.kernel not in names:
            return self
        return replace(self, refused=replace(self.refused, kernel=names[self.refused.kernel]))


def read_report(raw: bytes, sm_count: int) -> CallLog:
    """Decode a report from a GPU with `sm_count` SMs."""
    if len(raw) < REPORT_BYTES:
        return CallLog(complete=False)
    report = Report.from_buffer_copy(raw)
    if report.magic != REPORT_MAGIC:
        return CallLog(complete=False)
    text = raw[Report.text.offset : Report.text.offset + TEXT_BYTES]
    logged = report.log[: min(report.logged, LOG_ENTRIES)]
    entries = [_entry(one, text) for one in logged]
    return CallLog(
        launches=report.launches,
        entries=tuple(one for one in entries if one is not None),
        complete=None not in entries and report.entries == len(entries),
        refused=_refused(report),
        out_of_memory=_out_of_memory(report),
        waiting=report.waiting > 0,
        crowded=next((_name(one, text) for one in logged if _is_crowded(one, sm_count)), ""),
    )


def _entry(one: LogEntry, text: bytes) -> LoggedLaunch | None:
    """Return one logged launch, copy or fill; None where its numbers are not valid."""
    if one.kind not in set(EntryKind):
        return None
    kind = _KINDS[EntryKind(one.kind)]
    if kind is not LaunchKind.KERNEL:
        return LoggedLaunch(kind=kind, bytes=one.bytes)
    grid, block, cluster = tuple(one.grid), tuple(one.block), tuple(one.cluster)
    blocks_fit = all(0 < have <= most for have, most in zip(grid, _MOST_BLOCKS, strict=True))
    if not blocks_fit or not 0 < block[0] * block[1] * block[2] <= _MOST_THREADS:
        return None
    return LoggedLaunch(
        kind=kind,
        symbol=_name(one, text),
        grid=grid,
        block=block,
        dynamic_shared_bytes=one.dynamic_shared_bytes,
        cooperative=bool(one.cooperative),
        cluster=max(1, min(cluster[0] * cluster[1] * cluster[2], 64)),
    )


def _name(one: LogEntry, text: bytes) -> str:
    if one.name == NO_TEXT or one.name >= len(text):
        return ""
    return _printable(text[one.name : one.name + _MOST_NAME].split(b"\0", 1)[0])


def _printable(raw: bytes) -> str:
    return "".join(c for c in raw.decode(errors="replace") if c.isprintable())


def _is_crowded(one: LogEntry, sm_count: int) -> bool:
    blocks = one.grid[0] * one.grid[1] * one.grid[2]
    return bool(one.kind == EntryKind.KERNEL and 0 < one.blocks_per_sm * sm_count < blocks)


def _refused(report: Report) -> LaunchFailed | None:
    refused = report.refused
    if refused.error == 0:
        return None
    name = _printable(bytes(refused.kernel))
    return LaunchFailed(
        kernel=name if name.isidentifier() else "",
        error=error_name(refused.error),
        limit=_limit(refused),
        launch=LaunchShape(
            grid=tuple(refused.grid),
            block=tuple(refused.block),
            dynamic_shared_bytes=refused.dynamic_shared_bytes,
        ),
    )


def _limit(refused: RefusedCall) -> ExceededLimit | None:
    name = _LIMITS[refused.limit] if refused.limit < len(_LIMITS) else None
    if name is None or refused.axis >= len(_AXES):
        return None
    is_shared = name == "shared-memory"
    return ExceededLimit(
        name=name,
        asked=refused.asked,
        allowed=refused.allowed,
        axis=_AXES[refused.axis] if name in {"grid-extent", "block-extent"} else None,
        static_bytes=refused.static_shared_bytes if is_shared else None,
        most_bytes=refused.most_shared_bytes or None if is_shared else None,
    )


def _out_of_memory(report: Report) -> OutOfMemory | None:
    if not report.allocation_failed:
        return None
    return OutOfMemory(
        request="cudaMalloc",
        bytes=report.refused_bytes,
        allowed_bytes=report.allowed_bytes,
        bound="quota",
    )
