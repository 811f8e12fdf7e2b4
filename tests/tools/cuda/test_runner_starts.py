"""Runners are started and ended where nobody waits for it, and not beside what is timed."""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

from runner_room import FAULT, Room, arguments, batch, buffers, call, measure, validate

from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Batch, CallOptions
from cuda_llm.tools.device.candidate import Compiled

Use = Callable[[Callable[[Room], Awaitable[None]]], None]


def test_a_candidate_costs_one_runner_and_all_of_them_one_for_the_baseline(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        for number in range(5):
            one = replace(candidate, key=f"{number}")
            await validate(room, one)
            await measure(room, one, baseline)
        assert room.used == 5 + 1

    within(run)


def test_a_contest_finds_its_runners_after_a_validation_and_a_timing(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        await validate(room, candidate)
        known = len(room.started)
        async with (
            room.sessions.open(candidate) as one,
            room.sessions.open(candidate) as other,
            room.sessions.open_cached(baseline) as ground,
        ):
            for session in (one, other, ground):
                assert isinstance(session, GpuTimedSession)
                await batch(session)
            assert len(room.started) == known

    within(run)


def test_runners_are_started_where_a_kernel_is_validated_and_not_where_a_timing_ends(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        assert (len(room.started), len(room.sessions.pool)) == (3, 1)
        await validate(room, candidate)
        assert (len(room.started), len(room.sessions.pool)) == (6, 3)

    within(run)


def test_runners_are_started_where_a_timing_ends_if_none_is_left(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        await measure(room, candidate, baseline)
        assert len(room.sessions.pool) == 3

    within(run)


def test_a_call_beside_what_is_timed_starts_no_runner(within: Use, candidate: Compiled) -> None:
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
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        await measure(room, candidate, baseline)
        async with room.sessions.open(candidate) as other:
            assert isinstance(other, GpuTimedSession)
            await call(other, FAULT)
        async with room.sessions.open_cached(baseline) as ground:
            assert isinstance(ground, GpuTimedSession)
            await ground.place_slots(buffers(), 1)
            await ground.capture(arguments(), CallOptions())
            assert await ground.arm(Batch(order=(0,), key=secrets.token_bytes(16))) is None
            assert room.ended.count(True) == 2
            known = len(room.started)
            assert isinstance(await ground.go(60.0), float)
            assert (len(room.started), room.ended.count(True)) == (known, 2)

    within(run)
