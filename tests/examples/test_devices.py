"""The example device, opened as a user names it: a real worker process behind a real socket."""

import asyncio
import json
import os
from pathlib import Path

import psutil
import pytest
from device_works import crash, hang, refuse, tell_where
from tiny_tasks import tiny_task

from cuda_llm.cli.app import run
from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.open_device import open_device

ROOT = Path(__file__).parents[2]
LOOPBACK = f"{ROOT}/examples/devices/loopback.py:open_loopback"
RIGHT = ROOT / "tasks/vector_add/baseline.cu"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Its worker finds the works of `device_works`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support"))
    return open_device(LOOPBACK)


def test_work_is_done_in_the_worker_by_its_own_device_and_raises_here(device: Device) -> None:
    pid, site = asyncio.run(device.carry_out(Work.of(tell_where)))
    assert pid != os.getpid()
    assert pid in {child.pid for child in psutil.Process().children()}
    assert site == "emulated RTX 3090 Ti"
    with pytest.raises(TaskError, match=r"reference\.py: broken"):
        asyncio.run(device.carry_out(Work.of(refuse)))


async def until(mark: Path, text: str) -> None:
    """Wait for a file; a busy machine takes its time."""
    async with asyncio.timeout(240):
        while not mark.exists() or mark.read_text() != text:
            await asyncio.sleep(0.05)


def test_work_that_is_given_up_ends_in_the_worker(device: Device, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def give_up() -> None:
        work = asyncio.ensure_future(device.carry_out(Work.of(hang, mark)))
        await until(mark, "begun")
        work.cancel()
        await until(mark, "given up")

    asyncio.run(give_up())
    assert mark.read_text() == "given up"


def test_a_worker_that_dies_is_an_infrastructure_error(device: Device) -> None:
    with pytest.raises(InfrastructureError, match="worker: it is gone"):
        asyncio.run(device.carry_out(Work.of(crash)))


def test_a_right_and_a_wrong_kernel_are_evaluated_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = tiny_task(tmp_path, "vector_add")
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(RIGHT.read_text().replace("A[i] + B[i]", "A[i] - B[i]"))
    given = ["evaluate", *map(str, (task, RIGHT, wrong)), "--device", LOOPBACK, "--json"]
    assert run(given) == 1
    good, bad = json.loads(capsys.readouterr().out)["results"]
    assert good["verdict"]["code"] == "PASSED"
    assert {size["source"] for size in good["sizes"]} == {"modelled"}
    assert bad["verdict"]["code"] == "WRONG_RESULT"


def test_a_run_on_it_is_resumed_on_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tiny_task(tmp_path, "vector_add")
    order = ("run", task, "--device", LOOPBACK, "--candidates", 1, "--rounds", 1, "--tune", 0)
    ends = ("--out", tmp_path / "runs", "--json")
    assert run([*map(str, (*order, "--review", *ends))]) == 0
    stopped = json.loads(capsys.readouterr().out)
    assert not stopped["finished"]
    assert run([*map(str, ("resume", stopped["run_id"], *ends))]) == 0
    resumed = json.loads(capsys.readouterr().out)
    assert (resumed["finished"], resumed["run_id"]) == (True, stopped["run_id"])
    assert resumed["device"] == "loopback to emulated RTX 3090 Ti"
