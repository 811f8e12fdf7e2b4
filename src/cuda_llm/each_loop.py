"""One value for each event loop: locks, queues and semaphores of asyncio work on one loop alone."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")


class EachLoop(Generic[T]):
    """Keeps a value for each event loop that has asked for one; the value ends with its loop."""

    def __init__(self) -> None:
        self.made: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()
        """Values by event loop."""

    def here(self, make: Callable[[], T]) -> T:
        """Return the value of the running event loop, which `make` makes where there is none.

        Raises RuntimeError where no loop runs.
        """
        loop = asyncio.get_running_loop()
        if loop not in self.made:
            self.made[loop] = make()
        return self.made[loop]
