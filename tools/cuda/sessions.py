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
from cuda_llm.tools.cuda.layout import SessionMemory
from cuda_llm.tools.cuda.memory import L2Flush, MemoryPool
from cuda_llm.tools.cuda.runner_pool import RunnerPool
from cuda_llm.tools.cuda.sealing import Sealing
from cuda_llm.tools.cuda.session import LoadedRunner, SessionContext
from cuda_llm.tools.cuda.session_resources import (
    ClosingSessions,
    KeptSession,
    OpenSession,
    SessionResources,
)
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import SCRATCH_BYTES
from cuda_llm.tools.device.candidate import Compiled

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
    pool: RunnerPool
    memory_pool: MemoryPool
    sealing: Sealing
    flush: L2Flush
    notes: tuple[str, ...] = ()
    """Told with every call: what is not confined."""
    opened_s: float = 0.0
    """What the last session took from asking for it to having its candidate loaded."""
    _closing: ClosingSessions = field(default_factory=ClosingSessions)
    _baseline: KeptSession = field(init=False)
    """The baseline's session."""
    _candidate: KeptSession = field(init=False)
    """The last candidate's: who validates it times it next. What was timed is not kept, so that a
    winner that is judged once more is judged in a fresh process."""
    _timing: bool = False
    """From the first call that is timed until a session is given back."""

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        most_bytes = self._most_unused_bytes
        self._baseline = KeptSession(self._open, self._close, most_bytes)
        self._candidate = KeptSession(self._open, self._close, most_bytes, until_timed=True)

    def open(self, candidate: Compiled) -> Opened:
        """See `Site.open`. Raises DeviceLost where a runner cannot be ended."""
        return self._use(self._candidate, candidate)

    def keep(self, candidate: Compiled) -> Opened:
        """See `Site.keep`. Raises DeviceLost where a runner cannot be ended."""
        return self._use(self._baseline, candidate)

    @asynccontextmanager
    async def _use(
        self, kept: KeptSession, candidate: Compiled
    ) -> AsyncIterator[GpuTimedSession | Verdict]:
        """The session that is kept there, or one of its own where somebody has that."""
        using = self._fresh if kept.in_use else kept.use
        try:
            async with using(candidate) as session:
                yield session
        finally:
            self._timing = False

    @asynccontextmanager
    async def _fresh(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """A session that nobody uses again."""
        held = await self._open(candidate)
        if not isinstance(held, OpenSession):
            yield held
            return
        try:
            yield held.session
        finally:
            self._close(held.resources)

    async def settle(self) -> None:
        """Wait until nothing begins or ends beside what is to be timed. Raises DeviceLost.

        Nor may code of a candidate that nobody uses be there.
        """
        self._candidate.end_idle()
        self._timing = True
        await self._closing.wait_for_all()
        await self.pool.settle()

    async def close(self) -> None:
        """End all runners and free all memory."""
        self._baseline.end()
        self._candidate.end()
        try:
            await self._closing.wait_for_all()
        finally:
            try:
                await self.pool.close()
            finally:
                self.memory_pool.close()

    async def _open(self, candidate: Compiled) -> OpenSession | Verdict:
        started = time.monotonic()
        while self._closing and self._unused_bytes > self._most_unused_bytes:
            await self._closing.wait_for_one()
        resources = SessionResources(
            candidate.library, self.pool, self.memory_pool, self._make_room, self.flush
        )
        reached: LoadedRunner | Verdict | None = None
        try:
            wanted = min(OPENING_BYTES, self.hardware.memory_bytes // MOST_OPENING_PART)
            reached = await resources.load(wanted)
        finally:
            if not isinstance(reached, LoadedRunner):
                self._close(resources)
        self.opened_s = time.monotonic() - started
        if not isinstance(reached, LoadedRunner):
            return reached
        wiring = SessionContext(
            candidate=candidate,
            hardware=self.hardware,
            sealing=self.sealing,
            load=resources.load_in,
            prepare=resources.prepare,
            settle=self.settle,
            before_untimed=self._refill_pool,
            notes=self.notes,
        )
        session = GpuTimedSession(wiring, reached, SessionMemory(reached.memory, resources.grow))
        return OpenSession(candidate=candidate, session=session, resources=resources)

    def _close(self, resources: SessionResources) -> None:
        self._closing.begin(resources)
        self._timing = False
        if not self.pool:
            self._refill_pool()

    def _refill_pool(self) -> None:
        """Start what the pool lacks. Whoever takes the next one is told why there is none."""
        if not self._timing:
            with contextlib.suppress(InfrastructureError):
                self.pool.refill()

    @property
    def _most_unused_bytes(self) -> int:
        return self.hardware.memory_bytes // MOST_UNUSED_PART

    @property
    def _unused_bytes(self) -> int:
        return self._closing.held_bytes + self._baseline.idle_bytes + self._candidate.idle_bytes

    async def _make_room(self, wanted_bytes: int) -> None:
        """Have so much to lend, if it can be had: others end, and those that nobody uses.

        Raises DeviceLost.
        """
        while not self.memory_pool.has(wanted_bytes):
            if self._closing:
                await self._closing.wait_for_one()
            elif not (self._candidate.end_idle() or self._baseline.end_idle()):
                return
