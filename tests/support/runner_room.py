"""Sessions of a GPU that is not there: runners over memory of files, each start of one noted."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import psutil
from file_memory import Supply

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import IllegalAccess
from cuda_llm.tools.cuda.memory import L2Flush, MemoryPool
from cuda_llm.tools.cuda.runner import GpuRunner, RunnerLaunch, start_gpu_runner
from cuda_llm.tools.cuda.sealing import HostSealing
from cuda_llm.tools.cuda.session_resources import RunnerPool
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Argument, Batch, CallOptions, CallReport, Scalar
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled

GIB = 1 << 30
COUNT = 300
GOOD, FAULT = 0, 2
"""Modes of `obedient.cpp`."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """Sessions over memory of files, and every runner that was started."""

    sessions: Sessions
    supply: Supply
    started: list[GpuRunner]

    @property
    def used(self) -> int:
        """Runners that were given out."""
        return len(self.started) - len(self.sessions.pool)

    @property
    def ended(self) -> list[bool]:
        """Of each."""
        return [not psutil.pid_exists(runner.pid) for runner in self.started]


@asynccontextmanager
async def open_room(
    launch: RunnerLaunch, hardware: Hardware, started: list[GpuRunner]
) -> AsyncIterator[Room]:
    """A room whose GPU has 16 GiB of memory, 5.5 of them to lend."""
    way = replace(launch, host_bytes=0)

    def begin() -> GpuRunner:
        started.append(start_gpu_runner(way))
        return started[-1]

    supply = Supply(11 * GIB // 2)
    sessions = Sessions(
        hardware=replace(hardware, memory_bytes=16 * GIB),
        pool=RunnerPool(begin),
        memory_pool=MemoryPool(supply),
        sealing=HostSealing(),
        flush=L2Flush(size_bytes=1 << 20),
    )
    sessions.pool.refill()
    try:
        yield Room(sessions=sessions, supply=supply, started=started)
    finally:
        await sessions.close()
        assert supply.lent_bytes == 0


def buffers(count: int = COUNT) -> list[BufferSpec]:
    """An input and an output."""
    return [
        BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(count,)),
        BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(count,)),
    ]


def arguments(mode: int = GOOD) -> list[Argument]:
    """Of `solve`, in this mode."""
    return ["x", "y", *(Scalar(value=value, ctype="int") for value in (COUNT, mode))]


async def validate(room: Room, candidate: Compiled) -> None:
    """As a validation goes: calls that nobody times."""
    async with room.sessions.open(candidate) as session:
        assert isinstance(session, GpuTimedSession)
        await call(session)


async def call(session: GpuTimedSession, mode: int = GOOD) -> None:
    """One call that nobody times."""
    session.place(buffers())
    outcome = await session.call(arguments(mode), CallOptions(limit_s=60.0))
    assert isinstance(outcome, IllegalAccess if mode == FAULT else CallReport)


async def measure(room: Room, candidate: Compiled, baseline: Compiled) -> None:
    """As a timing goes: beside a baseline that may be there already."""
    async with (
        room.sessions.open(candidate) as session,
        room.sessions.open_cached(baseline) as ground,
    ):
        for one in (session, ground):
            assert isinstance(one, GpuTimedSession)
            await batch(one)


async def batch(session: GpuTimedSession) -> None:
    """One call that is timed."""
    await session.place_slots(buffers(), 2)
    await session.capture(arguments(), CallOptions())
    assert await session.arm(Batch(order=(1,), key=secrets.token_bytes(16))) is None
    assert isinstance(await session.go(60.0), float)
