"""Packets of a runner are received in time, whatever else the thread does meanwhile."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from cuda_llm.tools.device.channel import RunnerSocket

LIMIT_S = 0.1


@pytest.fixture
def ends() -> Iterator[tuple[RunnerSocket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        near = RunnerSocket(ours)
        yield near, theirs
        near.close()


def test_a_packet_that_came_while_the_thread_was_busy_past_the_limit_is_received(
    ends: tuple[RunnerSocket, socket.socket],
) -> None:
    near, far = ends

    async def run() -> bytes:
        receiving = asyncio.ensure_future(near.receive(LIMIT_S))
        await asyncio.sleep(0)
        far.send(b"done")
        time.sleep(3 * LIMIT_S)
        return await receiving

    assert asyncio.run(run()) == b"done"


def test_packets_are_received_in_order_and_a_closed_end_is_an_empty_packet(
    ends: tuple[RunnerSocket, socket.socket],
) -> None:
    near, far = ends

    async def run() -> list[bytes]:
        far.send(b"one")
        first = [await near.receive(LIMIT_S)]
        receiving = asyncio.ensure_future(near.receive(60.0))
        await asyncio.sleep(0)
        far.send(b"two")
        second = await receiving
        far.close()
        return [*first, second, await near.receive(60.0)]

    assert asyncio.run(run()) == [b"one", b"two", b""]


def test_where_nothing_comes_the_time_is_over(ends: tuple[RunnerSocket, socket.socket]) -> None:
    near, _ = ends
    with pytest.raises(TimeoutError):
        asyncio.run(near.receive(LIMIT_S))
    assert not near.has_packet()
