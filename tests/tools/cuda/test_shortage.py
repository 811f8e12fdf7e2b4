"""Whoever needs more memory than there is gets what others can do without."""

from collections.abc import Awaitable, Callable

import pytest
from runner_room import GIB, Room, arguments, batch, buffers

from cuda_llm.tools.cuda.memory import MemoryFull
from cuda_llm.tools.cuda.protocol import GpuCallFrame
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import CallOptions
from cuda_llm.tools.device.candidate import Compiled

Use = Callable[[Callable[[Room], Awaitable[None]]], None]


LARGE = 80_000_000
"""Elements of which two slots and what `solve` may allocate take less than 3 GiB."""


def test_what_is_kept_makes_room_for_whoever_needs_its_memory(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline):
            pass
        async with room.sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession)
            assert room.ended.count(True) == 0
            await session.place_slots(buffers(LARGE), 2)
            assert room.ended == [True, False, False]

    within(run)


def test_what_nobody_uses_is_given_back_before_other_programs_work(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline):
            pass
        async with room.sessions.open(candidate):
            pass
        async with room.sessions.open(candidate):
            kept = room.supply.lent_bytes
            await room.sessions.release_unused()
            assert 0 < room.supply.lent_bytes < kept
        await room.sessions.release_unused()
        assert room.supply.lent_bytes == 0

    within(run)


def test_whoever_needs_more_memory_waits_for_what_is_ending(
    within: Use, candidate: Compiled
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
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with (
            room.sessions.open_cached(baseline) as ground,
            room.sessions.open(candidate) as session,
        ):
            assert isinstance(ground, GpuTimedSession)
            assert isinstance(session, GpuTimedSession)
            with pytest.raises(MemoryFull):
                await session.place_slots(buffers(2 * LARGE), 2)
            await batch(ground)

    within(run)


def test_memory_that_cannot_grow_stays_as_large_as_it_was(within: Use, candidate: Compiled) -> None:
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


def test_a_call_may_hold_what_a_layout_was_asked_for_and_where_memory_is_short_what_is_left(
    within: Use, candidate: Compiled
) -> None:
    async def quota(session: GpuTimedSession, wanted: int) -> int:
        frame = GpuCallFrame()
        await session.place_slots(buffers(), 2, scratch_bytes=wanted)
        session.arena.fill_solve(frame.solve, arguments(), CallOptions(scratch_bytes=wanted))
        return int(frame.solve.scratch_quota)

    async def run(room: Room) -> None:
        async with room.sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession)
            assert await quota(session, 2 * GIB) == 2 * GIB
            assert 2 * GIB < await quota(session, 6 * GIB) < 4 * GIB
            await batch(session)

    within(run)


def test_a_call_that_nobody_times_may_use_what_a_layout_before_it_had(
    within: Use, candidate: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession)
            await session.place_slots(buffers(), 2, scratch_bytes=2 * GIB)
            session.place(buffers())
            frame = GpuCallFrame()
            session.arena.fill_solve(frame.solve, arguments(), CallOptions(scratch_bytes=2 * GIB))
            assert frame.solve.scratch_quota == 2 * GIB

    within(run)


def test_what_holds_a_large_part_of_the_memory_is_not_kept(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as ground:
            assert isinstance(ground, GpuTimedSession)
            await ground.place_slots(buffers(LARGE), 1)
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)
