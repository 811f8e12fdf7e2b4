"""Sessions one after the other, or two at once: runners and memory put together."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.gpu.arena import SCRATCH_BYTES, Arena
from cuda_llm.tools.gpu.arenas import Arenas
from cuda_llm.tools.gpu.lodging import Lodging
from cuda_llm.tools.gpu.sealing import Sealing
from cuda_llm.tools.gpu.session import Reached, Wiring
from cuda_llm.tools.gpu.spares import Spares
from cuda_llm.tools.gpu.timed import GpuTimedSession

FLUSH_SHARE = 1.25
"""Times what L2 holds is written to flush it: on an H200 this cools as well as twice as much."""
BURIED_BYTES = 8 << 30
"""Memory that runners may hold that are ending while the next is opened."""
OPENING_BYTES = SCRATCH_BYTES + (448 << 20)
"""Of a new session: most buffers fit beside what `solve` may allocate."""
MOST_OPENING_PART = 8
"""Of the GPU's memory."""


@dataclass(kw_only=True)
class Sessions:
    """What opens sessions on one GPU. Always `close` it."""

    hardware: Hardware
    spares: Spares
    arenas: Arenas
    sealing: Sealing
    notes: tuple[str, ...] = ()
    """Told with every call: what is not confined."""
    opened_s: float = 0.0
    """What the last session took from asking for it to having its candidate loaded."""
    _leaving: dict["asyncio.Task[None]", int] = field(default_factory=dict)
    """Sessions that are being ended, and the memory they hold."""

    @asynccontextmanager
    async def open(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        started = time.monotonic()
        await self._bury(BURIED_BYTES)
        lodging = Lodging(candidate.library, self.spares, self.arenas)
        try:
            wanted = min(OPENING_BYTES, self.hardware.memory_bytes // MOST_OPENING_PART)
            reached = await lodging.enter(wanted)
            self.opened_s = time.monotonic() - started
            if not isinstance(reached, Reached):
                yield reached
                return
            wiring = Wiring(
                candidate=candidate,
                hardware=self.hardware,
                sealing=self.sealing,
                reach=lodging.reach,
                settle=self.settle,
                notes=self.notes,
            )
            flush_bytes = int(FLUSH_SHARE * self.hardware.l2_bytes)
            arena = Arena(reached.memory, lodging.grow, flush_bytes=flush_bytes)
            yield GpuTimedSession(wiring, reached, arena)
        finally:
            self._leaving[asyncio.create_task(lodging.leave())] = lodging.held_bytes
            # Whoever takes the next one hears why there is none.
            with contextlib.suppress(InfrastructureError):
                self.spares.refill()

    async def settle(self) -> None:
        """Wait until nothing begins or ends beside what is to be timed. Raises DeviceLost."""
        await self._bury(0)
        await self.spares.settle()

    async def close(self) -> None:
        """End all runners and free all memory."""
        try:
            await self._bury(0)
        finally:
            try:
                await self.spares.close()
            finally:
                self.arenas.close()

    async def _bury(self, most_bytes: int) -> None:
        """Wait for runners to end until no more than this is held by those that have not.

        The driver takes a tenth of a second to take a context down, which nobody has to watch.
        Raises DeviceLost.
        """
        for task in list(self._leaving):
            if task.done() or sum(self._leaving.values()) > most_bytes or not most_bytes:
                await asyncio.wait([task])
                del self._leaving[task]
                task.result()
