"""The example device, opened as a user names it: a real worker process behind a real socket."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from device_works import crash, hang, refuse, tell_where

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.tools.device import Device
from cuda_llm.tools.open_device import open_device

ROOT = Path(__file__).parents[2]
LOOPBACK = f"{ROOT}/examples/devices/loopback.py:open_loopback"
RIGHT = ROOT / "tasks/vector_add/baseline.cu"
COMMAND = [sys.executable, "-m", "cuda_llm"]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Its worker finds the works of `device_works`."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests/support"))
    return open_device(LOOPBACK)


def evaluated(folder: Path, *files: Path) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and results of `cuda-llm evaluate` on the example device."""
    words = ["evaluate", "vector_add", *map(str, files), "--device", LOOPBACK, "--json"]
    done = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)["results"]


def test_work_is_done_in_the_worker_by_its_own_device(device: Device) -> None:
    pid, site = asyncio.run(device.carry_out(tell_where))
    assert pid != os.getpid()
    assert pid in {child.pid for child in psutil.Process().children()}
    assert site == "emulated RTX 3090 Ti"


def test_what_work_raises_is_raised_here(device: Device) -> None:
    with pytest.raises(TaskError, match=r"reference\.py: broken"):
        asyncio.run(device.carry_out(refuse))


def test_work_that_is_given_up_ends_in_the_worker(device: Device, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await device.carry_out(hang, mark)
        for _ in range(100):
            if mark.exists():
                return
            await asyncio.sleep(0.05)

    asyncio.run(give_up())
    assert mark.read_text() == "given up"


def test_a_worker_that_dies_is_an_infrastructure_error(device: Device) -> None:
    with pytest.raises(InfrastructureError, match="worker: it is gone"):
        asyncio.run(device.carry_out(crash))


def test_a_right_and_a_wrong_kernel_are_evaluated_on_it(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(RIGHT.read_text().replace("A[i] + B[i]", "A[i] - B[i]"))
    code, (good, bad) = evaluated(tmp_path, RIGHT, wrong)
    assert code == 0
    assert good["verdict"]["code"] == "PASSED"
    assert {size["source"] for size in good["sizes"]} == {"modelled"}
    assert bad["verdict"]["code"] == "WRONG_RESULT"


def test_a_short_search_runs_on_it_and_is_resumed_on_it(tmp_path: Path) -> None:
    words = ["run", "vector_add", "--device", LOOPBACK, "--candidates", "2", "--rounds", "1"]
    stopped = searched(tmp_path, *words, "--review", exit_code=0)
    assert not stopped["finished"]
    resumed = searched(tmp_path, "resume", stopped["run_id"], exit_code=0)
    assert resumed["finished"]
    assert resumed["run_id"] == stopped["run_id"]
    assert (resumed["device"], resumed["time_source"]) == (
        "loopback to emulated RTX 3090 Ti",
        "modelled",
    )
    about = json.loads((Path(resumed["run_dir"]) / "run.json").read_text())
    assert (about["request"]["device"], about["device_spec"]) == (LOOPBACK, LOOPBACK)


def searched(folder: Path, *words: str, exit_code: int) -> dict[str, Any]:
    """Result of a command that searches, its runs below `folder`."""
    done = subprocess.run(
        [*COMMAND, *words, "--out", str(folder), "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == exit_code, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result
