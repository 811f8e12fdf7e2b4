"""Several devices as one, with real GPU host processes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import host_works
import pytest
from host_works import pid, wait_for
from hosted_device import hosted as device

from cuda_llm.errors import DeviceLost, MemberLost, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.judge import StepRetry

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[CudaDevice]]:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    made = [device(0), device(1)]
    yield made
    for one in made:
        one.client.close()


def test_the_next_work_goes_to_the_device_that_is_free_first(
    pair: list[CudaDevice], tmp_path: Path
) -> None:
    group = DeviceGroup(pair)

    async def work() -> None:
        first, second = [await one.carry_out(Work.of(pid)) for one in pair]
        long = asyncio.create_task(group.carry_out(Work.of(wait_for, tmp_path / "over")))
        await asyncio.sleep(0.05)
        assert [await group.carry_out(Work.of(pid)) for _ in range(3)] == [second] * 3
        (tmp_path / "over").touch()
        await long
        assert {await group.carry_out(Work.of(pid)) for _ in range(2)} == {first, second}

    asyncio.run(work())


def test_a_device_that_joins_takes_works_and_says_so(
    pair: list[CudaDevice], tmp_path: Path
) -> None:
    group = DeviceGroup(pair[:1])
    more: list[int] = []
    group.when_growing(lambda: more.append(1))

    async def work() -> None:
        second = await pair[1].carry_out(Work.of(pid))
        long = asyncio.create_task(group.carry_out(Work.of(wait_for, tmp_path / "over")))
        waiting = asyncio.create_task(group.carry_out(Work.of(pid)))
        await asyncio.sleep(0.05)
        group.join(pair[1])
        assert await waiting == second
        (tmp_path / "over").touch()
        await long

    asyncio.run(work())
    assert more == [1]
    assert group.capabilities.at_once == 2


def test_what_is_to_be_compared_goes_to_one_device(pair: list[CudaDevice]) -> None:
    pinned = DeviceGroup(pair).pinned()

    async def work() -> None:
        ours = await pair[0].carry_out(Work.of(pid))
        assert {await pinned.carry_out(Work.of(pid)) for _ in range(3)} == {ours}

    asyncio.run(work())


async def pid_by_policy(device: Device) -> int:
    """Return the process that does the device's next work, which the judge's policy repeats."""
    return await StepRetry().run(lambda _trial: device.carry_out(Work.of(pid)))


def test_a_device_that_is_lost_is_left_out_and_its_work_done_elsewhere(
    pair: list[CudaDevice],
) -> None:
    broken = device(2, OpenSite(site=host_works.nowhere, known_answer=host_works.wrong))
    group = DeviceGroup([broken, pair[1]])

    async def work() -> None:
        ours = await pair[1].carry_out(Work.of(pid))
        assert {await pid_by_policy(group) for _ in range(3)} == {ours}

    asyncio.run(work())
    assert (group.capabilities.at_once, group.pinned().name) == (1, pair[1].name)


def test_what_is_to_be_compared_goes_to_the_next_device_when_its_own_is_lost(
    pair: list[CudaDevice],
) -> None:
    broken = device(2, OpenSite(site=host_works.nowhere, known_answer=host_works.wrong))
    group = DeviceGroup([broken, *pair])
    pinned = group.pinned()

    async def work() -> None:
        ours = await pair[0].carry_out(Work.of(pid))
        assert {await pid_by_policy(pinned) for _ in range(3)} == {ours}

    asyncio.run(work())
    assert group.devices == tuple(pair)


def test_the_group_itself_does_no_work_twice(pair: list[CudaDevice]) -> None:
    broken = device(2, OpenSite(site=host_works.nowhere, known_answer=host_works.wrong))
    with pytest.raises(MemberLost, match=r"quarantine.*; 2 devices are left"):
        asyncio.run(DeviceGroup([broken, *pair]).carry_out(Work.of(pid)))


def test_the_loss_of_the_last_device_is_raised(pair: list[CudaDevice]) -> None:
    broken = [
        device(n, OpenSite(site=host_works.nowhere, known_answer=host_works.wrong)) for n in (2, 3)
    ]
    with pytest.raises(DeviceLost, match="quarantine"):
        asyncio.run(pid_by_policy(DeviceGroup(broken)))


def test_devices_of_two_models_do_not_share_a_run() -> None:
    devices = [EmulatedDevice(find_hardware(name)) for name in ("RTX 3090 Ti", "RTX 4090")]
    with pytest.raises(UsageError, match="different models"):
        DeviceGroup(devices)
