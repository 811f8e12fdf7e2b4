"""An event loop whose clock jumps to the next timer, but never past what threads still do."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from virtual_clock import StalledError, run_virtual


async def order_of(seconds: list[float]) -> list[float]:
    ended = []

    async def wait(one: float) -> None:
        await asyncio.sleep(one)
        ended.append(one)

    await asyncio.gather(*map(wait, seconds))
    return ended


def test_an_hour_passes_at_once() -> None:
    async def wait() -> float:
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - before

    began = time.monotonic()
    assert run_virtual(wait()) == pytest.approx(3600)
    assert time.monotonic() - began < 60


def test_waits_end_in_the_order_of_their_length() -> None:
    assert run_virtual(order_of([3.0, 1.0, 2.0, 0.5])) == [0.5, 1.0, 2.0, 3.0]


def test_a_limit_expires_on_the_clock_of_the_loop() -> None:
    async def hurry() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.sleep(8)
        return asyncio.get_running_loop().time()

    assert run_virtual(hurry()) == pytest.approx(7)


def test_the_clock_stands_while_a_thread_works() -> None:
    async def work() -> tuple[float, list[str]]:
        ended: list[str] = []

        async def wait() -> None:
            await asyncio.sleep(100)
            ended.append("timer")

        waiting = asyncio.create_task(wait())
        await asyncio.to_thread(time.sleep, 0.1)
        ended.append("thread")
        now_s = asyncio.get_running_loop().time()
        await waiting
        return now_s, ended

    assert run_virtual(work()) == (0.0, ["thread", "timer"])


def test_threads_answer_in_the_order_in_which_they_were_asked() -> None:
    async def work() -> list[float]:
        ended = []

        async def ask(seconds: float) -> None:
            await asyncio.to_thread(time.sleep, seconds)
            ended.append(seconds)

        await asyncio.gather(*map(ask, [0.2, 0.1, 0.0]))
        return ended

    assert run_virtual(work()) == [0.2, 0.1, 0.0]


def test_an_answer_that_is_there_at_once_waits_for_its_turn() -> None:
    class AtOnce(Executor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> "Future[Any]":
            done: Future[Any] = Future()
            done.set_result(fn(*args, **named))
            return done

    async def work() -> list[str]:
        ended: list[str] = []
        loop = asyncio.get_running_loop()
        slow = asyncio.ensure_future(asyncio.to_thread(time.sleep, 0.1))
        slow.add_done_callback(lambda _: ended.append("slow"))
        await asyncio.sleep(0)
        quick = loop.run_in_executor(AtOnce(), time.time)
        quick.add_done_callback(lambda _: ended.append("quick"))
        await asyncio.gather(slow, quick)
        return ended

    assert run_virtual(work()) == ["slow", "quick"]


def test_the_clock_stands_while_a_database_works(tmp_path: Path) -> None:
    async def work() -> tuple[float, list[tuple[int]]]:
        ticks = asyncio.create_task(asyncio.sleep(50))
        async with aiosqlite.connect(tmp_path / "some.sqlite") as database:
            await database.execute("create table numbers (number integer)")
            for number in range(20):
                await database.execute("insert into numbers values (?)", (number,))
                await database.commit()
            rows = await database.execute_fetchall("select count(*) from numbers")
        now_s = asyncio.get_running_loop().time()
        await ticks
        return now_s, [tuple(one) for one in rows]

    assert run_virtual(work()) == (0.0, [(20,)])


def test_what_a_thread_wants_called_is_called() -> None:
    async def work() -> str:
        loop = asyncio.get_running_loop()
        said: asyncio.Future[str] = loop.create_future()

        def speak() -> None:
            loop.call_soon_threadsafe(lambda: said.set_result("called"))

        await asyncio.to_thread(speak)
        return await said

    assert run_virtual(work()) == "called"


def test_a_socket_is_served() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()

    async def work(path: str) -> bytes:
        async with await asyncio.start_unix_server(echo, path):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"hello\n")
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

    assert run_virtual(work("\0virtual-clock-test")) == b"hello\n"


def test_a_wait_that_nothing_can_end_is_an_error() -> None:
    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StalledError):
        run_virtual(work())
