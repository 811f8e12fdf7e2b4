"""A coroutine runs for a caller who cannot await it, and ends with Ctrl-C."""

import asyncio
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.own_thread import LoopThread, run_in_thread


async def answer() -> int:
    await asyncio.sleep(0)
    return 7


async def fail() -> None:
    raise ValueError("as it is")


def test_it_runs_where_a_loop_runs_already() -> None:
    async def caller() -> int:
        return run_in_thread(answer())

    assert asyncio.run(caller()) == 7


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ValueError, match=r"^as it is$"):
        run_in_thread(fail())


def test_works_of_several_threads_are_done_in_one_loop() -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    with LoopThread("a thread") as thread, ThreadPoolExecutor(3) as callers:
        loops = {*callers.map(lambda _: thread.run(loop()), range(6)), thread.run(loop())}
        assert len(loops) == 1
    with pytest.raises(UsageError, match=r"^a thread is closed; open another one$"):
        thread.run(loop())


def test_a_caller_that_is_cancelled_waits_for_the_end_of_its_work() -> None:
    ended = []

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.append(True)

    async def give_up(thread: LoopThread) -> None:
        waiting = asyncio.create_task(thread.await_from_here(wait()))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert ended == [True]
        assert waiting.cancelled()

    with LoopThread() as thread:
        asyncio.run(give_up(thread))


def test_closing_ends_what_is_left_and_says_so_to_its_callers() -> None:
    both = threading.Barrier(3)

    async def wait() -> None:
        await asyncio.to_thread(both.wait)
        await asyncio.sleep(60)

    thread = LoopThread("a thread")
    with ThreadPoolExecutor(2) as callers:
        left = callers.submit(thread.run, wait())
        awaited = callers.submit(lambda: asyncio.run(thread.await_from_here(wait())))
        both.wait()
        thread.close()
        for one in (left, awaited):
            with pytest.raises(UsageError, match=r"^a thread was closed meanwhile"):
                one.result(timeout=30)


SCRIPT = """
import asyncio, signal
from cuda_llm.own_thread import run_in_thread

async def wait():
    try:
        print("begun", flush=True)
        await asyncio.sleep(60)
    finally:
        print("ended", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    run_in_thread(wait())
except KeyboardInterrupt:
    print("heard", flush=True)
"""


def test_ctrl_c_ends_it_before_it_is_raised() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "ended\nheard\n"
    assert process.returncode == 0


EARLY = """
import asyncio, signal
from cuda_llm.own_thread import await_here

class Interrupted(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self):
        signal.raise_signal(signal.SIGINT)
        return super().new_event_loop()

async def work():
    print("begun", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)
asyncio.set_event_loop_policy(Interrupted())
try:
    await_here(work())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_while_the_event_loop_is_made_leaves_nothing_behind() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-c", EARLY], capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("interrupted\n", "")
