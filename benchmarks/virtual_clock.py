"""An asyncio event loop on a virtual clock: where nothing is ready, time is that of the next timer.

Waiting takes no time, and work takes none of the clock's. What threads do for the loop (executors,
and libraries in `THREADED`) is waited for before the clock goes on, and is handed over in the order
in which it was asked for, each when nothing else is ready: so the same program does the same again.
The loop knows nothing of subprocesses, nor of what a socket may still bring.
"""

import asyncio
import selectors
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

THREADED = ("aiosqlite",)
"""Packages whose futures are set by threads of their own."""


class StalledError(RuntimeError):
    """Tasks wait, and there is no timer, no thread and no socket that could end that."""


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose time begins at 0 and only passes while all its tasks wait."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._asked: deque[asyncio.Future[Any]] = deque()
        self._answers: dict[asyncio.Future[Any], Callable[[], object]] = {}
        self._calls: deque[Callable[[], object]] = deque()
        self._threads = ThreadPoolExecutor(thread_name_prefix="virtual-clock")
        super().__init__(_JumpingSelector(self))
        self.set_default_executor(self._threads)

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Set the clock on: nothing happens until then."""
        self._now_s += seconds

    def create_future(self) -> asyncio.Future[Any]:
        """Note the future where a thread is going to set it."""
        future: asyncio.Future[Any] = super().create_future()
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if caller.partition(".")[0] in THREADED:
            self._asked.append(future)
        return future

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Note the future as well."""
        future = super().run_in_executor(executor, func, *args)
        self._asked.append(future)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """End the threads; the clock does not pass meanwhile."""
        self._threads.shutdown()

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Keep what a thread wants called until nothing else is ready.

        A thread that has answered before the loop waits for it leaves that to the loop's own.
        """
        answers = bool(args) and isinstance(args[0], asyncio.Future)
        if not answers and threading.get_ident() == getattr(self, "_thread_id", None):
            return super().call_soon_threadsafe(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)

        def call() -> None:
            if not handle.cancelled():
                self.call_soon(callback, *args, context=context)

        if answers:
            self._answers[args[0]] = call
        else:
            self._calls.append(call)
        self._write_to_self()  # type: ignore[attr-defined]
        return handle

    def hand_over(self) -> bool:
        """Make ready what threads have brought, in order; return whether that was anything."""
        if self._calls:
            self._calls.popleft()()
            return True
        if self.waits_for_threads():
            answer = self._answers.pop(self._asked[0], None)
        else:
            answer = self._answers.pop(next(iter(self._answers))) if self._answers else None
        if answer is None:
            return False
        answer()
        return True

    def waits_for_threads(self) -> bool:
        """Return whether a thread still has to answer."""
        while self._asked and self._asked[0].done():
            self._asked.popleft()
        return bool(self._asked)


class _JumpingSelector(selectors.EpollSelector):
    """Lets the loop's clock jump where the loop would sleep."""

    def __init__(self, loop: VirtualClockLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what sockets have brought; else wait for threads; else set the clock on."""
        events = super().select(0)
        if events or timeout == 0 or self._loop.hand_over():
            return events
        if self._loop.waits_for_threads():
            return super().select(None)
        if timeout is not None:
            self._loop.advance(timeout)
            return events
        if len(self.get_map()) == 1:  # The loop's own socket, by which threads wake it.
            raise StalledError("nothing is left that could end the wait")
        return super().select(None)


def run_virtual(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a virtual clock, as `asyncio.run` does on the real one."""
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(work)
