"""Runs a coroutine for a caller who cannot await it, maybe because a loop runs already."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread of its own; Ctrl-C cancels it there before it is raised here.

    A second Ctrl-C does not wait for what the first one has cancelled.
    """
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = Future()
    done: Future[T] = Future()

    async def main() -> T:
        begun.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    def run() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # handed to the caller as it is
            done.set_exception(error)

    thread = threading.Thread(target=run, name="cuda-llm", daemon=True)
    thread.start()
    try:
        return done.result()
    except KeyboardInterrupt:
        loop, task = begun.result()
        assert task is not None, "a coroutine that runs is a task"
        loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
