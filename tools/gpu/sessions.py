"""Sessions one after the other, or two at once: runners and memory put together."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

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

FLUSH_SHARE = 2
"""Times what L2 holds is written to flush it."""
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

    @asynccontextmanager
    async def open(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        started = time.monotonic()
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
                settle=self.spares.settle,
                notes=self.notes,
            )
            flush_bytes = FLUSH_SHARE * self.hardware.l2_bytes
            arena = Arena(reached.memory, lodging.grow, flush_bytes=flush_bytes)
            yield GpuTimedSession(wiring, reached, arena)
        finally:
            await lodging.leave()

    async def close(self) -> None:
        """End all runners and free all memory."""
        try:
            await self.spares.close()
        finally:
            self.arenas.close()
