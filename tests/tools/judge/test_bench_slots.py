"""Who is next on a device: the kernel that it was kept for, else who waited longest."""

import asyncio
from types import SimpleNamespace
from typing import cast

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.bench_slots import KEPT_S, BenchSlots
from cuda_llm.tools.judge.judge import opening


def one_device() -> BenchSlots:
    return BenchSlots(
        compilers=asyncio.Semaphore(1),
        devices=asyncio.Semaphore(1),
        cores=asyncio.Semaphore(1),
    )


async def validate_and_time(slots: BenchSlots, key: str, log: list[str], *, passes: bool) -> None:
    async with slots.device_for(key) as keep:
        log.append(f"validate {key}")
        await asyncio.sleep(0)
        if passes:
            keep()
    await asyncio.sleep(0.001)
    if passes:
        async with slots.device_for(key):
            log.append(f"time {key}")


def test_a_kernel_that_passed_is_timed_before_the_next_is_validated() -> None:
    log: list[str] = []

    async def run() -> None:
        slots = one_device()
        await asyncio.gather(
            validate_and_time(slots, "a", log, passes=True),
            validate_and_time(slots, "b", log, passes=False),
            validate_and_time(slots, "c", log, passes=True),
        )

    asyncio.run(run())
    assert log == ["validate a", "time a", "validate b", "validate c", "time c"]


def test_a_device_waits_only_a_moment() -> None:
    async def run() -> float:
        slots = one_device()
        async with slots.device_for("a") as keep:
            keep()
        begun = asyncio.get_running_loop().time()
        async with slots.device_for("b"):
            waited_s = asyncio.get_running_loop().time() - begun
        async with slots.device_for("a"):
            assert slots.devices.locked()
        assert not slots.devices.locked()
        assert not slots.kept
        return waited_s

    assert asyncio.run(run()) >= 0.9 * KEPT_S


def test_two_keepers_of_one_kernel_give_back_both_devices() -> None:
    async def run() -> None:
        slots = BenchSlots(
            compilers=asyncio.Semaphore(1),
            devices=asyncio.Semaphore(2),
            cores=asyncio.Semaphore(1),
        )
        async with slots.device_for("a") as keep, slots.device_for("a") as keep_other:
            keep()
            keep_other()
        await asyncio.sleep(2 * KEPT_S)
        async with slots.device_for("b"), slots.device_for("c"):
            assert slots.devices.locked()

    asyncio.run(run())


def test_work_that_raises_keeps_no_device() -> None:
    async def run() -> None:
        slots = one_device()
        try:
            async with slots.device_for("a"):
                raise ValueError
        except ValueError:
            assert not slots.devices.locked()

    asyncio.run(run())


def test_a_device_is_opened_meanwhile_and_whoever_works_next_is_told_why_it_cannot_be() -> None:
    done: list[str] = []

    async def carry_out(_work: object) -> None:
        await asyncio.sleep(0)
        done.append("opened")
        raise InfrastructureError("device", "the GPU cannot be opened")

    async def compiled(*, duels: bool) -> list[str]:
        done.clear()
        able = SimpleNamespace(duels=duels, batched=False)
        device = cast("Device", SimpleNamespace(capabilities=able, carry_out=carry_out))
        async with opening(device):
            await asyncio.sleep(0.01)
            done.append("compiled")
        return list(done)

    assert asyncio.run(compiled(duels=True)) == ["opened", "compiled"]
    assert asyncio.run(compiled(duels=False)) == ["compiled"]
