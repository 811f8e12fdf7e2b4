"""Work in progress of one run. It outlives the node that began it, when the round goes on."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

from cuda_llm.agents.situation import Situation

T = TypeVar("T")


class Workbench:
    """Tasks by key, each begun once; their results stay for whoever asks again.

    Belongs to one event loop. Nothing is left running after `close`.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._quorums: dict[int, Quorum] = {}
        self._failed: BaseException | None = None
        self.views: dict[int, Situation] = {}
        """What the generators of a round see, by round."""

    @property
    def age_s(self) -> float:
        """Seconds that this process has been at work on the run."""
        return time.monotonic() - self._began

    def begin(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        """The task of that key; begun now where there is none, or where it was cancelled."""
        task = self._tasks.get(key)
        if task is None or task.cancelled():
            task = self._tasks[key] = asyncio.ensure_future(_run(work))
        return task

    async def share(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """The result of the task of that key, whoever began it."""
        return await self.begin(key, work)

    async def join(
        self, key: Hashable, work: Callable[[], Awaitable[T]], quorum: "Quorum", limit_s: float
    ) -> T | None:
        """The result, or None when the quorum or the limit comes first; then the work goes on.

        What it raises ends the run, and so does being cancelled: all work is ended with it.
        """
        task = self.begin(key, work)
        timeout_s = None if math.isinf(limit_s) else max(0.0, limit_s)
        try:
            if not task.done():
                first = asyncio.FIRST_COMPLETED
                either: set[asyncio.Future[Any]] = {task, quorum.reached}
                await asyncio.wait(either, timeout=timeout_s, return_when=first)
            return task.result() if task.done() else None
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._failed = self._failed or error
            await self.close()
            if isinstance(error, asyncio.CancelledError) and self._failed and not _is_cancelled():
                # Ended because a sibling failed: all tell of that.
                raise self._failed from None
            raise

    def quorum(self, round_: int, needed: int) -> "Quorum":
        """The quorum of a round; `needed` of 0 is never reached."""
        return self._quorums.setdefault(round_, Quorum(needed))

    async def close(self) -> None:
        """End everything that still runs, child processes included, and forget all results."""
        mine = asyncio.current_task()
        running = [one for one in self._tasks.values() if not one.done() and one is not mine]
        self._tasks.clear()
        self._quorums.clear()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Quorum:
    """How many candidates of a round must be judged before it may go on without the others."""

    def __init__(self, needed: int) -> None:
        self.reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._needed = needed
        self._judged: set[str] = set()

    def count(self, name: str) -> None:
        """That candidate is judged."""
        self._judged.add(name)
        if 0 < self._needed <= len(self._judged) and not self.reached.done():
            self.reached.set_result(None)


async def _run(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


def _is_cancelled() -> bool:
    """Whether somebody wants the current task itself to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
