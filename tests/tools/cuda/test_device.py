"""What is to blame when a GPU host process breaks: the process, the work, or the GPU."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import host_works
import pytest
from host_works import PLAIN, crash, crash_once, double, hang, hang_once, nothing_there, spoil
from hosted_device import hosted

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError, NoMemory
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.cuda.quarantine import find_quarantine, lift_quarantine, put_in_quarantine
from cuda_llm.tools.device import Site, Work
from cuda_llm.tools.judge.judge import RetryReason, reason_of

pytestmark = pytest.mark.usefixtures("found_by_children")

GPU = "GPU-0"
FAST = HostTimeouts(silence_s=10, work_s=300)
"""A busy machine keeps a process silent for seconds."""


STARTED: list[HostClient] = []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Quarantine and leases of each test are its own; no GPU host process outlives it."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))
    (tmp_path / "marks").write_text("")
    yield
    while STARTED:
        STARTED.pop().close()


def gpu_host(opening: OpenSite = PLAIN) -> CudaDevice:
    made = hosted(0, opening, FAST)
    STARTED.append(made.client)
    return made


def knowing(answer: Callable[[Site], None]) -> OpenSite:
    return OpenSite(site=host_works.nowhere, known_answer=answer)


@pytest.mark.parametrize("work", [crash_once, hang_once])
def test_work_that_breaks_its_host_process_is_not_repeated_here_but_may_be_asked_for_again(
    work: Callable[..., Awaitable[str]], tmp_path: Path
) -> None:
    ours = gpu_host()

    async def ask() -> str:
        with pytest.raises(BrokenByWork, match="device: cuda:0: "):
            await ours.carry_out(Work.of(work, tmp_path / "mark"))
        return await ours.carry_out(Work.of(work, tmp_path / "mark"))

    assert asyncio.run(ask()) == "done"
    assert find_quarantine(GPU) is None


def test_work_that_kills_its_host_process_is_to_blame_and_the_next_is_not() -> None:
    ours = gpu_host()

    async def ask() -> None:
        with pytest.raises(BrokenByWork, match=r"device: cuda:0: it ended with status -9"):
            await ours.carry_out(Work.of(crash))
        assert await ours.carry_out(Work.of(double, 2)) == 4

    asyncio.run(ask())
    assert find_quarantine(GPU) is None


def test_a_known_answer_that_is_wrong_once_is_reported_and_the_next_work_is_done(
    tmp_path: Path,
) -> None:
    (tmp_path / "marks").write_text("x")
    ours = gpu_host(knowing(host_works.wrong_while_marked))

    async def ask() -> int:
        with pytest.raises(InfrastructureError, match="cuda:0: ") as raised:
            await ours.carry_out(Work.of(double, 2))
        assert reason_of(raised.value) is RetryReason.BROKEN
        return await ours.carry_out(Work.of(double, 2))

    assert asyncio.run(ask()) == 4
    assert find_quarantine(GPU) is None


def test_a_known_answer_that_is_always_wrong_puts_the_gpu_in_quarantine() -> None:
    ours = gpu_host(knowing(host_works.wrong))

    async def ask() -> None:
        with pytest.raises(DeviceLost, match=r"cuda:0 is in quarantine since .*known words") as it:
            await ours.carry_out(Work.of(double, 2))
        assert "cuda-llm doctor --lift cuda:0" in str(it.value)

    asyncio.run(ask())
    with pytest.raises(DeviceLost, match="quarantine"):
        asyncio.run(gpu_host().carry_out(Work.of(double, 2)))
    assert lift_quarantine(GPU)
    assert asyncio.run(gpu_host().carry_out(Work.of(double, 2))) == 4


def test_an_error_that_leaves_the_device_broken_costs_a_restart_not_a_verdict(
    tmp_path: Path,
) -> None:
    """The work breaks it; without the work it is fine."""
    ours = gpu_host(knowing(host_works.wrong_while_marked))
    with pytest.raises(BrokenByWork, match="context is poisoned"):
        asyncio.run(ours.carry_out(Work.of(spoil, "x")))
    assert (tmp_path / "marks").read_text() == ""


def test_a_device_that_the_work_leaves_broken_for_good_is_put_in_quarantine() -> None:
    ours = gpu_host(knowing(host_works.wrong_while_marked))
    with pytest.raises(DeviceLost, match="quarantine"):
        asyncio.run(ours.carry_out(Work.of(spoil, "xxxxxxxx")))


def test_a_gpu_that_cannot_be_opened_is_reported_and_may_be_tried_again() -> None:
    ours = gpu_host(OpenSite(site=host_works.failing, known_answer=host_works.right))
    with pytest.raises(InfrastructureError, match="cuda:0 cannot be opened: ValueError"):
        asyncio.run(ours.carry_out(Work.of(double, 2)))
    assert find_quarantine(GPU) is None


def test_a_gpu_without_memory_for_a_context_is_one_where_memory_lacks() -> None:
    ours = gpu_host(OpenSite(site=host_works.full, known_answer=host_works.right))
    with pytest.raises(NoMemory, match="cuda:0 cannot be opened: MemoryError"):
        asyncio.run(ours.carry_out(Work.of(double, 2)))


def test_a_gpu_that_is_full_when_it_is_checked_is_not_called_broken() -> None:
    ours = gpu_host(knowing(host_works.without_room))
    with pytest.raises(NoMemory, match="no room for the known words"):
        asyncio.run(ours.carry_out(Work.of(double, 2)))
    assert find_quarantine(GPU) is None


def test_a_runner_that_cannot_be_reaped_puts_the_gpu_in_quarantine() -> None:
    ours = gpu_host()
    with pytest.raises(DeviceLost, match=r"quarantine .*process 99 is still there"):
        asyncio.run(ours.carry_out(Work.of(nothing_there)))


def test_after_a_restart_of_the_machine_a_gpu_is_tried_anew(tmp_path: Path) -> None:
    put_in_quarantine(GPU, "cuda:0", "broken")
    (file,) = (tmp_path / "cache/quarantine").iterdir()
    assert find_quarantine(GPU) is not None
    file.write_text(file.read_text().replace('"boot": "', '"boot": "earlier '))
    assert find_quarantine(GPU) is None


def test_a_host_process_that_hangs_is_given_up_for_its_silence() -> None:
    ours = gpu_host()
    with pytest.raises(BrokenByWork, match="no sign of life"):
        asyncio.run(ours.carry_out(Work.of(hang)))
