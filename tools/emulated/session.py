"""One candidate on the emulated device: its buffers in shared memory, its calls, their verdicts."""

import asyncio
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.failures import TimedOut
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import HostCrashed, InfraFailed, Quarantined, Verdict
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level
from cuda_llm.tools.device.buffers import BufferSpec, PlacedBuffer, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.counters import LaunchCounters
from cuda_llm.tools.emulator.report import CallRecord, read_report
from cuda_llm.tools.emulator.tables import KernelTable, Translated
from cuda_llm.tools.profiler.explain_modelled import copies_profile, explain_call
from cuda_llm.tools.runner.arguments import put_arguments
from cuda_llm.tools.runner.channel import SharedMemory
from cuda_llm.tools.runner.protocol import MAX_BUFFERS, CallFrame, Reply, ReplyFrame
from cuda_llm.tools.runner.runner import Ended, Runner, UnexpectedReply
from cuda_llm.tools.runner.verdicts import FORGED, call_notes, denied_call, signal_name

ARENA_BYTES = 16 << 30
"""Virtual; only pages that are written exist."""
GUARD_BYTES = 4096
_PAGE_BYTES = 4096
_ALIGNMENT = 256
_LEVELS = {Level.CHECK: 0, Level.ACCOUNT: 1, Level.FULL: 2}
_ROLES = {Role.IN: 0, Role.OUT: 1, Role.INOUT: 2}
_BACK_EDGES_PER_S = 200_000_000
"""More than any machine emulates: the clock decides what is endless, not this."""
_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    weakref.WeakKeyDictionary()
)


def core_slot() -> asyncio.Semaphore:
    """Return what to hold while a runner computes: as many slots as this process has cores.

    Calls hold slots, sessions do not: a session in use may wait for another one without end.
    """
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(len(os.sched_getaffinity(0)))
    return _slots[loop]


class ArenaLayout:
    """The buffers of the present calls in an arena."""

    def __init__(self, arena: SharedMemory) -> None:
        self._arena = arena
        self._end = 0
        self.specs: tuple[BufferSpec, ...] = ()
        self.offsets: Mapping[str, int] = {}

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay the buffers out anew, each 256-byte aligned between two guards.

        Everything that lay there before is gone; new buffers and guards are zero. Raises ValueError
        where two buffers share a name, or where all together are larger than the arena.
        """
        self._arena.discard(0, self._end)
        offsets: dict[str, int] = {}
        placed: dict[str, PlacedBuffer] = {}
        cursor = _PAGE_BYTES
        for spec in buffers:
            if spec.name in placed:
                raise ValueError(f"two buffers are called {spec.name}")
            begin = _round_up(cursor + GUARD_BYTES, _ALIGNMENT) + spec.shift_bytes
            end = begin + spec.nbytes
            after = _round_up(end + GUARD_BYTES, _PAGE_BYTES)
            if after > self._arena.size:
                raise ValueError(f"{spec.name} does not fit into {self._arena.size} bytes")
            offsets[spec.name] = begin
            placed[spec.name] = PlacedBuffer(
                spec=spec,
                data=self._bytes(begin, end).view(spec.dtype).reshape(spec.shape),
                guard_before=self._bytes(cursor, begin),
                guard_after=self._bytes(end, after),
            )
            cursor = after
        self.specs, self.offsets, self._end = tuple(buffers), offsets, cursor
        return placed

    def _bytes(self, begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(self._arena.map, np.uint8, end - begin, begin)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True, kw_only=True)
class LoadedCandidate:
    """A candidate, its kernels as the emulated device runs them, and the GPU it stands for."""

    candidate: Compiled
    translated: Translated
    hardware: Hardware

    def named_tables(self) -> tuple[KernelTable, ...]:
        """Return the kernels' tables under the names of their source."""
        names = self.candidate.kernel_names
        return tuple(
            replace(table, symbol=names.get(table.symbol, table.symbol))
            for table in self.translated.kernels
        )


class EmulatedSession:
    """A `Session`: one runner, its arena and its report."""

    def __init__(
        self, loaded: LoadedCandidate, runner: Runner, arena: SharedMemory, report: SharedMemory
    ) -> None:
        self._loaded = loaded
        self._tables = loaded.named_tables()
        self._runner = runner
        self._report = report
        self._layout = ArenaLayout(arena)
        self._sequence = 0
        self._verdict: Verdict | None = None

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """See `Session.place`. New buffers and guards are zero."""
        if len(buffers) > MAX_BUFFERS:
            raise ValueError(f"more than {MAX_BUFFERS} buffers")
        return self._layout.place(buffers)

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """See `Session.call`. After a verdict the runner is gone: every later call returns it."""
        if self._verdict is not None:
            return self._verdict
        frame = self._frame(arguments, options)
        async with core_slot():
            started = time.monotonic()
            outcome = await self._runner.exchange(frame, options.limit_s)
            wall_s = time.monotonic() - started
        record = self._read_report()
        if not isinstance(outcome, ReplyFrame):
            self._verdict = verdict_on_end(outcome, record, options.limit_s)
            return self._verdict
        if isinstance(record, InfraFailed):
            self._verdict = record
            return record
        report = call_report(record, self._loaded, wall_s)
        if not isinstance(report, CallReport):
            self._verdict = report
        return report

    def _frame(self, arguments: Sequence[Argument], options: CallOptions) -> CallFrame:
        self._sequence += 1
        frame = CallFrame(
            sequence=self._sequence,
            level=_LEVELS[options.level],
            schedule_seed=options.schedule_seed,
            scratch_bytes=options.scratch_bytes,
            fuel=max(1, round(options.limit_s * _BACK_EDGES_PER_S)),
            device_to_host=options.device_to_host,
            buffer_count=len(self._layout.specs),
        )
        put_arguments(frame, arguments, self._layout.offsets)
        for index, spec in enumerate(self._layout.specs):
            buffer = frame.buffers[index]
            buffer.offset = self._layout.offsets[spec.name]
            buffer.bytes = spec.nbytes
            buffer.role = _ROLES[spec.role]
            buffer.index = index
        return frame

    def _read_report(self) -> CallRecord | InfraFailed:
        names = [spec.name for spec in self._layout.specs]
        return read_report(memoryview(self._report.map), self._tables, names)


