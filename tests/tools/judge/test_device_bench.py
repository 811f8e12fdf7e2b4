"""The bench that ships, on the emulated device."""

import asyncio
import os
from dataclasses import replace
from typing import ClassVar, cast

import pytest
from corpus import FIXTURES
from measured_runs import MeasuringDevice, measuring_device
from small_tasks import with_one_bench_size

from cuda_llm.capabilities import Capabilities
from cuda_llm.outcomes import DataRace, NoCode, Passed, Verdict, WrongResult
from cuda_llm.profile import Profile
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import T, Work
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.bench_slots import BenchSlots, open_slots
from cuda_llm.tools.judge.duel import Contest
from cuda_llm.tools.judge.judge import DeviceBench, judge, open_bench
from cuda_llm.tools.open_device import open_device, open_watcher
from cuda_llm.tools.timing.contest import Duel
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

TASK = with_one_bench_size(load_task("histogram"))
UNTIMED = Profile(device="cuda:0", hardware="NVIDIA H200", source="measured")
GOOD = TASK.baseline.read_text(encoding="utf-8")
WRONG = GOOD.replace("atomicAdd(&", "if (i % 3) atomicAdd(&")


async def bench(seed: int | None) -> DeviceBench:
    return open_bench(TASK, open_device("emulated"), seed=seed)


async def judged(seed: int | None, source: str) -> Verdict:
    one = await bench(seed)
    return (await judge(one, source, baseline=await one.time_baseline())).verdict


def test_the_same_seed_judges_a_kernel_the_same_in_every_figure() -> None:
    first, again = (asyncio.run(judged(3, GOOD)) for _ in range(2))

    assert isinstance(first, Passed)
    assert first == again


def test_a_wrong_kernel_fails_the_same_way_again_with_the_same_seed() -> None:
    assert WRONG != GOOD
    first, again = (asyncio.run(judged(3, WRONG)) for _ in range(2))

    assert isinstance(first, WrongResult)
    assert first == again


def test_a_bench_with_fresh_inputs_has_no_nonce() -> None:
    async def nonces() -> list[bytes | None]:
        seeded = await bench(3)
        return [
            seeded.nonce_for("x"),
            replace(seeded, seed=4).nonce_for("x"),
            seeded.with_fresh_inputs().nonce_for("x"),
        ]

    first, other, fresh = asyncio.run(nonces())
    assert first != other
    assert fresh is None


def test_compilers_and_devices_have_limits_of_their_own() -> None:
    """With the only device taken, a kernel still compiles."""

    async def run() -> str:
        device = open_device("emulated")
        slots = BenchSlots(
            compilers=asyncio.Semaphore(1),
            devices=asyncio.Semaphore(1),
            cores=asyncio.Semaphore(1),
        )
        one = DeviceBench(task=TASK, device=device, slots=slots, seed=1)
        async with slots.devices:
            compiled = await one.compile(GOOD, "source.cu")
            waiting = asyncio.create_task(one.validate(compiled))  # type: ignore[arg-type]
            await asyncio.sleep(0.05)
            assert not waiting.done()
        return type(await waiting).__name__

    assert asyncio.run(run()) == "Validated"


def room(slots: asyncio.Semaphore) -> int:
    """How many may enter at once."""

    async def enter() -> int:
        count = 0
        while not slots.locked():
            await slots.acquire()
            count += 1
        return count

    return asyncio.run(enter())


def test_the_settings_say_how_many_compile_and_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_COMPILE_WORKERS", "3")
    monkeypatch.setenv("CUDA_LLM_DEVICE_WORKERS", "2")
    slots = open_slots(open_device("emulated"))
    assert (room(slots.compilers), room(slots.devices)) == (3, 2)


def test_without_settings_a_limit_is_the_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_LLM_COMPILE_WORKERS", "CUDA_LLM_DEVICE_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    slots = open_slots(open_device("emulated"))
    cores = len(os.sched_getaffinity(0))
    assert (room(slots.compilers), room(slots.devices)) == (cores, cores)


