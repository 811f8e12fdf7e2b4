"""What a session holds of its site, runner and memory: taken together, kept between uses, given
back together.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.failures import LoadFailed
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cuda.layout import SlotLayout
from cuda_llm.tools.cuda.memory import UNIT_BYTES, L2Flush, Memory, MemoryFull, MemoryPool
from cuda_llm.tools.cuda.protocol import GpuStartFrame
from cuda_llm.tools.cuda.runner import GpuRunner
from cuda_llm.tools.cuda.runner_pool import RunnerPool
from cuda_llm.tools.cuda.session import LoadedRunner
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.cuda.verdicts import CallContext, load_failure, verdict_on_end
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame

LOAD_LIMIT_S = 20.0
_MOST_PATH_BYTES = 1023


class SessionResources:
    """Taken by `load`, given back by `release`."""

    def __init__(
        self,
        library: Path,
        pool: RunnerPool,
        memory_pool: MemoryPool,
        make_room: Callable[[int], Awaitable[None]],
        flush: L2Flush,
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

    async def load(self, wanted_bytes: int) -> LoadedRunner | Verdict:
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
        except MemoryFull as error:
            raise InfrastructureError("device", str(error)) from error
        self._lent.append(lent)
        return await self._start(self._runner, lent)

    async def load_in(self, memory: Memory) -> LoadedRunner | Verdict:
        """Have the runner see this memory instead of what it was started with."""
        assert self._runner is not None
        return await self._start(self._runner, memory)

    async def prepare(self, memory: Memory, layout: SlotLayout) -> None:
        """Have `grow` find all that the layout wants, if it can be had."""
        fixed = self._runner is not None and memory is self._runner.memory
        if not fixed and layout.wanted_bytes > memory.size_bytes:
            await self._make_room(layout.wanted_bytes)

    def grow(self, memory: Memory, layout: SlotLayout) -> Memory:
        """Memory for a layout. Raises ArenaFull."""
        if self._runner is not None and memory is self._runner.memory:
            layout.within(memory.size_bytes)
            return memory
        try:
            least = max(layout.least_bytes, memory.size_bytes + 1)
            larger = self._memory_pool.lend(layout.wanted_bytes, least)
        except MemoryFull:
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

    async def _start(self, runner: GpuRunner, memory: Memory) -> LoadedRunner | Verdict:
        frame = GpuStartFrame(
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
            return LoadedRunner(runner=runner, memory=memory, base=outcome.address)
        scene = CallContext(log=runner.read_log(), limit_s=LOAD_LIMIT_S, arena=range(0))
        return verdict_on_end(outcome, scene)


class ClosingSessions:
    """What is being given back."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], int] = {}

    @property
    def held_bytes(self) -> int:
        """Device memory that is not back yet."""
        return sum(held for task, held in self._tasks.items() if not task.done())

    def __len__(self) -> int:
        """How many have not been waited for."""
        return len(self._tasks)

    def begin(self, resources: SessionResources) -> None:
        """Start giving back what a session held."""
        held = resources.held_bytes
        self._tasks[asyncio.create_task(resources.release())] = held

    async def wait_for_one(self) -> None:
        """Wait for the one that began first. Raises DeviceLost where it does not end."""
        task = next(iter(self._tasks))
        await asyncio.wait([task])
        if self._tasks.pop(task, None) is not None:
            task.result()

    async def wait_for_all(self) -> None:
        """Wait for all. Raises DeviceLost where one does not end."""
        while self._tasks:
            await self.wait_for_one()


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """An open session and what it holds."""

    candidate: Compiled
    session: GpuTimedSession
    resources: SessionResources

    @property
    def is_sound(self) -> bool:
        """Nothing has gone wrong in it, and its runner lives."""
        return self.session.verdict is None and self.resources.is_alive


class KeptSession:
    """One session kept between its uses; it has one user at a time."""

    def __init__(
        self,
        begin: Callable[[Compiled], Awaitable[OpenSession | Verdict]],
        end: Callable[[SessionResources], None],
        most_bytes: int,
        *,
        until_timed: bool = False,
    ) -> None:
        """What holds more than `most_bytes` of device memory is not kept.

        Nor is what has been timed, where it is kept `until_timed`.
        """
        self._begin = begin
        self._end = end
        self._most_bytes = most_bytes
        self._until_timed = until_timed
        self._held: OpenSession | None = None
        self.in_use = False

    @property
    def idle_bytes(self) -> int:
        """Device memory of a session that nobody uses."""
        return 0 if self._held is None or self.in_use else self._held.resources.held_bytes

    @asynccontextmanager
    async def use(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """The session of this program, begun where it is not there; for whom `in_use` is false.

        It stays where it has been used without an exception and without a verdict.
        """
        self.in_use = True
        sound = False
        try:
            held = await self._of(candidate)
            if isinstance(held, OpenSession):
                yield held.session
                sound = self._may_be_kept(held)
            else:
                yield held
        finally:
            self.in_use = False
            if not sound:
                self.end()

    def end_idle(self) -> bool:
        """End the session if nobody uses it; whether there was one."""
        return not self.in_use and self.end()

    def end(self) -> bool:
        """End the session; whether there was one. Nobody may use it."""
        held, self._held = self._held, None
        if held is not None:
            self._end(held.resources)
        return held is not None

    def _may_be_kept(self, held: OpenSession) -> bool:
        timed = self._until_timed and held.session.was_timed
        return held.is_sound and not timed and held.resources.held_bytes <= self._most_bytes

    async def _of(self, candidate: Compiled) -> OpenSession | Verdict:
        held = self._held
        if held is not None and held.candidate == candidate and held.is_sound:
            return held
        self.end()
        begun = await self._begin(candidate)
        if isinstance(begun, OpenSession):
            self._held = begun
        return begun
