"""How many calls run at once."""

import asyncio
import os
import weakref

_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    weakref.WeakKeyDictionary()
)


def call_slot() -> asyncio.Semaphore:
    """Hold it while a runner computes: there are as many as this process may use cores.

    Calls hold slots, not sessions: whoever holds one session may wait for another without end.
    """
    loop = asyncio.get_running_loop()
    if loop not in _slots:
        _slots[loop] = asyncio.Semaphore(len(os.sched_getaffinity(0)))
    return _slots[loop]
