"""The runner of a trusted program serves more than one user, and no two at once."""

import asyncio
import gc
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import psutil
import pytest
from file_memory import Supply

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import IllegalAccess, LoadFailed
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import Argument, Batch, BufferSpec, CallOptions, CallReport, Role, Scalar
from cuda_llm.tools.gpu.arenas import Arenas
from cuda_llm.tools.gpu.layout import ArenaFull
from cuda_llm.tools.gpu.process import GpuRunner, Launch, start
from cuda_llm.tools.gpu.sealing import HostSealing
from cuda_llm.tools.gpu.sessions import Sessions
from cuda_llm.tools.gpu.spares import Spares
from cuda_llm.tools.gpu.timed import GpuTimedSession

GIB = 1 << 30
COUNT = 300
GOOD, HANG, FAULT = 0, 1, 2
"""Modes of `obedient.cpp`."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Room:
    """Sessions over memory of files, and every runner that was started."""

    sessions: Sessions
    supply: Supply
    started: list[GpuRunner]

    @property
    def used(self) -> int:
        """Runners that were given out."""
        return len(self.started) - len(self.sessions.spares)

    @property
    def ended(self) -> list[bool]:
        """Of each."""
        return [not psutil.pid_exists(runner.pid) for runner in self.started]


In = Callable[[Callable[[Room], Awaitable[T]]], T]


@pytest.fixture
def within(launch: Launch, hardware: Hardware) -> Iterator[In[None]]:
    """Use a room whose GPU has 5.5 GiB of memory to lend; no runner is left of it."""
    way = replace(launch, host_bytes=0)

    @asynccontextmanager
    async def opened(started: list[GpuRunner]) -> AsyncIterator[Room]:
        def begin() -> GpuRunner:
            started.append(start(way))
            return started[-1]

        supply = Supply(11 * GIB // 2)
        sessions = Sessions(
            hardware=replace(hardware, memory_bytes=16 * GIB),
            spares=Spares(begin),
            arenas=Arenas(supply),
            sealing=HostSealing(),
        )
        sessions.spares.refill()
        try:
            yield Room(sessions=sessions, supply=supply, started=started)
        finally:
            await sessions.close()
            assert supply.lent_bytes == 0

    def use(body: Callable[[Room], Awaitable[None]]) -> None:
        started: list[GpuRunner] = []

        async def run() -> None:
            async with opened(started) as room:
                await body(room)

        asyncio.run(run())
        assert not any(psutil.pid_exists(runner.pid) for runner in started)

    yield use
    # A map holds a descriptor, which other tests count.
    gc.collect()


@pytest.fixture
def baseline(candidate: Compiled) -> Compiled:
    """Another program."""
    return replace(candidate, key="baseline", name="baseline.cu")


def buffers(count: int = COUNT) -> list[BufferSpec]:
    return [
        BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(count,)),
        BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(count,)),
    ]


def arguments(mode: int = GOOD) -> list[Argument]:
    return ["x", "y", *(Scalar(value=value, ctype="int") for value in (COUNT, mode))]


async def validate(room: Room, candidate: Compiled) -> None:
    """As a validation goes: calls that nobody times."""
    async with room.sessions.open(candidate) as session:
        assert isinstance(session, GpuTimedSession)
        await call(session)


async def call(session: GpuTimedSession, mode: int = GOOD) -> None:
    session.place(buffers())
    outcome = await session.call(arguments(mode), CallOptions(limit_s=5.0))
    assert isinstance(outcome, IllegalAccess if mode == FAULT else CallReport)


async def measure(room: Room, candidate: Compiled, baseline: Compiled) -> None:
    """As a timing goes: beside a baseline that may be there already."""
    async with (
        room.sessions.open(candidate) as session,
        room.sessions.keep(baseline) as ground,
    ):
        for one in (session, ground):
            assert isinstance(one, GpuTimedSession)
            await batch(one)


async def batch(session: GpuTimedSession) -> None:
    await session.place_slots(buffers(), 2)
    await session.capture(arguments(), CallOptions())
    assert await session.arm(Batch(order=(1,), key=secrets.token_bytes(16))) is None
    assert isinstance(await session.go(5.0), float)


def test_a_candidate_costs_two_runners_and_all_of_them_one_for_the_baseline(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        for _ in range(5):
            await validate(room, candidate)
            await measure(room, candidate, baseline)
        assert room.used == 2 * 5 + 1

    within(run)


def test_a_contest_finds_two_fresh_runners_after_a_validation_and_a_timing(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        await validate(room, candidate)
        known = len(room.started)
        async with (
            room.sessions.open(candidate) as one,
            room.sessions.open(candidate) as other,
            room.sessions.keep(baseline) as ground,
        ):
            for session in (one, other, ground):
                assert isinstance(session, GpuTimedSession)
                await batch(session)
            assert len(room.started) == known

    within(run)


def test_runners_are_started_where_a_kernel_is_validated_and_not_where_a_timing_ends(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        assert (len(room.started), len(room.sessions.spares)) == (3, 1)
        await validate(room, candidate)
        assert (len(room.started), len(room.sessions.spares)) == (6, 3)

    within(run)


def test_runners_are_started_where_a_timing_ends_if_none_is_left(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        await measure(room, candidate, baseline)
        assert len(room.sessions.spares) == 3

    within(run)


def test_a_call_beside_what_is_timed_starts_no_runner(
    within: In[None], candidate: Compiled
) -> None:
    """A baseline that is the oracle is called between batches."""

    async def run(room: Room) -> None:
        async with (
            room.sessions.open(candidate) as oracle,
            room.sessions.open(candidate) as session,
        ):
            assert isinstance(oracle, GpuTimedSession)
            assert isinstance(session, GpuTimedSession)
            await batch(session)
            await call(oracle)
            assert len(room.started) == 3

    within(run)


def test_when_a_batch_is_armed_nothing_starts_or_ends(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        async with room.sessions.open(candidate) as other:
            assert isinstance(other, GpuTimedSession)
            await call(other, FAULT)
        async with room.sessions.keep(baseline) as ground:
            assert isinstance(ground, GpuTimedSession)
            await ground.place_slots(buffers(), 1)
            await ground.capture(arguments(), CallOptions())
            assert await ground.arm(Batch(order=(0,), key=secrets.token_bytes(16))) is None
            assert room.ended.count(True) == 2
            known = len(room.started)
            assert isinstance(await ground.go(5.0), float)
            assert (len(room.started), room.ended.count(True)) == (known, 2)

    within(run)


def test_the_next_user_finds_the_same_session_but_no_layout_captured(
    within: In[None], baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline) as first:
            assert isinstance(first, GpuTimedSession)
            await batch(first)
        async with room.sessions.keep(baseline) as second:
            assert second is first
            await first.place_slots(buffers(), 2)
            with pytest.raises(ValueError, match="nothing of this layout has been captured"):
                await first.arm(Batch(order=(0,), key=secrets.token_bytes(16)))
            with pytest.raises(ValueError, match="no batch is armed"):
                await first.go(1.0)
            await batch(first)
        assert room.used == 1

    within(run)


def test_two_users_at_once_have_a_session_each(within: In[None], baseline: Compiled) -> None:
    async def use(room: Room, together: asyncio.Barrier) -> object:
        async with room.sessions.keep(baseline) as session:
            assert isinstance(session, GpuTimedSession)
            await together.wait()
            await batch(session)
            await together.wait()
            return session

    async def run(room: Room) -> None:
        for _ in range(2):
            together = asyncio.Barrier(2)
            one, other = await asyncio.gather(use(room, together), use(room, together))
            assert one is not other
        assert room.used == 3

    within(run)


def test_another_program_takes_the_place_of_what_was_kept(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline) as first:
            assert isinstance(first, GpuTimedSession)
        async with room.sessions.keep(candidate) as second:
            assert second is not first
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)


def test_a_program_that_does_not_load_is_not_kept(within: In[None], baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        missing = replace(baseline, library=baseline.library.with_name("missing.so"))
        async with room.sessions.keep(missing) as session:
            assert isinstance(session, LoadFailed)
        async with room.sessions.keep(baseline) as session:
            assert isinstance(session, GpuTimedSession)

    within(run)


def test_a_verdict_ends_what_was_kept(within: In[None], baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline) as first:
            assert isinstance(first, GpuTimedSession)
            await call(first, FAULT)
        async with room.sessions.keep(baseline) as second:
            assert second is not first
            assert isinstance(second, GpuTimedSession)
            await batch(second)

    within(run)


def test_an_exception_while_it_is_used_ends_what_was_kept(
    within: In[None], baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        with pytest.raises(KeyError):
            async with room.sessions.keep(baseline):
                raise KeyError
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)


def test_what_was_killed_while_nobody_used_it_is_replaced(
    within: In[None], baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline) as first:
            assert isinstance(first, GpuTimedSession)
        os.kill(room.started[0].pid, signal.SIGKILL)
        await asyncio.sleep(0.05)
        async with room.sessions.keep(baseline) as second:
            assert second is not first
            assert isinstance(second, GpuTimedSession)
            await batch(second)

    within(run)


def test_nothing_is_left_of_a_kept_runner_that_was_killed(
    within: In[None], baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline):
            below = psutil.Process(room.started[0].pid).children(recursive=True)
        assert below
        os.kill(below[0].pid, signal.SIGKILL)
        await asyncio.sleep(0.05)

    within(run)


LARGE = 80_000_000
"""Elements of which two slots and what `solve` may allocate take less than 3 GiB."""


def test_what_is_kept_makes_room_for_whoever_needs_its_memory(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline):
            pass
        async with room.sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession)
            assert room.ended.count(True) == 0
            await session.place_slots(buffers(LARGE), 2)
            assert room.ended == [True, False, False]

    within(run)


def test_whoever_needs_more_memory_waits_for_what_is_ending(
    within: In[None], candidate: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open(candidate) as session:
            async with room.sessions.open(candidate):
                pass
            assert isinstance(session, GpuTimedSession)
            await session.place_slots(buffers(LARGE), 2)
            assert room.ended[:2] == [False, True]

    within(run)


def test_what_is_in_use_is_not_ended_for_its_memory(
    within: In[None], candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with (
            room.sessions.keep(baseline) as ground,
            room.sessions.open(candidate) as session,
        ):
            assert isinstance(ground, GpuTimedSession)
            assert isinstance(session, GpuTimedSession)
            with pytest.raises(ArenaFull):
                await session.place_slots(buffers(2 * LARGE), 2)
            await batch(ground)

    within(run)


def test_memory_that_cannot_grow_stays_as_large_as_it_was(
    within: In[None], candidate: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with (
            room.sessions.open(candidate),
            room.sessions.open(candidate),
            room.sessions.open(candidate) as session,
        ):
            assert isinstance(session, GpuTimedSession)
            lent_bytes = room.supply.lent_bytes
            await session.place_slots(buffers(60_000_000), 1)
            assert room.supply.lent_bytes == lent_bytes

    within(run)


def test_what_holds_a_large_part_of_the_memory_is_not_kept(
    within: In[None], baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.keep(baseline) as ground:
            assert isinstance(ground, GpuTimedSession)
            await ground.place_slots(buffers(LARGE), 1)
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)
