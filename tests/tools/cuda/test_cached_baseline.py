"""The baseline's session is cached: it serves one user after another, and no two at once."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from ended import kill
from runner_room import FAULT, Room, batch, buffers, call

from cuda_llm.outcomes import LoadFailed
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Batch
from cuda_llm.tools.device.candidate import Compiled

Use = Callable[[Callable[[Room], Awaitable[None]]], None]


def test_the_next_user_finds_the_same_session_but_no_layout_captured(
    within: Use, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
            await batch(first)
        async with room.sessions.open_cached(baseline) as second:
            assert second is first
            await first.place_slots(buffers(), 2)
            with pytest.raises(ValueError, match="nothing of this layout has been captured"):
                await first.arm(Batch(order=(0,), key=secrets.token_bytes(16)))
            with pytest.raises(ValueError, match="no batch is armed"):
                await first.go(1.0)
            await batch(first)
        assert room.used == 1

    within(run)


def test_two_users_at_once_have_a_session_each(within: Use, baseline: Compiled) -> None:
    async def use(room: Room, together: asyncio.Barrier) -> object:
        async with room.sessions.open_cached(baseline) as session:
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


def test_another_program_replaces_the_cached_one(
    within: Use, candidate: Compiled, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
        async with room.sessions.open_cached(candidate) as second:
            assert second is not first
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)


def test_a_program_that_does_not_load_is_not_cached(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        missing = replace(baseline, library=baseline.library.with_name("missing.so"))
        async with room.sessions.open_cached(missing) as session:
            assert isinstance(session, LoadFailed)
        async with room.sessions.open_cached(baseline) as session:
            assert isinstance(session, GpuTimedSession)

    within(run)


def test_a_verdict_ends_the_cached_session(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
            await call(first, FAULT)
        async with room.sessions.open_cached(baseline) as second:
            assert second is not first
            assert isinstance(second, GpuTimedSession)
            await batch(second)

    within(run)


def test_an_exception_in_use_ends_the_cached_session(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        with pytest.raises(KeyError):
            async with room.sessions.open_cached(baseline):
                raise KeyError
        await room.sessions.settle()
        assert room.ended.count(True) == 1

    within(run)


def test_what_was_killed_while_it_was_idle_is_replaced(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
        await kill(room.started[0].pid)
        async with room.sessions.open_cached(baseline) as second:
            assert second is not first
            assert isinstance(second, GpuTimedSession)
            await batch(second)

    within(run)


def test_what_was_retired_is_not_used_again_and_its_memory_goes_back_to_the_device(
    within: Use, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
            await batch(first)
        retired = file_of(first)
        room.sessions.retire_cached()
        async with room.sessions.open(baseline) as beside:
            assert isinstance(beside, GpuTimedSession)
            await batch(beside)
            assert file_of(beside) != retired
        assert not room.ended[0], "nobody else may get its memory meanwhile"
        assert retired.exists()
        async with room.sessions.open_cached(baseline) as second:
            assert isinstance(second, GpuTimedSession)
            await batch(second)
            assert file_of(second) != retired
        await room.sessions.settle()
        assert room.ended[0]
        assert not retired.exists()

    within(run)


def test_retiring_nothing_changes_nothing(within: Use, baseline: Compiled) -> None:
    async def run(room: Room) -> None:
        room.sessions.retire_cached()
        async with room.sessions.open_cached(baseline) as first:
            assert isinstance(first, GpuTimedSession)
        async with room.sessions.open_cached(baseline) as second:
            assert second is first

    within(run)


def file_of(session: object) -> Path:
    """The file that stands for the memory of a session."""
    assert isinstance(session, GpuTimedSession)
    return Path(session.arena.memory.handle.rstrip(b"\0").decode())


def test_nothing_is_left_of_a_cached_runner_that_was_killed(
    within: Use, baseline: Compiled
) -> None:
    async def run(room: Room) -> None:
        async with room.sessions.open_cached(baseline):
            below = psutil.Process(room.started[0].pid).children(recursive=True)
        assert below
        await kill(below[0].pid)

    within(run)
