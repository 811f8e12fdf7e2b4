"""Sessions on one GPU, one after another or two at once; the candidate's and the baseline's are
cached."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from cuda_llm.errors import InfrastructureError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cuda.layout import SessionMemory
from cuda_llm.tools.cuda.memory import L2Flush, MemoryPool
from cuda_llm.tools.cuda.sealing import Sealing
from cuda_llm.tools.cuda.session import SessionContext
from cuda_llm.tools.cuda.session_resources import (
    ClosingSessions,
    LoadedRunner,
    RunnerPool,
    SessionResources,
)
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import opening_bytes
from cuda_llm.tools.device.candidate import Compiled

Opened: TypeAlias = contextlib.AbstractAsyncContextManager[GpuTimedSession | Verdict]

MOST_UNUSED_PART = 6
"""Unused sessions hold at most this fraction (a sixth) of the GPU's memory, in ending and in idle
runners, while a session is opened: placing buffers of untimed calls cannot wait for more."""
MOST_FREE_PART = 3
"""The pool keeps at most this fraction (a third) of the GPU's memory for later sessions: more left
too little for sanitizers after the largest sizes of a corpus, and once too little for a kernel's
code."""


@dataclass(frozen=True, kw_only=True)
class OpenSession:
    """An open session with its candidate and its runner and memory."""

    candidate: Compiled
    session: GpuTimedSession
    resources: SessionResources

    @property
    def is_sound(self) -> bool:
        """True while the session has no verdict, its runner lives, and it is not retired."""
        resources = self.resources
        return self.session.verdict is None and resources.is_alive and not resources.is_retired


class CachedSession:
    """A session that is kept between uses and has one user at a time."""

    def __init__(
        self,
        open_session: Callable[[Compiled], Awaitable[OpenSession | Verdict]],
        close: Callable[[SessionResources], None],
        most_bytes: int,
        *,
        until_timed: bool = False,
    ) -> None:
        """Keep no session that holds more than `most_bytes` of device memory; with `until_timed`,
        keep none that has been timed."""
        self._open_session = open_session
        self._close = close
        self._most_bytes = most_bytes
        self._until_timed = until_timed
        self._cached: OpenSession | None = None
        self.in_use = False

    @property
    def idle_bytes(self) -> int:
        """Device memory of a session that is not in use."""
        return 0 if self._cached is None or self.in_use else self._cached.resources.held_bytes

    @asynccontextmanager
    async def use(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """Use the session of this program, opened where it is not cached; none may be `in_use`.

        It stays cached where it has been used without an exception and without a verdict.
        """
        self.in_use = True
        reusable = False
        try:
            opened = await self._find_or_open(candidate)
            if isinstance(opened, OpenSession):
                yield opened.session
                reusable = self._is_reusable(opened)
            else:
                yield opened
        finally:
            self.in_use = False
            if not reusable:
                self.end()

    def retire(self) -> None:
        """Give the session to no other user, and its memory neither."""
        if self._cached is not None:
            self._cached.resources.is_retired = True

    def end_idle(self) -> bool:
        """End the session if it is not in use; return whether a session was ended."""
        return not self.in_use and self.end()

    def end(self) -> bool:
        """End the session, which must not be in use; return whether a session was ended."""
        cached, self._cached = self._cached, None
        if cached is not None:
            self._close(cached.resources)
        return cached is not None

    def _is_reusable(self, opened: OpenSession) -> bool:
        timed = self._until_timed and opened.session.was_timed
        return opened.is_sound and not timed and opened.resources.held_bytes <= self._most_bytes

    async def _find_or_open(self, candidate: Compiled) -> OpenSession | Verdict:
        cached = self._cached
        if cached is not None and cached.candidate == candidate and cached.is_sound:
            return cached
        self.end()
        opened = await self._open_session(candidate)
        if isinstance(opened, OpenSession):
            self._cached = opened
        return opened


@dataclass(kw_only=True)
class Sessions:
    """Opens sessions on one GPU. Always call `close`."""

    hardware: Hardware
    pool: RunnerPool
    memory_pool: MemoryPool
    sealing: Sealing
    flush: L2Flush
    notes: tuple[str, ...] = ()
    """Missing confinement, reported with every call."""
    opened_s: float = 0.0
    """Seconds from opening the last session until its candidate was loaded."""
    _closing: ClosingSessions = field(default_factory=ClosingSessions)
    _baseline: CachedSession = field(init=False)
    """The cached session of the baseline."""
    _candidate: CachedSession = field(init=False)
    """The cached session of the last candidate, which is validated, then timed. A timed session is
    not cached, so that a winner is judged again in a fresh process."""
    _timing: bool = False
    """True from the first timed call until a session is given back."""

    def __post_init__(self) -> None:
        """Begin with nothing cached."""
        most_bytes = self._most_unused_bytes
        self._baseline = CachedSession(self._open, self._close, most_bytes)
        self._candidate = CachedSession(self._open, self._close, most_bytes, until_timed=True)

    def open(self, candidate: Compiled) -> Opened:
        """Load the candidate in a fresh runner, or in its runner that has only validated. Raises
        DeviceLost where a runner cannot be ended."""
        return self._use(self._candidate, candidate)

    def open_cached(self, candidate: Compiled) -> Opened:
        """Load a baseline in the runner that is cached between uses. Raises DeviceLost where a
        runner cannot be ended."""
        return self._use(self._baseline, candidate)

    def retire_cached(self) -> None:
        """Stop using the baseline's cached runner and its memory."""
        self._baseline.retire()

    @asynccontextmanager
    async def _use(
        self, cache: CachedSession, candidate: Compiled
    ) -> AsyncIterator[GpuTimedSession | Verdict]:
        """Use the cached session, or a fresh session where the cached session is in use."""
        using = self._fresh if cache.in_use else cache.use
        try:
            async with using(candidate) as session:
                yield session
        finally:
            self._timing = False

    @asynccontextmanager
    async def _fresh(self, candidate: Compiled) -> AsyncIterator[GpuTimedSession | Verdict]:
        """Use a session that is closed afterwards."""
        opened = await self._open(candidate)
        if not isinstance(opened, OpenSession):
            yield opened
            return
        try:
            yield opened.session
        finally:
            self._close(opened.resources)

    async def settle(self) -> None:
        """Wait until nothing begins or ends beside what is to be timed. Raises DeviceLost.

        Nor may a candidate that is not in use still have a process.
        """
        self._candidate.end_idle()
        self._timing = True
        await self._closing.wait_for_all()
        await self.pool.settle()

    async def release_unused(self) -> None:
        """Give back all memory that no session uses now. Raises DeviceLost."""
        self._candidate.end_idle()
        self._baseline.end_idle()
        await self._closing.wait_for_all()
        self.memory_pool.close()

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
        loaded: LoadedRunner | Verdict | None = None
        try:
            loaded = await resources.load(opening_bytes(self.hardware.memory_bytes))
        finally:
            if not isinstance(loaded, LoadedRunner):
                self._close(resources)
        self.opened_s = time.monotonic() - started
        if not isinstance(loaded, LoadedRunner):
            return loaded
        context = SessionContext(
            candidate=candidate,
            hardware=self.hardware,
            sealing=self.sealing,
            load=resources.load_in,
            prepare=resources.prepare,
            settle=self.settle,
            before_untimed=self._refill_pool,
            notes=self.notes,
        )
        session = GpuTimedSession(context, loaded, SessionMemory(loaded.memory, resources.grow))
        return OpenSession(candidate=candidate, session=session, resources=resources)

    def _close(self, resources: SessionResources) -> None:
        self._closing.begin(resources)
        self._timing = False
        if not self.pool:
            self._refill_pool()

    def _refill_pool(self) -> None:
        """Start what the pool lacks. Where that fails, taking the next runner raises why."""
        if not self._timing:
            with contextlib.suppress(InfrastructureError):
                self.pool.refill()

    @property
    def idle_bytes(self) -> int:
        """Device memory of cached sessions that are not in use."""
        return self._baseline.idle_bytes + self._candidate.idle_bytes

    @property
    def _most_unused_bytes(self) -> int:
        return self.hardware.memory_bytes // MOST_UNUSED_PART

    @property
    def _unused_bytes(self) -> int:
        return self._closing.held_bytes + self.idle_bytes

    async def _make_room(self, wanted_bytes: int) -> None:
        """Close idle sessions until enough memory is free, if possible. Raises DeviceLost."""
        while not self.memory_pool.reserve(wanted_bytes):
            if self._closing:
                await self._closing.wait_for_one()
            elif not (self._candidate.end_idle() or self._baseline.end_idle()):
                return
