"""Timed batches with a runner that has no GPU: sealed, solved, tagged, in the order asked for."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cuda_llm.outcomes import IllegalAccess, InfraFailed, TimedOut
from cuda_llm.tools.cuda.sessions import Sessions
from cuda_llm.tools.cuda.timed_session import GpuTimedSession
from cuda_llm.tools.device import Argument, Batch, CallOptions, Scalar, TimeClass
from cuda_llm.tools.device.buffers import BufferSpec, Role, Slots
from cuda_llm.tools.device.candidate import Compiled

SOURCE = Path(__file__).parents[2] / "fixtures" / "gpu_runner" / "obedient.cpp"
MODES = re.findall(r"\w+", SOURCE.read_text().partition("enum Mode {")[2].partition("}")[0])
COUNT = 333
SLOTS = 5
Opened = Callable[..., AbstractAsyncContextManager[Sessions]]

BUFFERS = [
    BufferSpec(name="x", role=Role.IN, dtype="float32", shape=(COUNT,)),
    BufferSpec(name="y", role=Role.OUT, dtype="float32", shape=(3, COUNT // 3)),
]


def arguments(mode: str) -> list[Argument]:
    return ["x", "y", *(Scalar(value=v, ctype="int") for v in (COUNT, MODES.index(mode)))]


@asynccontextmanager
async def captured(
    opened: Opened, candidate: Compiled, mode: str
) -> AsyncIterator[tuple[GpuTimedSession, Slots, TimeClass]]:
    async with opened() as sessions, sessions.open(candidate) as session:
        assert isinstance(session, GpuTimedSession)
        slots = await session.place_slots(BUFFERS, SLOTS)
        kind = await session.capture(arguments(mode), CallOptions())
        assert isinstance(kind, TimeClass)
        yield session, slots, kind


def batch(*order: int, solve: bool = True) -> Batch:
    return Batch(order=order, key=secrets.token_bytes(16), solve=solve)


def sealed(session: GpuTimedSession, one: Batch) -> dict[int, npt.NDArray[np.float32]]:
    """Fresh contents for each slot of a batch, sealed."""
    contents = {slot: np.random.default_rng(slot).random(COUNT, np.float32) for slot in one.order}
    session.seal(one.order, [one.key] * len(one.order), {"x": np.stack([*contents.values()])})
    return contents


def test_every_call_of_a_batch_sees_its_own_fresh_input(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, slots, kind):
            one = batch(3, 0, 4)
            contents = sealed(session, one)
            for slot in slots:
                slot.buffers["x"].data[...] = slot.buffers["y"].data[...] = -1
            assert await session.arm(one) is None
            seconds = await session.go(60.0)
            assert isinstance(seconds, float)
            assert 0 < seconds < 5
            for number, values in contents.items():
                assert (slots[number].buffers["x"].data == values).all()
                assert (slots[number].buffers["y"].data.reshape(-1) == values + 1).all()
            for number in {1, 2}:
                assert (slots[number].buffers["y"].data == -1).all()
            assert kind is TimeClass.DEVICE
            assert session.find_late_write() is None

    asyncio.run(run())


def test_what_is_sealed_shows_nothing_of_its_contents(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, slots, _):
            zeros = {"x": np.zeros((2, COUNT), np.float32)}
            session.seal((0, 1), [bytes(range(16))] * 2, zeros)
            first, second = (np.array(slots[slot].sealed["x"]) for slot in (0, 1))
            assert first.size == COUNT * 4
            assert (first != second).mean() > 0.9
            assert np.unique(first).size > 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("slots", "contents", "message"),
    [
        ((0, SLOTS), np.zeros((2, COUNT), np.float32), "there are 5 slots"),
        ((0, 1), np.zeros(COUNT, np.float32), "x is float32"),
        ((0, 1), np.zeros((2, COUNT), np.int32), "x is float32"),
    ],
)
def test_what_does_not_fit_the_slots_is_not_sealed(
    open_sessions: Opened,
    candidate: Compiled,
    slots: tuple[int, ...],
    contents: npt.NDArray[np.generic],
    message: str,
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, _, _):
            session.seal(slots, [bytes(16)] * len(slots), {"x": contents})

    with pytest.raises(ValueError, match=message):
        asyncio.run(run())


def test_a_late_write_is_found_in_any_slot_of_the_batch_alone(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, slots, _):
            one = batch(4, 0, 3)
            sealed(session, one)
            assert await session.arm(one) is None
            assert isinstance(await session.go(60.0), float)
            for number, slot in enumerate(slots):
                slot.buffers["y"].data[2, -1] += 1
                assert session.find_late_write() == ("y" if number in one.order else None)
                slot.buffers["y"].data[2, -1] -= 1

    asyncio.run(run())


def stepwise(*order: int) -> Batch:
    keys = tuple(secrets.token_bytes(16) for _ in order)
    return Batch(order=order, key=b"", keys=keys)


def sealed_apart(session: GpuTimedSession, one: Batch) -> dict[int, npt.NDArray[np.float32]]:
    """Fresh contents for each slot, each under its own key."""
    contents = {slot: np.random.default_rng(slot).random(COUNT, np.float32) for slot in one.order}
    session.seal(one.order, one.keys, {"x": np.stack([*contents.values()])})
    return contents


def test_keys_of_a_stepwise_batch_come_one_by_one_and_open_each_its_own_inputs(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, slots, _):
            for order in ((3, 0, 4), (1,)):
                one = stepwise(*order)
                contents = sealed_apart(session, one)
                assert await session.arm(one) is None
                assert isinstance(await session.go(60.0), float)
                for number, values in contents.items():
                    assert (slots[number].buffers["y"].data.reshape(-1) == values + 1).all()
                assert session.find_late_write() is None
                slots[order[0]].buffers["y"].data[0, 0] += 1
                assert session.find_late_write() == "y"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "outcome"), [("hang_in_third", TimedOut), ("fault_in_third", IllegalAccess)]
)
def test_a_call_that_ends_badly_ends_a_stepwise_batch(
    open_sessions: Opened, candidate: Compiled, mode: str, outcome: type
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, mode) as (session, _, _):
            one = stepwise(3, 0, 4, 1)
            sealed_apart(session, one)
            assert await session.arm(one) is None
            assert isinstance(await session.go(0.5), outcome)

    asyncio.run(run())


def test_where_keys_cannot_be_handed_out_the_session_says_why_and_goes_on(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "secretive") as (session, _, _):
            one = stepwise(0, 1)
            sealed_apart(session, one)
            assert session.not_stepwise == ""
            assert isinstance(await session.arm(one), InfraFailed)
            assert "cudaErrorOperatingSystem" in session.not_stepwise
            other = batch(0, 1)
            sealed(session, other)
            assert await session.arm(other) is None
            assert isinstance(await session.go(60.0), float)

    asyncio.run(run())


def test_a_batch_has_one_key_or_one_for_each_step(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, _, _):
            await session.arm(Batch(order=(0, 1), key=b"", keys=(bytes(16),)))

    with pytest.raises(ValueError, match="one for each step"):
        asyncio.run(run())


def test_without_the_call_only_inputs_are_opened(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, slots, _):
            one = batch(2, solve=False)
            contents = sealed(session, one)
            slots[2].buffers["y"].data[...] = 9
            assert await session.arm(one) is None
            assert isinstance(await session.go(60.0), float)
            assert (slots[2].buffers["x"].data == contents[2]).all()
            assert (slots[2].buffers["y"].data == 9).all()

    asyncio.run(run())


def test_an_output_that_changes_after_its_call_is_found(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "write_late") as (session, _, _):
            one = batch(1, 2)
            sealed(session, one)
            assert await session.arm(one) is None
            assert isinstance(await session.go(60.0), float)
            assert session.find_late_write() == "y"

    asyncio.run(run())


def test_a_solve_that_reads_back_is_of_its_own_class(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "read_back") as (_, _, kind):
            assert kind is TimeClass.HOST_INCLUSIVE

    asyncio.run(run())


def test_a_batch_out_of_time_is_a_kernel_out_of_time(
    open_sessions: Opened, candidate: Compiled
) -> None:
    async def run() -> None:
        async with open_sessions() as sessions, sessions.open(candidate) as session:
            assert isinstance(session, GpuTimedSession)
            await session.place_slots(BUFFERS, 1)
            assert isinstance(await session.call(arguments("good"), CallOptions()), object)
            assert await session.capture(arguments("good"), CallOptions()) is TimeClass.DEVICE
            one = batch(0)
            assert await session.arm(one) is None
            assert isinstance(await session.go(60.0), float)
            # The runner's present call decides what a batch does.
            hung = await session.call(arguments("hang"), CallOptions(limit_s=0.1))
            assert isinstance(hung, TimedOut)
            assert await session.arm(one) is hung

    asyncio.run(run())


@pytest.mark.parametrize("order", [(), (1, 1)])
def test_a_batch_without_steps_or_with_a_slot_twice_is_refused(
    open_sessions: Opened, candidate: Compiled, order: tuple[int, ...]
) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, _, _):
            await session.arm(batch(*order))

    with pytest.raises(ValueError, match="no slot twice"):
        asyncio.run(run())


def test_nothing_goes_before_it_is_armed(open_sessions: Opened, candidate: Compiled) -> None:
    async def run() -> None:
        async with captured(open_sessions, candidate, "good") as (session, _, _):
            await session.go(1.0)

    with pytest.raises(ValueError, match="no batch is armed"):
        asyncio.run(run())
