"""What one session holds of its site: a runner, and memory, given back together."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import LoadFailed, Verdict
from cuda_llm.tools.gpu.arenas import Arenas
from cuda_llm.tools.gpu.endings import Scene, ending, load_failure
from cuda_llm.tools.gpu.flush import Flush
from cuda_llm.tools.gpu.layout import Layout
from cuda_llm.tools.gpu.memory import UNIT_BYTES, ArenaFull, Memory
from cuda_llm.tools.gpu.process import GpuRunner
from cuda_llm.tools.gpu.protocol import Reply, ReplyFrame, StartFrame
from cuda_llm.tools.gpu.session import Reached
from cuda_llm.tools.gpu.spares import Spares

LOAD_LIMIT_S = 20.0
_MOST_PATH_BYTES = 1023


class Lodging:
    """Taken by `load`, given back by `release`."""

    def __init__(
        self,
        library: Path,
        pool: Spares,
        memory_pool: Arenas,
        make_room: Callable[[int], Awaitable[None]],
        flush: Flush,
    ) -> None:
        """`make_room` has others give back what they can do without, before so much is lent."""
        self._library = os.fsencode(library)
        self._pool = pool
        self._memory_pool = memory_pool
        self._make_room = make_room
        self._flush = flush
        self._runner: GpuRunner | None = None
        self._lent: list[Memory] = []

    @property
    def held_bytes(self) -> int:
        """Device memory it has been lent."""
        return sum(memory.size_bytes for memory in self._lent)

    @property
    def is_alive(self) -> bool:
        """Whether its runner is."""
        return self._runner is not None and self._runner.is_alive

    async def load(self, wanted_bytes: int) -> Reached | Verdict:
        """Load the candidate in a fresh runner with memory of about this size.

        Raises InfrastructureError where not even a little device memory is to be had.
        """
        if len(self._library) > _MOST_PATH_BYTES:
            return LoadFailed(detail=f"its path is longer than {_MOST_PATH_BYTES} bytes")
        self._runner = await self._pool.take()
        memory = self._runner.memory
        if memory is not None:
            return await self._start(self._runner, memory)
        await self._make_room(wanted_bytes)
        try:
            lent = self._memory_pool.lend(wanted_bytes, UNIT_BYTES)
        except ArenaFull as error:
            raise InfrastructureError("device", str(error)) from error
        self._lent.append(lent)
        return await self._start(self._runner, lent)

    async def load_in(self, memory: Memory) -> Reached | Verdict:
        """Have the runner see this memory instead of what it was started with."""
        assert self._runner is not None
        return await self._start(self._runner, memory)

    async def prepare(self, memory: Memory, layout: Layout) -> None:
        """Have `grow` find all that the layout wants, if it can be had."""
        fixed = self._runner is not None and memory is self._runner.memory
        if not fixed and layout.wanted_bytes > memory.size_bytes:
            await self._make_room(layout.wanted_bytes)

    def grow(self, memory: Memory, layout: Layout) -> Memory:
        """Memory for a layout. Raises ArenaFull."""
        if self._runner is not None and memory is self._runner.memory:
            layout.within(memory.size_bytes)
            return memory
        try:
            least = max(layout.least_bytes, memory.size_bytes + 1)
            larger = self._memory_pool.lend(layout.wanted_bytes, least)
        except ArenaFull:
            if layout.least_bytes > memory.size_bytes:
                raise
            return memory
        self._lent.append(larger)
        return larger

    async def release(self) -> None:
        """End the runner, then give back all it saw. Raises DeviceLost where it does not go."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.stop()
        while self._lent:
            self._memory_pool.take_back(self._lent.pop())

    async def _start(self, runner: GpuRunner, memory: Memory) -> Reached | Verdict:
        frame = StartFrame(
            arena_bytes=memory.size_bytes,
            flush_bytes=self._flush.size_bytes,
            shared_by=memory.shared_by,
        )
        frame.handle[:] = memory.handle
        frame.flush_handle[:] = self._flush.handle
        frame.candidate = self._library
        memory.finish()
        outcome = await runner.order(frame, LOAD_LIMIT_S)
        if isinstance(outcome, ReplyFrame):
            if outcome.reply == Reply.REFUSED:
                return load_failure(outcome)
            return Reached(runner=runner, memory=memory, base=outcome.address)
        scene = Scene(log=runner.read_log(), limit_s=LOAD_LIMIT_S, arena=range(0))
        return ending(outcome, scene)
