"""A coroutine runs for a caller who cannot await it, and ends with Ctrl-C."""

import asyncio
import signal
import subprocess
import sys

import pytest

from cuda_llm.own_thread import run_in_thread


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
