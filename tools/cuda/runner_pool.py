"""Runners started beforehand: making a context takes a tenth of a second, or three tenths where the
GPUs of a machine make some at once.

What is timed waits until those that start are there and those that end are gone. So the best moment
to start them is one after which nothing is timed for a while: when a kernel is validated, at the
first call that is not timed (`sessions`). A candidate takes one, for its validation and its timing
beside a baseline that is kept; a duel takes two. There are three, so that each finds one that
waits, in whichever order they come, and none is started when a session ends, for a timing may
follow, unless none is left: then whoever comes next would wait in any case.
"""

import asyncio
from collections.abc import Callable

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.runner import GpuRunner
from cuda_llm.tools.runner.protocol import ReplyFrame

WARM_LIMIT_S = 30.0
_ATTEMPTS = 1


class RunnerPool:
    """Runners that wait for a candidate. Everything happens when asked: nothing to cancel."""

    def __init__(self, start: Callable[[], GpuRunner], count: int = 3) -> None:
        """`count`: for a candidate, and the contest or the timings that may follow at once."""
        self._start = start
        self._count = count
        self._waiting: list[tuple[GpuRunner, asyncio.Task[str]]] = []

    def __len__(self) -> int:
        """Those that wait or are being started."""
        return len(self._waiting)

    def refill(self) -> None:
        """Start what is missing. Raises InfrastructureError, MissingError."""
        while len(self._waiting) < self._count:
            self._begin()

    def _begin(self) -> None:
        runner = self._start()
        self._waiting.append((runner, asyncio.create_task(_warm(runner))))

    async def take(self) -> GpuRunner:
        """A runner whose context is there. None is started in its place before `refill`: what is
        timed in the meantime would be disturbed.

        Dead ones are replaced. Raises InfrastructureError where none comes up.
        """
        failure = ""
        for _ in range(self._count + _ATTEMPTS):
            if not self._waiting:
                self._begin()
            runner, warming = self._waiting.pop(0)
            try:
                failure = await warming
            except BaseException:
                await runner.stop()
                raise
            if not failure and runner.is_alive:
                return runner
            await runner.stop()
        raise InfrastructureError("runner", failure or "it dies before it is used")

    async def settle(self) -> None:
        """Wait until all are warm: a context in the making disturbs what is timed beside it."""
        warming = [task for _, task in self._waiting if not task.done()]
        if warming:
            await asyncio.wait(warming)

    async def close(self) -> None:
        """End all."""
        waiting, self._waiting = self._waiting, []
        for runner, warming in waiting:
            warming.cancel()
            await asyncio.wait([warming])
            await runner.stop()


async def _warm(runner: GpuRunner) -> str:
    """Empty, or why the runner is of no use."""
    outcome = await runner.warm_up(WARM_LIMIT_S)
    if isinstance(outcome, ReplyFrame):
        return ""
    words = getattr(outcome, "final_reply", None)
    if words is not None:
        return str(words.text)
    return f"no context: {outcome}"
