"""Sessions one after the other, or two at once: runners and memory put together."""

import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import SCRATCH_BYTES
from cuda_llm.tools.gpu.arena import Arena
from cuda_llm.tools.gpu.arenas import Arenas
from cuda_llm.tools.gpu.flush import Flush
from cuda_llm.tools.gpu.kept import Kept, Stay
from cuda_llm.tools.gpu.leaving import Leaving
from cuda_llm.tools.gpu.lodging import Lodging
from cuda_llm.tools.gpu.sealing import Sealing
from cuda_llm.tools.gpu.session import Reached, Wiring
from cuda_llm.tools.gpu.spares import Spares
from cuda_llm.tools.gpu.timed import GpuTimedSession

Opened: TypeAlias = contextlib.AbstractAsyncContextManager[GpuTimedSession | Verdict]

MOST_UNUSED_PART = 6
"""Of the GPU's memory, held by runners that are ending and by those that nobody uses, while a
session is opened: what is placed for calls that nobody times cannot wait for more."""
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
    flush: Flush
    notes: tuple[str, ...] = ()
    """Told with every call: what is not confined."""
    opened_s: float = 0.0
    """What the last session took from asking for it to having its candidate loaded."""
    _leaving: Leaving = field(default_factory=Leaving)
    _kept: Kept = field(init=False)
    """The baseline's session."""
    _resting: Kept = field(init=False)
    """The last candidate's: who validates it times it next. What was timed is not kept, so that a
    winner that is judged once more is judged in a fresh process."""
    _timing: bool = False
    """From the first call that is timed until a session is given back."""

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        most_bytes = self._most_unused_bytes
        self._kept = Kept(self._enter, self._leave, most_bytes)
        self._resting = Kept(self._enter, self._leave, most_bytes, until_timed=True)

    def open(self, candidate: Compiled) -> Opened:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        return self._use(self._resting, candidate)

    def keep(self, candidate: Compiled) -> Opened:
        """See `Site.keep`. Raises DeviceLost where a runner cannot be ended."""
        return self._use(self._kept, candidate)

    @asynccontextmanager
    async def _use(
        self, kept: Kept, candidate: Compiled
    ) -> AsyncIterator[GpuTimedSession | Verdict]:
        """The session that is kept there, or one of its own where somebody has that."""
        using = self._once if kept.in_use else kept.use
        try:
            async with using(candidate) as session:
                yield session
        finally:
            self._timing = False

    @asynccontextmanager
    async def _once(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """A session that nobody uses again."""
        stay = await self._enter(candidate)
        if not isinstance(stay, Stay):
            yield stay
            return
        try:
            yield stay.session
        finally:
            self._leave(stay.lodging)

    async def settle(self) -> None:
        """Wait until nothing begins or ends beside what is to be timed. Raises DeviceLost.

        Nor may code of a candidate that nobody uses be there.
        """
        self._resting.end_idle()
        self._timing = True
        await self._leaving.wait_for_all()
        await self.spares.settle()

    async def close(self) -> None:
        """End all runners and free all memory."""
        self._kept.end()
        self._resting.end()
        try:
            await self._leaving.wait_for_all()
        finally:
            try:
                await self.spares.close()
            finally:
                self.arenas.close()

    async def _enter(self, candidate: Compiled) -> Stay | Verdict:
        started = time.monotonic()
        while self._leaving and self._unused_bytes > self._most_unused_bytes:
            await self._leaving.wait_for_one()
        lodging = Lodging(candidate.library, self.spares, self.arenas, self._make_room, self.flush)
        reached: Reached | Verdict | None = None
        try:
            wanted = min(OPENING_BYTES, self.hardware.memory_bytes // MOST_OPENING_PART)
            reached = await lodging.enter(wanted)
        finally:
            if not isinstance(reached, Reached):
                self._leave(lodging)
        self.opened_s = time.monotonic() - started
        if not isinstance(reached, Reached):
            return reached
        wiring = Wiring(
            candidate=candidate,
            hardware=self.hardware,
            sealing=self.sealing,
            reach=lodging.reach,
            prepare=lodging.prepare,
            settle=self.settle,
            untimed=self._replace_spares,
            notes=self.notes,
        )
        session = GpuTimedSession(wiring, reached, Arena(reached.memory, lodging.grow))
        return Stay(candidate=candidate, session=session, lodging=lodging)

    def _leave(self, lodging: Lodging) -> None:
        self._leaving.begin(lodging)
        self._timing = False
        if not self.spares:
            self._replace_spares()

    def _replace_spares(self) -> None:
        """See `Spares`. Whoever takes the next one hears why there is none."""
        if not self._timing:
            with contextlib.suppress(InfrastructureError):
                self.spares.refill()

    @property
    def _most_unused_bytes(self) -> int:
        return self.hardware.memory_bytes // MOST_UNUSED_PART

    @property
    def _unused_bytes(self) -> int:
        return self._leaving.held_bytes + self._kept.idle_bytes + self._resting.idle_bytes

    async def _make_room(self, wanted_bytes: int) -> None:
        """Have so much to lend, if it can be had: others end, and those that nobody uses.

        Raises DeviceLost.
        """
        while not self.arenas.has(wanted_bytes):
            if self._leaving:
                await self._leaving.wait_for_one()
            elif not (self._resting.end_idle() or self._kept.end_idle()):
                return