@dataclass(frozen=True, kw_only=True)
class EmulatedCallReport(CallReport):
    """A call that came back, and what was counted of it."""

    accounts: tuple[LaunchCounters, ...] = ()
    """One a launch: the evidence for `launches`. Empty where they were not counted."""


def call_report(record: CallRecord, loaded: LoadedCandidate, wall_s: float) -> CallReport | Verdict:
    """Return the report of a call, or the verdict on a fault that the candidate did not end for."""
    if record.fault is not None:
        return record.fault
    if record.refused is not None and record.launches == 0:
        return record.refused
    if record.out_of_memory is not None and record.launches == 0:
        return record.out_of_memory
    notes = call_notes(record.launches)
    if not record.accounts:
        return CallReport(
            wall_s=wall_s,
            kernels=record.launches,
            refused=record.refused,
            out_of_memory=record.out_of_memory,
            output=record.output,
            notes=notes,
        )
    if not record.complete:
        return Quarantined(kind="uncounted-launches", launches=record.launches)
    copies = copies_profile(
        record.copies,
        record.copied_bytes,
        record.host_bytes,
        loaded.hardware,
        pieces=record.pieces,
    )
    explained = explain_call(
        record.accounts, loaded.translated.kernels, loaded.candidate.kernels, loaded.hardware
    )
    return EmulatedCallReport(
        wall_s=wall_s,
        time_us=explained.time_us + sum(one.time_us for one in copies),
        launches=(*explained.launches, *copies),
        bottlenecks=explained.bottlenecks,
        accounts=record.accounts,
        stored_bytes=_stored_bytes(record, loaded.translated.kernels),
        refused=record.refused,
        out_of_memory=record.out_of_memory,
        output=record.output,
        notes=notes,
    )


def _stored_bytes(record: CallRecord, tables: Sequence[KernelTable]) -> int:
    stored = sum(
        count.lanes * site.bytes
        for account in record.accounts
        for site, count in zip(tables[account.kernel].sites, account.sites, strict=True)
        if site.kind in ("store", "atomic", "bulk_store") and site.space in ("global", "generic")
    )
    return round(stored) + record.copied_bytes


def verdict_on_end(
    outcome: Ended | UnexpectedReply, record: CallRecord | InfraFailed, limit_s: float
) -> Verdict:
    """Return the verdict on a runner that has ended, and on the report it left."""
    if isinstance(outcome, UnexpectedReply):
        return FORGED
    if isinstance(record, CallRecord):
        if record.fault is not None:
            return _fault(record, record.fault, limit_s)
        if record.running:
            return _in_kernel(outcome, record, limit_s)
        if record.out_of_memory is not None and not outcome.expired:
            return record.out_of_memory
    if outcome.final_reply is not None and outcome.final_reply.is_last:
        return _on_final_reply(outcome.final_reply)
    if outcome.expired:
        return TimedOut(stage="host", limit_s=limit_s)
    if outcome.status >= 0:
        return HostCrashed(signal="exit", status=outcome.status)
    return HostCrashed(signal=signal_name(-outcome.status), killed=True)


def _fault(record: CallRecord, fault: Verdict, limit_s: float) -> Verdict:
    if isinstance(fault, TimedOut):
        return replace(fault, limit_s=limit_s)
    # Using the pointer of an allocation that was refused is not where things went wrong.
    if record.out_of_memory is not None and not isinstance(fault, InfraFailed):
        return record.out_of_memory
    return fault


def _in_kernel(outcome: Ended, record: CallRecord, limit_s: float) -> Verdict:
    if outcome.expired:
        return TimedOut(
            stage="kernel", limit_s=limit_s, kernel=record.running, spot=record.running_at
        )
    reply = outcome.final_reply
    how = f"signal {reply.number}" if reply is not None else f"status {outcome.status}"
    return InfraFailed(
        component="device", detail=f"the emulated device died in {record.running}: {how}"
    )


def _on_final_reply(reply: ReplyFrame) -> Verdict:
    if reply.reply == Reply.BROKEN:
        return InfraFailed(component="runner", detail=reply.text)
    if reply.reply == Reply.DENIED:
        return denied_call(reply)
    name = signal_name(reply.number)
    touched = reply.address if name in {"SIGSEGV", "SIGBUS"} else None
    return HostCrashed(signal=name, address=touched)
