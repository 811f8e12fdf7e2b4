"""One candidate on the emulated device."""

import hashlib
import time
from collections.abc import Sequence

from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer, Role
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level
from cuda_llm.tools.devices.arena import Layout
from cuda_llm.tools.devices.call_report import call_report
from cuda_llm.tools.devices.endings import ending
from cuda_llm.tools.devices.loaded import Loaded
from cuda_llm.tools.devices.pool import call_slot
from cuda_llm.tools.emulator.report import CallRecord, read_report
from cuda_llm.tools.runner.memory import SharedMemory
from cuda_llm.tools.runner.process import Runner
from cuda_llm.tools.runner.protocol import MAX_BUFFERS, CallFrame, ReplyFrame, put_arguments

_LEVELS = {Level.CHECK: 0, Level.ACCOUNT: 1, Level.FULL: 2}
_ROLES = {Role.IN: 0, Role.OUT: 1, Role.INOUT: 2}
_BACK_EDGES_PER_S = 200_000_000
"""More than any machine emulates: the clock decides what is endless, not this."""


class EmulatedSession:
    """A `Session`: one runner, its arena and its report."""

    def __init__(
        self, loaded: Loaded, runner: Runner, arena: SharedMemory, report: SharedMemory
    ) -> None:
        self._loaded = loaded
        self._tables = loaded.named_tables()
        self._runner = runner
        self._report = report
        self._layout = Layout(arena)
        self._sequence = 0
        # The same for the same code, so that times repeat; nothing a kernel could know of itself.
        digest = hashlib.blake2b(loaded.candidate.key.encode(), digest_size=4).digest()
        self._sample_seed = int.from_bytes(digest, "little") | 1
        self._over: Verdict | None = None

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """See `Session.place`. New buffers and guards are zero."""
        if len(buffers) > MAX_BUFFERS:
            raise ValueError(f"more than {MAX_BUFFERS} buffers")
        return self._layout.place(buffers)

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """See `Session.call`. After a verdict the runner is gone: every later call returns it."""
        if self._over is not None:
            return self._over
        frame = self._frame(arguments, options)
        async with call_slot():
            started = time.monotonic()
            outcome = await self._runner.exchange(frame, options.limit_s)
            wall_s = time.monotonic() - started
        record = self._read_report()
        if not isinstance(outcome, ReplyFrame):
            self._over = ending(outcome, record, options.limit_s)
            return self._over
        if isinstance(record, InfraFailed):
            self._over = record
            return record
        report = call_report(record, self._loaded, wall_s)
        if not isinstance(report, CallReport):
            self._over = report
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
            sample_seed=self._sample_seed,
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
