"""Reading what the shim noted of a call. A candidate may have written it: every number is checked,
nothing here raises, and nothing here is ranked by.
"""

import ctypes
from dataclasses import dataclass

from cuda_llm.outcomes import LaunchFailed, OutOfMemory
from cuda_llm.tools.gpu.cuda_errors import error_name
from cuda_llm.tools.gpu.protocol import (
    LOG_ENTRIES,
    NO_TEXT,
    REPORT_MAGIC,
    TEXT_BYTES,
    EntryKind,
    LogEntry,
    Report,
)
from cuda_llm.tools.profiler.measured.launch_log import LaunchKind, LoggedLaunch

REPORT_BYTES = ctypes.sizeof(Report)
_KINDS = {
    EntryKind.KERNEL: LaunchKind.KERNEL,
    EntryKind.COPY: LaunchKind.COPY,
    EntryKind.SET: LaunchKind.SET,
}
_MOST_BLOCKS = (2**31 - 1, 65535, 65535)
_MOST_THREADS = 1024
_MOST_NAME = 512


@dataclass(frozen=True, kw_only=True)
class CallLog:
    """What a call or capture of `solve` asked of the GPU, as the runner tells it."""

    launches: int = 0
    """Of kernels, logged or not."""
    entries: tuple[LoggedLaunch, ...] = ()
    complete: bool = True
    """False when there was more than a report holds, or what it held made no sense."""
    refused: LaunchFailed | None = None
    """The first launch that CUDA refused. The candidate may have found another way."""
    out_of_memory: OutOfMemory | None = None
    """An allocation was refused. The candidate may have coped with that."""
    crowded: str = ""
    """Symbol of a kernel with more blocks than fit at once."""
    waiting: bool = False
    """The GPU was being waited for."""


def read_report(raw: bytes, sm_count: int) -> CallLog:
    """Decode a report of a chip with `sm_count` SMs."""
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
    """None where it cannot be."""
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
    said = text[one.name : one.name + _MOST_NAME].split(b"\0", 1)[0]
    return "".join(c for c in said.decode(errors="replace") if c.isprintable())


def _is_crowded(one: LogEntry, sm_count: int) -> bool:
    blocks = one.grid[0] * one.grid[1] * one.grid[2]
    return bool(one.kind == EntryKind.KERNEL and 0 < one.blocks_per_sm * sm_count < blocks)


def _refused(report: Report) -> LaunchFailed | None:
    """The shim says `symbol: why`, or why alone."""
    number = report.refused.error
    if number == 0:
        return None
    said = bytes(report.refused.detail).decode(errors="replace")
    symbol, colon, why = said.partition(": ")
    named = bool(colon) and symbol.isidentifier()
    return LaunchFailed(
        kernel=symbol if named else "",
        error=error_name(number),
        detail=why if named else said,
    )


def _out_of_memory(report: Report) -> OutOfMemory | None:
    if not report.allocation_failed:
        return None
    size = f"{report.refused_bytes:,} bytes"
    return OutOfMemory(detail=f"cudaMalloc of {size}: its quota is used up")
