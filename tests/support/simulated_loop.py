"""An event loop whose time passes only while all tasks wait: hours are simulated in moments."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Waits(selectors.DefaultSelector):
    """Where nothing is ready, the time waited for has passed."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Ready files at once; only without a time to wait for does it really wait."""
        if timeout is None:
            return super().select()
        ready = super().select(0)
        if not ready:
            self.now_s += max(0.0, timeout)
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`time()` is that of the simulation."""

    def __init__(self) -> None:
        self.waits = Waits()
        super().__init__(self.waits)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.waits.now_s


def run_simulated(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    """What `work` returns, and the seconds it took in the simulation."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        loop = runner.get_loop()
        result = runner.run(work)
        return result, loop.time()