def test_a_kernel_does_not_beat_itself_and_an_emulated_device_needs_no_sanitizer() -> None:
    async def run() -> tuple[str, tuple[str, ...]]:
        one = await bench(3)
        built = await one.compile(GOOD, "source.cu")
        assert isinstance(built, Compiled)
        held, inspected = await one.contest([built], built), await one.inspect(built, UNTIMED)
        assert inspected.fault is None
        assert isinstance(held, Contest)
        (outcome,) = held.duels
        assert isinstance(outcome, Duel)
        return outcome.outcome, inspected.notes

    outcome, notes = asyncio.run(run())
    assert outcome == "tie"
    assert notes == ("emulated RTX 3090 Ti has neither profiler nor sanitizers",)


def test_a_race_that_a_gpu_does_not_show_is_found_by_the_emulated_device_of_its_chip() -> None:
    async def run() -> Inspected:
        device = measuring_device()
        large = ({"n": 4001, "num_bins": 7},)
        task = replace(TASK, sizes=replace(TASK.sizes, large=large))
        one = open_bench(task, device, watcher=open_watcher(device), seed=3)
        racing = (FIXTURES / "mutants/histogram/missing_barrier.cu").read_text()
        built = await one.compile(racing, "missing_barrier.cu")
        assert isinstance(built, Compiled)
        return await one.inspect(built, UNTIMED)

    inspected = asyncio.run(run())
    assert isinstance(inspected.fault, DataRace)
    assert inspected.notes[-1] == "the emulated device found DATA_RACE at a small size"
    assert len(inspected.notes) > 1


def test_what_is_judged_on_fresh_inputs_is_measured_at_the_confirming_tier() -> None:
    one = asyncio.run(bench(3))
    assert (one.options.tier, one.with_fresh_inputs().options.tier) == (Tier.SCREEN, Tier.CONFIRM)


class Asked(MeasuringDevice):
    """A GPU that notes how sure a time is to be, and times nothing."""

    tiers: ClassVar[list[Tier]] = []

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, duels=True, batched=True)

    async def carry_out(self, work: Work[T]) -> T:
        Asked.tiers += [one.tier for one in work.arguments if isinstance(one, MeasureOptions)]
        return cast("T", NoCode(message="not timed"))


def test_a_device_of_batches_times_as_surely_as_a_contest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "tiers", [])

    async def run() -> None:
        one = open_bench(TASK, Asked(measuring_device().hardware), seed=3)
        built = await one.compile(GOOD, "source.cu")
        assert isinstance(built, Compiled)
        validated = Validated(nonce=b"1")
        times = KernelTimes(times=(), launches=(), bottlenecks=())
        await one.profile(built, validated, times)

    asyncio.run(run())
    assert Asked.tiers == [Tier.CONFIRM]


class BuiltOnce(EmulatedDevice):
    """Counts how often its native parts were asked for."""

    asked = 0

    def prepare(self) -> None:
        BuiltOnce.asked += 1
        super().prepare()


@pytest.mark.parametrize(("cores", "asked"), [(16, 1), (2, 0)])
def test_the_watchers_native_parts_are_built_beside_the_baseline_where_cores_are_free(
    monkeypatch: pytest.MonkeyPatch, cores: int, asked: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(BuiltOnce, "asked", 0)
    device = open_device("emulated")

    async def run() -> None:
        one = open_bench(TASK, device, watcher=BuiltOnce(device.hardware), seed=3)
        await one.time_baseline()
        await asyncio.gather(*one.building)

    asyncio.run(run())
    assert BuiltOnce.asked == asked


def test_a_contest_checks_its_first_contender_on_the_emulated_device_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check is begun once, and is the one that the inspection awaits."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))

    async def run() -> list[str]:
        one = await bench(3)
        built = await one.compile(GOOD, "source.cu")
        assert isinstance(built, Compiled)
        assert isinstance(await one.contest([built], built), Contest)
        (begun,) = one.checks.values()
        await one.inspect(built, UNTIMED)
        assert begun.done()
        return list(one.checks)

    (key,) = asyncio.run(run())
    assert key
