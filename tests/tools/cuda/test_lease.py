"""One GPU, one holder: among tasks, processes and the dead."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_llm.tools.cuda.lease import Lease

pytestmark = pytest.mark.usefixtures("found_by_children")

HOLDER = """
import asyncio, sys
from cuda_llm.tools.cuda.lease import Lease

async def hold():
    lease = Lease("GPU-1", "cuda:0", print)
    for turn in range(int(sys.argv[1])):
        async with lease.held():
            print("held", flush=True)
            if sys.argv[2]:
                await asyncio.sleep(float(sys.argv[2]))
            else:
                sys.stdin.read()

asyncio.run(hold())
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))


def hold_elsewhere(turns: int, seconds: float | None = None) -> "subprocess.Popen[str]":
    """Another process, once it holds the lease, for so long each time or until its input ends."""
    command = [sys.executable, "-P", "-c", HOLDER, str(turns), str(seconds or "")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_tasks_get_it_one_at_a_time_in_order_of_arrival() -> None:
    lease = Lease("GPU-1", "cuda:0", print)
    order: list[int] = []
    inside: list[int] = []

    async def use(number: int) -> None:
        async with lease.held():
            inside.append(number)
            await asyncio.sleep(0.002)
            assert inside == [number]
            inside.remove(number)
            order.append(number)

    async def use_all() -> None:
        await asyncio.gather(*map(use, range(8)))

    asyncio.run(use_all())
    assert order == list(range(8))


def test_two_leases_of_one_process_exclude_each_other() -> None:
    async def use() -> None:
        async with Lease("GPU-1", "cuda:0", print).held():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1), Lease("GPU-1", "cuda:0", print).held():
                    pass
            async with Lease("GPU-2", "cuda:1", print).held():
                pass

    asyncio.run(use())


def test_a_process_that_waits_says_for_whom(tmp_path: Path) -> None:
    lines: list[str] = []
    holder = hold_elsewhere(1)

    def report(line: str) -> None:
        lines.append(line)
        assert holder.stdin is not None
        holder.stdin.close()

    lease = Lease("GPU-1", "cuda:0", report)
    assert lease.holder() == holder.pid

    async def use() -> None:
        async with lease.held():
            pass

    with holder:
        asyncio.run(use())
    assert lines == [f"cuda:0 is in use by process {holder.pid}; waiting"]
    assert lease.holder() is None


def test_a_holder_that_is_killed_lets_go() -> None:
    holder = hold_elsewhere(1, 60)
    holder.kill()

    async def use() -> None:
        lease = Lease("GPU-1", "cuda:0", print)
        async with asyncio.timeout(60), lease.held():
            assert lease.holder() == os.getpid()

    asyncio.run(use())
    holder.communicate()


def test_a_process_that_wants_it_again_and_again_lets_others_in() -> None:
    holder = hold_elsewhere(1000, 0.05)

    async def use() -> None:
        async with Lease("GPU-1", "cuda:0", print).held():
            pass

    asyncio.run(use())
    assert holder.poll() is None, "it wants the lease for fifty seconds"
    holder.kill()
    holder.communicate()


def test_whoever_is_cancelled_while_waiting_holds_up_nobody() -> None:
    lease = Lease("GPU-1", "cuda:0", print)

    async def use() -> None:
        async with lease.held():
            waiting = asyncio.create_task(enter())
            await asyncio.sleep(0.02)
            waiting.cancel()
        async with asyncio.timeout(60), lease.held():
            assert lease.holder() == os.getpid()

    async def enter() -> None:
        async with lease.held():
            raise AssertionError("it was held")

    asyncio.run(use())
