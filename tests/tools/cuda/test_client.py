"""A GPU host process is asked for work; nothing is left of it in the end."""

import asyncio
import importlib
import os
import pickle
from pathlib import Path

import host_works
import psutil
import pytest
from ended import has_ended
from host_works import (
    ERRORS,
    PLAIN,
    be_slow,
    bring_a_lambda,
    crash,
    double,
    hang,
    pid,
    refuse,
    run_out_of_memory,
    run_out_of_space,
    start_processes,
    stumble,
)

from cuda_llm.errors import (
    CudaLLMError,
    InfrastructureError,
    InternalError,
    MissingError,
    NoMemory,
)
from cuda_llm.tools.cuda.client import HostBroken, HostClient, HostTimeouts, SiteNotOpened
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.device import Site, Work

pytestmark = pytest.mark.usefixtures("found_by_children")


def test_work_is_done_in_another_process_and_its_result_comes_back(client: HostClient) -> None:
    async def run() -> None:
        assert await client.ask(Work.of(double, 4, plus=1)) == 9
        there = await client.ask(Work.of(pid))
        assert there != os.getpid()
        assert there == client.pid
        assert await client.ask(Work.of(pid)) == there

    asyncio.run(run())


def test_a_host_process_outlives_the_event_loop_that_first_used_it(client: HostClient) -> None:
    assert asyncio.run(client.ask(Work.of(pid))) == asyncio.run(client.ask(Work.of(pid)))


def test_our_own_errors_come_back_as_themselves(client: HostClient) -> None:
    async def run(error: CudaLLMError) -> None:
        with pytest.raises(type(error)) as caught:
            await client.ask(Work.of(refuse, error))
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        assert vars(caught.value) == vars(error)

    for error in ERRORS:
        asyncio.run(run(error))
    assert asyncio.run(client.ask(Work.of(double, 1))) == 2


def test_a_bug_in_the_work_is_raised_with_its_traceback(client: HostClient) -> None:
    async def run() -> None:
        with pytest.raises(InternalError, match=r"ZeroDivisionError: a bug.*host_works\.py:") as it:
            await client.ask(Work.of(stumble))
        assert "in stumble" in it.value.trace
        with pytest.raises(InternalError, match="lambda"):
            await client.ask(Work.of(bring_a_lambda))
        assert await client.ask(Work.of(double, 1)) == 2

    asyncio.run(run())


def test_what_the_machine_refuses_in_the_work_is_no_bug(client: HostClient) -> None:
    with pytest.raises(InfrastructureError, match=r"OSError: .*no space"):
        asyncio.run(client.ask(Work.of(run_out_of_space)))


SHORTAGES = [
    ("builtins", "Out of memory allocating 4,294,967,296 bytes"),
    ("builtins", "bad_alloc"),
    ("cupy_backends.cuda.api.runtime", "cudaErrorMemoryAllocation: out of memory"),
    ("cupy_backends.cuda.libs.cublas", "CUBLAS_STATUS_ALLOC_FAILED"),
    ("torch", "CUDA out of memory. Tried to allocate 2 GiB"),
]


def test_that_memory_lacked_in_the_work_is_known_here(client: HostClient) -> None:
    async def run() -> None:
        for module, words in SHORTAGES:
            with pytest.raises(NoMemory, match=words):
                await client.ask(Work.of(run_out_of_memory, module, words))
        with pytest.raises(InfrastructureError, match="illegal access") as it:
            await client.ask(Work.of(run_out_of_memory, "cupy", "illegal access"))
        assert not isinstance(it.value, NoMemory)
        with pytest.raises(InternalError, match="out of memory"):
            await client.ask(Work.of(run_out_of_memory, "somebody", "out of memory"))

    asyncio.run(run())


def test_work_that_cannot_travel_is_refused_before_it_is_sent(client: HostClient) -> None:
    async def local(_site: Site) -> None:
        pass

    async def run() -> None:
        there = await client.ask(Work.of(pid))
        with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
            await client.ask(Work.of(local))
        assert await client.ask(Work.of(pid)) == there

    asyncio.run(run())


