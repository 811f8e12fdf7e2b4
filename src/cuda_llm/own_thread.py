"""Runs a coroutine for a caller who cannot await it, maybe because a loop runs already."""

import asyncio
import contextlib
import inspect
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any, Generic, Self, TypeVar

from cuda_llm.errors import UsageError

T = TypeVar("T")


def await_here(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, in a thread of its own where a loop runs already in this thread.

    Raises what the coroutine raises.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        has_loop = False
    else:
        has_loop = True
    # Outside of the except, or every traceback would begin with its RuntimeError.
    return run_in_thread(work) if has_loop else run_in_this_thread(work)


def run_in_this_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own; Ctrl-C cancels the coroutine.

    As `asyncio.run`, except for a Ctrl-C while the event loop is made or closed: a half-made event
    loop, or a coroutine that nobody awaits, would have Python print a traceback.
    """
    runner = asyncio.Runner()
    try:
        with postponed_interrupt():
            runner.get_loop()
        return runner.run(work)
    finally:
        with postponed_interrupt():
            runner.close()
            close_unbegun(work)


@contextlib.contextmanager
def postponed_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for a Ctrl-C in the block at the end of the block.

    A second Ctrl-C does not wait: the block may wait for threads.
    """
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_default or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def postpone(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, postpone)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if came:
        raise KeyboardInterrupt


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own; Ctrl-C cancels it there before it is raised here.

    A second Ctrl-C does not wait for what the first one has cancelled.
    """
    try:
        with LoopThread() as thread:
            return thread.run(work)
    finally:
        close_unbegun(work)


def close_unbegun(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that nobody has awaited, of which Python would warn."""
    if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


class LoopThread:
    """A thread with an event loop, which does the works of callers in any thread or event loop."""

    def __init__(self, name: str = "cuda-llm") -> None:
        """`name` names the thread, and the subject of the error that a closed one raises."""
        self._name = name
        self._ended = asyncio.Event()
        self._turn = threading.Lock()
        self._is_closed = self._is_abandoned = False
        began: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(began)), name=name, daemon=True
        )
        with postponed_interrupt():
            self._thread.start()
            self._loop = began.result()

    async def _serve(self, began: "Future[asyncio.AbstractEventLoop]") -> None:
        began.set_result(asyncio.get_running_loop())
        await self._ended.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do a work to its end for a caller that does not await; raises what the work raises.

        Ctrl-C cancels the work, and is raised when the work has ended. A second one does not wait.
        Raises UsageError where this is closed, before or meanwhile.
        """
        begun: list[OneWork[T]] = []
        try:
            with postponed_interrupt():
                begun.append(self._begin(work))
            return begun[0].done.result()
        except KeyboardInterrupt:
            for one in begun:
                one.cancel()
            self._is_abandoned = True
            wait([one.done for one in begun])
            self._is_abandoned = False
            raise
        except asyncio.CancelledError:
            if self._is_closed:
                raise self._closed("was closed meanwhile") from None
            raise

    async def await_from_here(self, work: Coroutine[Any, Any, T]) -> T:
        """Do a work for a caller in another event loop. A caller that is cancelled cancels the
        work, and waits until the work has ended."""
        begun = self._begin(work)
        here = asyncio.wrap_future(begun.done)
        # A caller that is cancelled reads no error.
        here.add_done_callback(lambda one: one.cancelled() or one.exception())
        try:
            return await asyncio.shield(here)
        except asyncio.CancelledError:
            begun.cancel()
            await asyncio.wait([here])
            caller = asyncio.current_task()
            if self._is_closed and caller is not None and not caller.cancelling():
                raise self._closed("was closed meanwhile") from None
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> "OneWork[T]":
        """Begin a work. Raises UsageError where this is closed."""
        begun = OneWork(work, self._loop)
        with self._turn:
            if self._is_closed:
                close_unbegun(work)
                raise self._closed("is closed")
            # In order of the calls: what is begun before the end is cancelled by the end.
            self._loop.call_soon_threadsafe(begun.begin)
        return begun

    def _closed(self, what: str) -> UsageError:
        return UsageError(f"{self._name} {what}; open another one")

    def close(self) -> None:
        """Cancel the works that are left, and return when they and the thread have ended."""
        with self._turn:
            if not self._is_closed:
                self._loop.call_soon_threadsafe(self._ended.set)
            self._is_closed = True
        if not self._is_abandoned:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OneWork(Generic[T]):
    """A coroutine that an event loop of another thread does."""

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.done: Future[T] = Future()
        """The result to come, or the error."""
        self._work = work
        self._loop = loop
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin the work, in the thread of its event loop."""
        self._task = self._loop.create_task(self._do())

    async def _do(self) -> None:
        try:
            self.done.set_result(await self._work)
        except BaseException as error:  # handed to the caller as it is
            self.done.set_exception(error)

    def cancel(self) -> None:
        """Cancel the work, from any thread."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it has ended
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
