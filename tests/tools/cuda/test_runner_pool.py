"""Runners wait for candidates, are replaced when they are taken or die, and all end."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
from ended import kill

from cuda_llm.tools.cuda.runner import GpuRunner, Namespaces, RunnerLaunch, start_gpu_runner
from cuda_llm.tools.cuda.session_resources import RunnerPool


def counting(launch: RunnerLaunch) -> tuple[Callable[[], GpuRunner], list[GpuRunner]]:
    """Starts runners and remembers them."""
    started: list[GpuRunner] = []

    def begin() -> GpuRunner:
        started.append(start_gpu_runner(launch))
        return started[-1]

    return begin, started


def test_the_first_started_is_taken_and_replaced_when_nobody_is_disturbed(
    launch: RunnerLaunch,
) -> None:
    begin, started = counting(launch)

    async def run() -> None:
        pool = RunnerPool(begin, count=2)
        pool.refill()
        taken = await pool.take()
        assert taken is started[0]
        assert len(started) == 2
        pool.refill()
        assert len(started) == 3
        await taken.stop()
        await pool.close()

    asyncio.run(run())
    assert not any(psutil.pid_exists(runner.pid) for runner in started)


def test_a_spare_that_died_is_not_given_out(launch: RunnerLaunch) -> None:
    begin, started = counting(launch)

    async def run() -> None:
        pool = RunnerPool(begin, count=1)
        pool.refill()
        await pool.settle()
        await kill(started[0].pid)
        taken = await pool.take()
        assert taken is not started[0]
        assert taken.is_alive
        await taken.stop()
        await pool.close()

    asyncio.run(run())


def test_what_a_runner_says_of_its_namespaces_is_known(launch: RunnerLaunch) -> None:
    async def spaces(wanted: Namespaces) -> Namespaces:
        runner = start_gpu_runner(replace(launch, spaces=wanted))
        await runner.warm_up(60)
        try:
            return runner.spaces
        finally:
            await runner.stop()

    assert asyncio.run(spaces(Namespaces.NONE)) == Namespaces.NONE
    assert asyncio.run(spaces(Namespaces.ALL)) in {Namespaces.ALL, Namespaces.NONE}


def test_a_runner_gets_no_environment_but_where_the_driver_is(launch: RunnerLaunch) -> None:
    async def environment() -> bytes:
        runner = start_gpu_runner(
            replace(launch, driver_folder="/no/driver", spaces=Namespaces.NONE)
        )
        await runner.warm_up(60)
        try:
            below = psutil.Process(runner.pid).children()[0].pid
            return Path(f"/proc/{below}/environ").read_bytes()
        finally:
            await runner.stop()

    assert asyncio.run(environment()) == b"LD_LIBRARY_PATH=/no/driver\0"


HOST = """
import asyncio, sys
from pathlib import Path
from cuda_llm.tools.cuda.runner import RunnerLaunch, start_gpu_runner
program = Path(sys.argv[1])
launch = RunnerLaunch(program=program, shim=program, seal=program, device="x", sm_count=1,
                      host_bytes=1 << 20)

async def main():
    runner = start_gpu_runner(launch)
    await runner.warm_up(60)
    print(runner.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_no_runner_outlives_its_host_process(obedient: Path) -> None:
    command = [sys.executable, "-c", HOST, str(obedient)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        enclosing = psutil.Process(int(host.stdout.readline()))
        processes = [enclosing, *enclosing.children(recursive=True)]
        host.kill()
        gone, _ = psutil.wait_procs(processes[1:], timeout=60)

    assert len(processes) == 2
    assert gone == processes[1:]
