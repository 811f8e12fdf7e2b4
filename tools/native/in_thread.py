"""Runs a build on a thread, which ends soon after nobody waits for it any more."""

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
    """Build on a thread and return what `work` does; being cancelled ends the compilers there.

    A first build takes up to minutes, for which nothing else on the loop would be heard. A thread
    cannot be cancelled, and would go on to the build's end after Ctrl-C: `work` raises Interrupted
    where it pauses.
    """
    stop = threading.Event()
    token = _stop.set(stop)
    try:
        return await asyncio.to_thread(work)
    finally:
        stop.set()
        _stop.reset(token)


def pause(duration_s: float) -> None:
    """Sleep. Raises Interrupted in a thread of `build_in_thread` for which nobody waits."""
    time.sleep(duration_s)
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise Interrupted("a build of native parts was stopped")
