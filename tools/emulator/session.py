"""A session of a candidate on the emulated device: buffers in shared memory, calls and verdicts."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cuda_llm.each_loop import EachLoop
from cuda_llm.outcomes import DependentLaunch, InfraFailed, UninitialisedRead, Verdict
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer, Role
from cuda_llm.tools.device.channel import SharedMemory
from cuda_llm.tools.device.protocol import MAX_BUFFERS, CallFrame, ReplyFrame
from cuda_llm.tools.device.runner import Runner, RunnerEnded, UnexpectedReply
from cuda_llm.tools.emulator.call_report import LoadedCandidate, call_report, verdict_on_end
from cuda_llm.tools.emulator.report import CallRecord, read_report

ARENA_BYTES = 16 << 30
"""Virtual; only pages that are written exist."""
GUARD_BYTES = 4096
_TRACKING_COST = 20
"""Multiple of its time limit that a call may take where undefined values are tracked."""
_PAGE_BYTES = 4096
_ALIGNMENT = 256
CERTAIN_BYTES = 1 << 20
"""Room for the ranges of outputs that a sampled call is sure of."""
_LEVELS = {Level.CHECK: 0, Level.ACCOUNT: 1, Level.FULL: 2, Level.SAMPLE: 3}
_ROLES = {Role.IN: 0, Role.OUT: 1, Role.INOUT: 2, Role.WORKSPACE: 1}
_BACK_EDGES_PER_S = 200_000_000
"""Allowed loop iterations per second of a call's time limit: more than any machine emulates, so
that the time limit ends an endless launch."""
_CERTAIN = BufferSpec(
    name="ranges of certain bytes", role=Role.OUT, dtype="uint64", shape=(CERTAIN_BYTES // 8,)
)
_core_slots = EachLoop[asyncio.Semaphore]()


def core_slot() -> asyncio.Semaphore:
    """Return the semaphore to hold while a runner computes; it has a slot for each core of this
    process.

    Calls hold slots, sessions do not: a session in use may wait for another session without end.
    """
    return _core_slots.here(lambda: asyncio.Semaphore(len(os.sched_getaffinity(0))))


class ArenaLayout:
    """The buffers of the present calls in an arena."""

    def __init__(self, arena: SharedMemory) -> None:
        self._arena = arena
        self._end = 0
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
        self.offsets, self._end = offsets, cursor
        return placed

    def _bytes(self, begin: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        return np.frombuffer(self._arena.map, np.uint8, end - begin, begin)


def mixed(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Return `emu::mixed` of each: by it the runtime chooses the page of a pool."""
    x = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True, kw_only=True)
class StartedCandidate:
    """A candidate, and the runner that has loaded it."""

    loaded: LoadedCandidate
    runner: Runner


def _replied(outcome: ReplyFrame | RunnerEnded | UnexpectedReply) -> bool:
    return isinstance(outcome, ReplyFrame)


