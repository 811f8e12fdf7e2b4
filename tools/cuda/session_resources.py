"""Runner and memory of a session, taken together from their pools and given back together.

Making a CUDA context takes 0.1 s, or 0.3 s where several GPUs of a machine make contexts at once,
so runners are started beforehand. Timing waits until starting runners are ready and ending runners
are gone: runners are therefore started where nothing is timed for a while, at the first untimed
call of a kernel's validation (`sessions`). A candidate takes one runner, for its validation and its
timing beside a cached baseline; a contest takes two to four. The pool has three runners, so that
nearly every session finds a runner waiting. The end of a session starts no runner, since a timing
may follow, unless the pool is empty: then the next session would wait in any case.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import LoadFailed, Verdict
from cuda_llm.tools.cuda.layout import SlotLayout
from cuda_llm.tools.cuda.memory import UNIT_BYTES, L2Flush, Memory, MemoryFull, MemoryPool
from cuda_llm.tools.cuda.protocol import GpuStartFrame, Order
from cuda_llm.tools.cuda.runner import WARM_LIMIT_S, GpuRunner
from cuda_llm.tools.cuda.verdicts import CallContext, failed_to_start, load_failure, verdict_on_end
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply

LOAD_LIMIT_S = 20.0
_MOST_PATH_BYTES = 1023


@dataclass(frozen=True, kw_only=True)
class LoadedRunner:
    """A runner that has loaded the candidate, and where the session's memory lies in it."""

    runner: GpuRunner
    memory: Memory
    base: int
    """Address of the memory in the runner."""


class RunnerPool:
    """Runners that wait for a candidate. They start when asked: there is nothing to cancel."""

    def __init__(self, start: Callable[[], GpuRunner], count: int = 3) -> None:
        """`count`: for a candidate, and the contest or the timings that may follow at once."""
        self._start = start
        self._count = count
        self._waiting: list[tuple[GpuRunner, asyncio.Task[InfrastructureError | None]]] = []

    def __len__(self) -> int:
        """Return how many wait or are being started."""
        return len(self._waiting)

    def refill(self) -> None:
        """Start the missing runners of the pool. Raises InfrastructureError, MissingError."""
        while len(self._waiting) < self._count:
            self._begin()

    def _begin(self) -> None:
        runner = self._start()
        self._waiting.append((runner, asyncio.create_task(_warm(runner))))

    async def take(self) -> GpuRunner:
        """Return a runner whose context is made. No runner is started in its place before `refill`,
        as starting would disturb what is timed meanwhile.

        Dead runners are replaced. Raises InfrastructureError where no runner starts.
        """
        failure = InfrastructureError("runner", "it dies before it is used")
        for _ in range(self._count + 1):
            if not self._waiting:
                self._begin()
            runner, warming = self._waiting.pop(0)
            try:
                failed = await warming
            except BaseException:
                await runner.stop()
                raise
            if failed is None and runner.is_alive:
                return runner
            failure = failed or failure
            await runner.stop()
        raise failure

    async def settle(self) -> None:
        """Wait until all runners are warm: making a context disturbs what is timed beside it."""
        warming = [task for _, task in self._waiting if not task.done()]
        if warming:
            await asyncio.wait(warming)

    async def close(self) -> None:
        """End all waiting runners."""
        waiting, self._waiting = self._waiting, []
        for runner, warming in waiting:
            warming.cancel()
            await asyncio.wait([warming])
            await runner.stop()


async def _warm(runner: GpuRunner) -> InfrastructureError | None:
    """Return why the runner is of no use; None where it is."""
    outcome = await runner.warm_up(WARM_LIMIT_S)
    return None if isinstance(outcome, ReplyFrame) else failed_to_start(outcome)


