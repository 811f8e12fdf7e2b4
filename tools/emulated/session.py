"""One candidate on the emulated device: its runner, its buffers in shared memory, its calls."""

import asyncio
import os
import socket
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level
from cuda_llm.tools.device.buffers import BufferSpec, PlacedBuffer, Role
from cuda_llm.tools.emulated.outcome import LoadedCandidate, call_report, verdict_on_end
from cuda_llm.tools.emulator.report import CallRecord, read_report
from cuda_llm.tools.native import build
from cuda_llm.tools.runner.child import RunnerSocket, SharedMemory, spawn
from cuda_llm.tools.runner.protocol import MAX_BUFFERS, CallFrame, ReplyFrame, put_arguments
from cuda_llm.tools.runner.runner import Runner

_TOOLS = Path(__file__).parent.parent
_NATIVE = _TOOLS / "runner" / "native"
_SANDBOX = _TOOLS / "sandbox" / "native"
_SANDBOX_PARTS = ("calls", "filter", "landlock", "limits", "seccomp", "violation")
_RUNTIME = _TOOLS / "emulator" / "runtime"


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
            begin = _round_up(cursor + GUARD_BYTES, _ALIGNMENT)
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
class Libraries:
    """What the two parts of a runner of the emulated device load, in this order each."""

    emulator: Path
    kernels: Path
    cudart: Path
    candidate: Path


def start_emulated_runner(program: Path, libraries: Libraries, arena: int, report: int) -> Runner:
    """Start both parts of a runner, each with its own group and empty folder, and a link between.

    The memory files and our socket go to the device part alone. No environment and no other
    descriptor of ours goes along. Raises InfrastructureError where one cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link, far_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    with theirs, link, far_link:
        device = (theirs.fileno(), link.fileno(), parent, arena, report)
        host = (far_link.fileno(), parent)
        try:
            first = spawn(
                [program, "device", *map(str, device), libraries.emulator, libraries.kernels],
                (theirs.fileno(), link.fileno(), arena, report),
            )
            try:
                second = spawn(
                    [program, "host", *map(str, host), libraries.cudart, libraries.candidate],
                    (far_link.fileno(),),
                )
            except BaseException:
                first.process.kill()
                first.process.wait()
                raise
        except OSError as error:
            ours.close()
            raise InfrastructureError("runner", f"cannot be started: {error}") from error
    return Runner(first, [second], RunnerSocket(ours), alarm=True)


def runner_program() -> Path:
    """Path of the runner. Raises MissingError without g++."""
    sandbox = [_SANDBOX / f"{part}.c" for part in _SANDBOX_PARTS]
    sources = [*sorted(_NATIVE.glob("*.cpp")), *sandbox]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{folder}" for folder in (_NATIVE, _RUNTIME, _SANDBOX)]
    # What candidates need is in the process before it is confined: they open no file but their own.
    libraries = ["-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s", "-ldl", "-Wl,-z,now"]
    watch = [_NATIVE, _SANDBOX, _RUNTIME / "emu"]
    return build("runner", sources, [*flags, *includes, *libraries], watch)