def test_work_that_the_host_process_does_not_find_is_an_error_and_costs_no_restart(
    client: HostClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "known_here_alone.py").write_text("async def work(_site): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    work = importlib.import_module("known_here_alone").work

    async def run() -> None:
        there = await client.ask(Work.of(pid))
        with pytest.raises(InternalError, match="No module named 'known_here_alone'"):
            await client.ask(Work.of(work))
        assert await client.ask(Work.of(pid)) == there

    asyncio.run(run())


def test_a_site_that_lacks_something_says_so_itself() -> None:
    client = HostClient(
        OpenSite(site=host_works.missing, known_answer=host_works.right), HostTimeouts()
    )
    with pytest.raises(MissingError, match="CuPy is missing; pip install it"):
        asyncio.run(client.ask(Work.of(pid)))
    assert client.pid is None


def test_a_site_that_cannot_be_opened_is_reported_with_its_error() -> None:
    client = HostClient(
        OpenSite(site=host_works.failing, known_answer=host_works.right), HostTimeouts()
    )
    with pytest.raises(SiteNotOpened, match="ValueError: no such context"):
        asyncio.run(client.ask(Work.of(pid)))


def test_a_host_process_that_dies_is_noticed_at_once_and_the_next_work_succeeds(
    client: HostClient,
) -> None:
    async def run() -> None:
        with pytest.raises(HostBroken, match="status -9"):
            await client.ask(Work.of(crash))
        assert await client.ask(Work.of(double, 1)) == 2

    asyncio.run(run())


def test_a_host_process_that_hangs_is_ended_but_a_slow_one_is_waited_for() -> None:
    client = HostClient(PLAIN, HostTimeouts(silence_s=10, work_s=300))

    async def run() -> None:
        assert await client.ask(Work.of(be_slow, 12)) == "slow"
        with pytest.raises(HostBroken, match=r"no sign of life for 10 s"):
            await client.ask(Work.of(hang))
        assert client.pid is None
        assert await client.ask(Work.of(double, 1)) == 2

    asyncio.run(run())
    client.close()


def test_no_work_takes_longer_than_its_limit() -> None:
    client = HostClient(PLAIN, HostTimeouts(silence_s=20, work_s=4))
    with pytest.raises(HostBroken, match="not done after 4 s"):
        asyncio.run(client.ask(Work.of(be_slow, 30)))
    assert client.pid is None


def test_cancelling_ends_everything_the_work_has_started(
    client: HostClient, tmp_path: Path
) -> None:
    mark = tmp_path / "pids"

    async def run() -> None:
        working = asyncio.create_task(client.ask(Work.of(start_processes, mark)))
        while not mark.exists():
            await asyncio.sleep(0.01)
        started = [psutil.Process(int(one)) for one in mark.read_text().split()]
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert len(started) == 2
        assert all(map(has_ended, started))
        assert await client.ask(Work.of(double, 1)) == 2

    asyncio.run(run())


def test_a_host_process_that_is_closed_closes_its_site(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    opening = OpenSite(site=host_works.nowhere, arguments=(closed,), known_answer=host_works.right)
    client = HostClient(opening, HostTimeouts())
    there = psutil.Process(asyncio.run(client.ask(Work.of(pid))))
    client.close()
    assert closed.read_text() == "closed"
    assert has_ended(there)


def test_thirty_works_leave_nothing_behind() -> None:
    ourselves = psutil.Process()
    before = ourselves.num_fds(), len(ourselves.children(recursive=True))
    client = HostClient(PLAIN, HostTimeouts())

    async def run() -> None:
        for number in range(30):
            if number == 15:
                with pytest.raises(HostBroken):
                    await client.ask(Work.of(crash))
            else:
                assert await client.ask(Work.of(double, number)) == 2 * number

    asyncio.run(run())
    client.close()
    assert (ourselves.num_fds(), len(ourselves.children(recursive=True))) == before