class SessionResources:
    """A runner and memory of one session, taken by `load` and given back by `release`."""

    def __init__(
        self,
        library: Path,
        pool: RunnerPool,
        memory_pool: MemoryPool,
        make_room: Callable[[int], Awaitable[None]],
        flush: L2Flush,
    ) -> None:
        """`make_room` has other sessions give memory back before memory is acquired."""
        self._library = os.fsencode(library)
        self._pool = pool
        self._memory_pool = memory_pool
        self._make_room = make_room
        self._flush = flush
        self._runner: GpuRunner | None = None
        self._memories: list[Memory] = []
        self.is_retired = False
        """Its memory goes back to the device, not to the next session."""

    @property
    def held_bytes(self) -> int:
        """Device memory it holds."""
        return sum(memory.size_bytes for memory in self._memories)

    @property
    def is_alive(self) -> bool:
        """True while the session's runner lives."""
        return self._runner is not None and self._runner.is_alive

    async def load(self, wanted_bytes: int) -> LoadedRunner | Verdict:
        """Load the candidate in a fresh runner with memory of about this size.

        Raises InfrastructureError, and MemoryFull where not even a little device memory is to be
        had.
        """
        if len(self._library) > _MOST_PATH_BYTES:
            return LoadFailed(detail=f"its path is longer than {_MOST_PATH_BYTES} bytes")
        self._runner = await self._pool.take()
        memory = self._runner.memory
        if memory is not None:
            return await self._start(self._runner, memory)
        await self._make_room(wanted_bytes)
        acquired = self._memory_pool.acquire(wanted_bytes, UNIT_BYTES)
        self._memories.append(acquired)
        return await self._start(self._runner, acquired)

    async def load_in(self, memory: Memory) -> LoadedRunner | Verdict:
        """Have the candidate loaded anew where the runner sees this memory."""
        assert self._runner is not None
        return await self._start(self._runner, memory)

    async def prepare(self, memory: Memory, layout: SlotLayout) -> None:
        """Have as much memory free as the layout wants, if it can be had."""
        fixed = self._runner is not None and memory is self._runner.memory
        if not fixed and layout.wanted_bytes > memory.size_bytes:
            await self._make_room(layout.wanted_bytes)

    def grow(self, memory: Memory, layout: SlotLayout) -> Memory:
        """Return memory for a layout: larger, or the same. Raises MemoryFull."""
        if self._runner is not None and memory is self._runner.memory:
            layout.within(memory.size_bytes)
            return memory
        try:
            least = max(layout.least_bytes, memory.size_bytes + 1)
            larger = self._memory_pool.acquire(layout.wanted_bytes, least)
        except MemoryFull:
            if layout.least_bytes > memory.size_bytes:
                raise
            return memory
        self._memories.append(larger)
        return larger

    async def release(self) -> None:
        """End the runner, then give back all it saw. Raises DeviceLost where it does not go."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.stop()
        while self._memories:
            memory = self._memories.pop()
            if self.is_retired:
                memory.close()
            else:
                self._memory_pool.release(memory)

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
            if outcome.reply == RunnerReply.REFUSED:
                return load_failure(outcome)
            return LoadedRunner(runner=runner, memory=memory, base=outcome.address)
        context = CallContext(
            log=runner.read_log(), limit_s=LOAD_LIMIT_S, order=Order.START, arena=range(0)
        )
        return verdict_on_end(outcome, context)


class ClosingSessions:
    """Resources of closed sessions that are being given back."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], int] = {}

    @property
    def held_bytes(self) -> int:
        """Device memory that is not back yet."""
        return sum(held for task, held in self._tasks.items() if not task.done())

    def __len__(self) -> int:
        """Return how many have not been waited for."""
        return len(self._tasks)

    def begin(self, resources: SessionResources) -> None:
        """Start giving back the runner and memory of a session."""
        self._tasks[asyncio.create_task(resources.release())] = resources.held_bytes

    async def wait_for_one(self) -> None:
        """Wait for the runner that began to end first. Raises DeviceLost where the runner does not
        end."""
        task = next(iter(self._tasks))
        await asyncio.wait([task])
        if self._tasks.pop(task, None) is not None:
            task.result()

    async def wait_for_all(self) -> None:
        """Wait for all ending runners. Raises DeviceLost where a runner does not end."""
        while self._tasks:
            await self.wait_for_one()
