"""Runs a coroutine for a caller who cannot await it, maybe because a loop runs already."""

import asyncio
import contextlib
import inspect
import signal
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

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
            if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()


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
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()
    done: Future[T] = Future()
    stopped = threading.Event()

    async def main() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        if stopped.is_set():
            work.close()
            raise asyncio.CancelledError
        return await work

    def run() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # handed to the caller as it is
            done.set_exception(error)

    thread = threading.Thread(target=run, name="cuda-llm", daemon=True)
    try:
        # Ctrl-C may come while it starts: then it sees `stopped`, or has told what to cancel.
        thread.start()
        return done.result()
    except KeyboardInterrupt:
        stopped.set()
        if begun.done():
            loop, task = begun.result()
            assert task is not None, "a coroutine that runs is a task"
            with contextlib.suppress(RuntimeError):  # its loop is closed: it has just ended
                loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        if thread.is_alive():
            thread.join()
