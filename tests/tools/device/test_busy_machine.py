"""Waiting for a processor costs a runner none of its time; waiting for anything else does."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from cuda_llm.tools.device.channel import RunnerSocket
from cuda_llm.tools.device.child import spawn
from cuda_llm.tools.device.protocol import ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import Runner, RunnerEnded, find_queued_s

SPIN = "echo; while :; do :; done"
DONE = bytes(ReplyFrame(reply=RunnerReply.DONE, sequence=1))
WORK = f"""
import os, socket, sys, time
{{step}}
socket.socket(fileno=int(sys.argv[1])).send({DONE!r})
time.sleep(60)
"""
COMPUTES = "while time.process_time() < 1.0: pass"
SLEEPS = "time.sleep(60)"
LIMIT_S = 1.4
"""Seconds that a runner has, of which its work takes one."""


@contextlib.asynccontextmanager
async def runner_that(step: str, processor: int) -> AsyncIterator[Runner]:
    """A process that does one thing, on one processor, and replies."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        child = spawn([sys.executable, "-S", "-c", WORK.format(step=step), str(number)], (number,))
    os.sched_setaffinity(child.pid, {processor})
    runner = Runner(child, (), RunnerSocket(ours), alarm=False)
    try:
        yield runner
    finally:
        await runner.stop()


@contextlib.contextmanager
def loops_on(processor: int, count: int) -> Iterator[None]:
    """Processes that compute on one processor, from before the block until after it."""
    command = ["sh", "-c", SPIN]
    spinning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    for one in spinning:
        os.sched_setaffinity(one.pid, {processor})
        assert one.stdout is not None and one.stdout.readline(), "a loop has not begun"
    try:
        yield
    finally:
        for one in spinning:
            with one:
                one.kill()


@pytest.fixture
def processor() -> int:
    return min(os.sched_getaffinity(0))


async def wait_for_it(runner: Runner, limit_s: float) -> ReplyFrame | RunnerEnded:
    outcome = await runner.receive_reply(lambda _: True, limit_s)
    assert isinstance(outcome, ReplyFrame | RunnerEnded)
    return outcome


def test_what_computes_may_take_longer_where_others_compute_too(processor: int) -> None:
    async def run() -> tuple[ReplyFrame | RunnerEnded, float, float]:
        async with runner_that(COMPUTES, processor) as runner:
            begun = time.monotonic()
            outcome = await wait_for_it(runner, LIMIT_S)
            return outcome, time.monotonic() - begun, find_queued_s(runner.pids)

    # How much of a processor a process gets beside loops is the scheduler's to say: the more loops,
    # the less.
    for loops in (2, 4, 6):
        with loops_on(processor, loops):
            outcome, took_s, queued_s = asyncio.run(run())
        # One second of work; waiting counts for nothing, up to five times the limit.
        assert isinstance(outcome, ReplyFrame), (
            f"ended after {took_s} s, {queued_s} s of them queued"
        )
        if took_s > LIMIT_S:
            break
    assert took_s > LIMIT_S and queued_s > 0.2


def test_what_sleeps_has_no_more_than_its_time(processor: int) -> None:
    async def run() -> ReplyFrame | RunnerEnded:
        async with runner_that(SLEEPS, processor) as runner:
            return await wait_for_it(runner, 0.5)

    with loops_on(processor, 2):
        outcome = asyncio.run(run())
    assert isinstance(outcome, RunnerEnded) and outcome.expired


def test_nothing_is_known_of_a_process_that_is_gone() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert find_queued_s([child.pid]) == 0
