"""Runs a build on a thread, which ends soon after its caller is cancelled."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from cuda_llm.errors import Interrupted

T = TypeVar("T")

_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


async def build_in_thread(work: Callable[[], T]) -> T:
    """Build on a thread and return the result of `work`; cancelling the call ends the compilers
    there.

    A first build takes up to minutes, during which nothing else on the event loop could run. A
    thread cannot be cancelled, and would continue to the build's end after Ctrl-C: `work` therefore
    raises Interrupted where it pauses.
    """
    stop = threading.Event()
    token = _stop.set(stop)
    try:
        return await asyncio.to_thread(work)
    finally:
        stop.set()
        _stop.reset(token)


def pause(duration_s: float) -> None:
    """Sleep. Raises Interrupted in a thread of `build_in_thread` whose caller was cancelled."""
    time.sleep(duration_s)
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise Interrupted("a build of native parts was stopped")
