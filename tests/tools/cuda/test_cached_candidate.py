"""A candidate's session is cached from validation to timing, and ends before others are timed."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import psutil
import pytest
from ended import kill
from runner_room import FAULT, GIB, Room, batch, buffers, call, measure, validate

from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device.candidate import Compiled

Use = Callable[[Callable[[Room], Awaitable[None]]], None]


@pytest.fixture
def other(candidate: Compiled) -> Compiled:
    """Another candidate."""
    return replace(candidate, key="other", name="other.cu")


async def opened(room: Room, candidate: Compiled) -> GpuTimedSession:
    """The session it gets, used for a call."""
    async with room.sessions.open(candidate) as session:
        assert isinstance(session, GpuTimedSession)
        await call(session)
        return session


def test_a_candidate_opened_again_gets_the_same_session(within: Use, candidate: Compiled) -> None:
    async def run(room: Room) -> None:
        first = await opened(room, candidate)
        again = replace(candidate)
        async with room.sessions.open(again) as second:
            assert second is first
            await batch(first)
        assert room.used == 1

    within(run)


def test_another_candidate_in_between_means_a_fresh_runner(
    within: Use, candidate: Compiled, other: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await validate(room, candidate)
        async with room.sessions.open(other) as session:
            assert isinstance(session, GpuTimedSession)
            await batch(session)
            assert room.ended[:2] == [True, False]
        await measure(room, candidate, baseline)
        assert room.used == 4

    within(run)


def test_what_was_timed_is_judged_once_more_in_a_fresh_runner(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await validate(room, candidate)
        await measure(room, candidate, baseline)
        await room.sessions.settle()
        assert room.ended.count(True) == 1
        await validate(room, candidate)
        assert room.used == 3

    within(run)


def test_a_cached_session_ends_before_another_is_timed(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await validate(room, candidate)
        assert room.ended.count(True) == 0
        async with room.sessions.open_cached(baseline) as timed:
            assert isinstance(timed, GpuTimedSession)
            await batch(timed)
            assert room.ended[0]
            assert room.ended.count(True) == 1

    within(run)


def test_while_it_is_in_use_others_have_runners_of_their_own(
    within: Use, candidate: Compiled
) -> None:
    async def run(room: Room) -> None:
        first = await opened(room, candidate)
        async with (
            room.sessions.open(candidate) as one,
            room.sessions.open(candidate) as other,
        ):
            assert isinstance(other, GpuTimedSession)
            assert one is first
            assert other is not first
            await batch(other)
            await batch(first)
        await room.sessions.settle()
        assert room.ended[:2] == [True, True]

    within(run)


def test_a_second_user_of_the_baseline_leaves_the_cached_session_alone(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        first = await opened(room, candidate)
        async with room.sessions.open_cached(baseline), room.sessions.open_cached(baseline):
            pass
        assert await opened(room, candidate) is first

    within(run)


@pytest.mark.parametrize("fault", ["verdict", "exception", "killed"])
def test_nothing_is_cached_after_a_fault(within: Use, candidate: Compiled, fault: str) -> None:
    async def run(room: Room) -> None:
        try:
            async with room.sessions.open(candidate) as session:
                assert isinstance(session, GpuTimedSession)
                if fault == "verdict":
                    await call(session, FAULT)
                elif fault == "exception":
                    raise KeyError
                else:
                    await kill(room.started[0].pid)
        except KeyError:
            assert fault == "exception"
        assert room.sessions.idle_bytes == 0
        assert await opened(room, candidate) is not session
        assert room.used == 2

    within(run)


def test_what_was_killed_while_it_was_cached_is_replaced(within: Use, candidate: Compiled) -> None:
    async def run(room: Room) -> None:
        first = await opened(room, candidate)
        await kill(room.started[0].pid)
        assert await opened(room, candidate) is not first

    within(run)


def test_nothing_is_left_of_a_cached_runner_that_was_killed(
    within: Use, candidate: Compiled
) -> None:
    async def run(room: Room) -> None:
        await validate(room, candidate)
        below = psutil.Process(room.started[0].pid).children(recursive=True)
        assert below
        await kill(below[0].pid)

    within(run)


def test_a_cached_session_ends_where_another_needs_its_memory(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await validate(room, candidate)
        assert room.sessions.idle_bytes > 0
        async with room.sessions.open_cached(baseline) as timed:
            assert isinstance(timed, GpuTimedSession)
            await timed.place_slots(buffers(), 2, scratch_bytes=2 * GIB)
            assert not room.ended[0]
            await timed.place_slots(buffers(), 2, scratch_bytes=3 * GIB)
            assert room.ended[0]
            assert not any(room.ended[1:])

    within(run)