class EmulatedSession:
    """A session of a candidate on the emulated device: a runner, its arena and its report."""

    def __init__(
        self,
        started: StartedCandidate,
        start_tracking: Callable[[], Awaitable[StartedCandidate | Verdict]],
        arena: SharedMemory,
        report: SharedMemory,
    ) -> None:
        """`start_tracking` starts the candidate once more, in code that tracks undefined values."""
        self._start_tracking = start_tracking
        self._usual = started
        self._use(started)
        self._arena = arena
        self._report = report
        self._layout = ArenaLayout(arena)
        self._buffers: tuple[BufferSpec, ...] = ()
        self._pools: Mapping[str, BufferSpec] = {}
        """Pool whose contents fill the pages of a buffer, by the buffer's name."""
        self._contents: Mapping[str, npt.NDArray[np.uint8]] = {}
        """Private copies of the pools."""
        self._certain: npt.NDArray[np.uint64] = np.zeros(1, np.uint64)
        self._sequence = 0
        self._verdict: Verdict | None = None

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls. New buffers and guards are zero."""
        return self.place_unfilled(buffers, {})

    def place_unfilled(
        self, buffers: Sequence[BufferSpec], pools: Mapping[str, bytes]
    ) -> dict[str, PlacedBuffer]:
        """Lay out buffers; pages of the buffers named in `pools` are filled from their pool when
        first touched. Raises ValueError for more than MAX_BUFFERS buffers."""
        if len(buffers) > MAX_BUFFERS:
            raise ValueError(f"more than {MAX_BUFFERS} buffers")
        pool_specs = {
            name: BufferSpec(
                name=f"pool of {name}", role=Role.IN, dtype="uint8", shape=(len(pool),)
            )
            for name, pool in pools.items()
        }
        placed = self._layout.place([*buffers, *pool_specs.values(), _CERTAIN])
        self._buffers, self._pools = tuple(buffers), pool_specs
        self._contents = {name: np.frombuffer(pool, np.uint8) for name, pool in pools.items()}
        self._certain = placed.pop(_CERTAIN.name).data
        for name, pool in pools.items():
            placed.pop(pool_specs[name].name).data[:] = np.frombuffer(pool, np.uint8)
        return placed

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Call `solve` once and wait. After a verdict the runner has ended: every later call
        returns the same verdict."""
        outcome = await self.sample(arguments, options)
        if not isinstance(outcome, DependentLaunch):
            return outcome
        self._verdict = InfraFailed(component="device", detail="a launch was sampled unasked")
        return self._verdict

    async def sample(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | DependentLaunch | Verdict:
        """Call `solve` once; at level `sample` a launch that needs all blocks ends the session with
        a DependentLaunch."""
        if self._verdict is not None:
            return self._verdict
        if options.tracks and not self.tracks and await self._track({}):
            return await self._trace(arguments, options)
        kept = self._keep_updated()
        outcome, record, wall_s = await self._exchange(arguments, options)
        if self._may_matter(record, options.level):
            found = record
            if await self._track(kept):
                outcome, record, wall_s = await self._exchange(arguments, options)
            if isinstance(record, CallRecord) and record.fault is None and not _replied(outcome):
                # Out of time, or worse: what is known is the read.
                record = found
        return self._conclude(outcome, record, wall_s, options)

    async def _trace(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | DependentLaunch | Verdict:
        """Make a single call in code that tracks undefined values. The session goes on as before,
        unless the call finds one that matters."""
        result = self._conclude(*await self._exchange(arguments, options), options)
        if not isinstance(result, UninitialisedRead):
            self._use(self._usual)
            self._verdict = None
        return result

    def _conclude(
        self,
        outcome: ReplyFrame | RunnerEnded | UnexpectedReply,
        record: CallRecord | InfraFailed,
        wall_s: float,
        options: CallOptions,
    ) -> CallReport | DependentLaunch | Verdict:
        if isinstance(record, CallRecord) and record.dependent is not None:
            return record.dependent
        if not isinstance(outcome, ReplyFrame):
            self._verdict = verdict_on_end(outcome, record, self._loaded, options.limit_s)
            return self._verdict
        if isinstance(record, InfraFailed):
            self._verdict = record
            return record
        report = call_report(record, self._loaded, wall_s)
        if not isinstance(report, CallReport):
            self._verdict = report
        return report

    @property
    def tracks(self) -> bool:
        """Whether a call has met an undefined value, so that the later ones track them."""
        return self._started is not self._usual

    def _use(self, started: StartedCandidate) -> None:
        self._started = started
        self._loaded = started.loaded
        self._tables = started.loaded.named_tables()
        self._runner = started.runner

    async def _exchange(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> tuple[ReplyFrame | RunnerEnded | UnexpectedReply, CallRecord | InfraFailed, float]:
        frame = self._frame(arguments, options)
        limit_s = options.limit_s * (_TRACKING_COST if self.tracks else 1)
        async with core_slot():
            started = time.monotonic()
            outcome = await self._runner.exchange(frame, limit_s)
            wall_s = time.monotonic() - started
        return outcome, self._read_report(), wall_s

    def _may_matter(self, record: CallRecord | InfraFailed, level: Level) -> bool:
        """Return whether a call ended at a read of an undefined value, which may decide nothing."""
        is_read = isinstance(record, CallRecord) and isinstance(record.fault, UninitialisedRead)
        return is_read and not self.tracks and level is not Level.SAMPLE

    async def _track(self, kept: Mapping[str, bytes]) -> bool:
        """Go on with code that tracks undefined values, as before the call that failed; return
        whether that is possible."""
        started = await self._start_tracking()
        if not isinstance(started, StartedCandidate):
            return False
        for name, data in kept.items():
            begin = self._layout.offsets[name]
            self._arena.map[begin : begin + len(data)] = data
        self._use(started)
        return True

    def _keep_updated(self) -> dict[str, bytes]:
        """Return copies of the buffers that a call updates; pages filled from a pool are filled
        again by another runner."""
        if self.tracks:
            return {}
        kept = {}
        for spec in self._buffers:
            if spec.role is Role.INOUT and spec.name not in self._pools:
                begin = self._layout.offsets[spec.name]
                kept[spec.name] = bytes(self._arena.map[begin : begin + spec.nbytes])
        return kept

    def certain_ranges(self, name: str) -> npt.NDArray[np.int64]:
        """Return which bytes of an output the last sampled call is sure of, as rows of begin and
        end: what they hold is what a call of all blocks would leave there."""
        spec = next(one for one in self._buffers if one.name == name)
        count = min(int(self._certain[0]), (self._certain.size - 1) // 2)
        rows = self._certain[1 : 1 + 2 * count].astype(np.int64).reshape(count, 2)
        begins = rows[:, 0] - self._layout.offsets[name]
        ranges = np.stack([begins, begins + rows[:, 1]], axis=1).clip(0, spec.nbytes)
        return ranges[ranges[:, 0] < ranges[:, 1]]

    def unfilled_elements(self, name: str, indices: Array) -> Array:
        """Return what a kernel finds in a buffer that a pool fills, at these flat indices."""
        spec = next(one for one in self._buffers if one.name == name)
        dtype = np.dtype(spec.dtype)
        pool = self._contents[name].view(dtype)
        at = self._layout.offsets[name] + indices * dtype.itemsize
        pages = mixed(at // _PAGE_BYTES) % np.uint64(pool.nbytes // _PAGE_BYTES)
        inside = at % _PAGE_BYTES // dtype.itemsize
        return pool[pages.astype(np.int64) * (_PAGE_BYTES // dtype.itemsize) + inside]

    def _frame(self, arguments: Sequence[Argument], options: CallOptions) -> CallFrame:
        self._sequence += 1
        frame = CallFrame(
            sequence=self._sequence,
            level=_LEVELS[options.level],
            schedule_seed=options.schedule_seed,
            scratch_bytes=options.scratch_bytes,
            fuel=options.most_back_edges or max(1, round(options.limit_s * _BACK_EDGES_PER_S)),
            device_to_host=options.device_to_host,
            sample_cost=options.sample_cost,
            buffer_count=len(self._buffers),
        )
        put_arguments(frame, arguments, self._layout.offsets)
        if options.level is Level.SAMPLE:
            frame.certain_offset = self._layout.offsets[_CERTAIN.name]
            frame.certain_bytes = _CERTAIN.nbytes
        for index, spec in enumerate(self._buffers):
            buffer = frame.buffers[index]
            buffer.offset = self._layout.offsets[spec.name]
            buffer.bytes = spec.nbytes
            buffer.role = _ROLES[spec.role]
            buffer.index = index
            pool = self._pools.get(spec.name)
            if pool is not None:
                buffer.pool_offset = self._layout.offsets[pool.name]
                buffer.pool_bytes = pool.nbytes
        return frame

    def _read_report(self) -> CallRecord | InfraFailed:
        names = [spec.name for spec in self._buffers]
        return read_report(memoryview(self._report.map), self._tables, names)
