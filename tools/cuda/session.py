"""A session of one candidate on a GPU: places the buffers and calls `solve`."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.layout import SessionMemory, SlotLayout
from cuda_llm.tools.cuda.memory import Memory
from cuda_llm.tools.cuda.protocol import GpuCallFrame
from cuda_llm.tools.cuda.runner import ORDERS, Frame
from cuda_llm.tools.cuda.sealing import Sealing
from cuda_llm.tools.cuda.session_resources import LoadedRunner
from cuda_llm.tools.cuda.verdicts import CallContext, verdict_on_end
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level
from cuda_llm.tools.device.buffers import BufferSpec, PlacedBuffer
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.protocol import ReplyFrame
from cuda_llm.tools.device.runner import do_nothing
from cuda_llm.tools.device.verdicts import call_notes
from cuda_llm.tools.profiler.launch_log import launch_profiles

LoadInto = Callable[[Memory], Awaitable[LoadedRunner | Verdict]]
"""Have the candidate loaded in a runner that shares this memory."""


@dataclass(frozen=True, kw_only=True)
class SessionContext:
    """Parts of the site that a session uses: candidate, hardware, sealing, loading and memory."""

    candidate: Compiled
    hardware: Hardware
    sealing: Sealing
    load: LoadInto
    prepare: Callable[[Memory, SlotLayout], Awaitable[None]]
    """Free enough memory for a layout that replaces the session's present memory."""
    settle: Callable[[], Awaitable[None]]
    """Wait until the site runs nothing beside the calls that are timed."""
    before_untimed: Callable[[], None]
    """Called before an untimed call, beside which other processes may be started."""
    notes: tuple[str, ...] = ()


class GpuSession:
    """A session of one candidate: one runner and its arena."""

    def __init__(self, context: SessionContext, loaded: LoadedRunner, arena: SessionMemory) -> None:
        self._context = context
        self._loaded = loaded
        self.arena = arena
        self._names = context.candidate.kernel_names
        self._verdict: Verdict | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The verdict that ended the session; None while the session can be used."""
        return self._verdict

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls. Buffers hold the previous contents of the memory,
        or random bytes."""
        return self.arena.place(buffers)

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Call `solve` once and wait. After a verdict the runner has ended: every later call
        returns the same verdict."""
        frame = GpuCallFrame()
        self.arena.fill_solve(frame.solve, arguments, options)
        self._context.before_untimed()
        started = time.monotonic()
        reply = await self._send_order(frame, options.limit_s)
        wall_s = time.monotonic() - started
        if not isinstance(reply, ReplyFrame):
            return reply
        log = self._loaded.runner.read_log().with_kernel_names(self._names)
        failure = (log.refused or log.out_of_memory) if log.launches == 0 else None
        if failure is not None:
            self._verdict = failure
            return failure
        return self._report(log, options, wall_s)

    async def _send_order(
        self,
        frame: Frame,
        limit_s: float,
        *,
        spinning: bool = False,
        in_graph: bool = False,
        meanwhile: Callable[[], None] = do_nothing,
    ) -> ReplyFrame | Verdict:
        """Return the runner's reply, or the verdict that ends the session.

        `in_graph`: a batch runs, and no write of ours has to be waited for. `meanwhile`: see
        `GpuRunner.order`.
        """
        if self._verdict is not None:
            return self._verdict
        if self._loaded.memory is not self.arena.memory:
            loaded = await self._context.load(self.arena.memory)
            if not isinstance(loaded, LoadedRunner):
                self._verdict = loaded
                return loaded
            self._loaded = loaded
        if not in_graph:
            self.arena.memory.finish()
        runner = self._loaded.runner
        outcome = await runner.order(frame, limit_s, spinning=spinning, meanwhile=meanwhile)
        if isinstance(outcome, ReplyFrame):
            return outcome
        base = self._loaded.base
        context = CallContext(
            log=runner.read_log(),
            limit_s=limit_s,
            order=ORDERS[type(frame)],
            arena=range(base, base + self.arena.memory.size_bytes),
            names=self._names,
            in_graph=in_graph,
        )
        self._verdict = verdict_on_end(outcome, context)
        return self._verdict

    def _report(self, log: CallLog, options: CallOptions, wall_s: float) -> CallReport:
        context = self._context
        entries = log.entries if options.level is not Level.CHECK else ()
        notes = call_notes(log.launches)
        if not log.complete:
            notes["launch-log"] = "not every launch could be logged"
        if context.notes:
            notes["isolation"] = "; ".join(context.notes)
        return CallReport(
            wall_s=wall_s,
            kernels=log.launches,
            launches=launch_profiles(entries, context.candidate.kernels, context.hardware),
            refused=log.refused,
            out_of_memory=log.out_of_memory,
            notes=notes,
        )
