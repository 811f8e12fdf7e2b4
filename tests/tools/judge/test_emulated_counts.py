"""Where nothing on a GPU counts, the emulated device of its chip does."""

import asyncio
from dataclasses import replace

import pytest
from measured_runs import MeasuringDevice

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device, ForwardingDevice
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import EMULATED, NSIGHT, Inspection, KernelCounters
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge import emulated_counts
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.emulated_counts import EmulatedCounts, count_emulated, finish_counting
from cuda_llm.tools.judge.judge import open_bench
from cuda_llm.tools.profiler.emulated_counters import BESIDE_US

H200 = find_hardware("H200")
TASK = load_task("vector_add")
DIMS = {"n": 1 << 20}
ADD = """
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


def measured(*, grid: int = 4096, time_us: float = 10.0) -> Profile:
    launch = LaunchProfile(
        kernel="add",
        grid=(grid, 1, 1),
        block=(256, 1, 1),
        shared_bytes=0,
        occupancy=1.0,
        time_us=0.0,
    )
    time = SizeTime(dims=DIMS, time_us=time_us, baseline_us=None, source="measured")
    return Profile(
        device="cuda:0 NVIDIA H200",
        hardware=H200.name,
        source="measured",
        sizes=(time,),
        launches=(launch,),
    )


def counts_of(source: str, profile: Profile, watcher: Device | None = None) -> EmulatedCounts:
    async def work() -> EmulatedCounts:
        compiled = await compile_source(TASK, EmulatedDevice(H200), source, "source.cu")
        assert isinstance(compiled, Compiled), compiled
        return await count_emulated(TASK, watcher or EmulatedDevice(H200), compiled, profile)

    return asyncio.run(work())


def test_a_call_is_counted_at_the_size_that_is_explained_over_the_time_it_took() -> None:
    found = counts_of(ADD, measured(time_us=10.0))
    (one,) = found.counters
    assert (one.kernel, one.origin) == ("add", EMULATED)
    assert one.figures["l2_bytes"] == pytest.approx(3 * 4 * DIMS["n"], rel=0.01)
    assert one.duration_us == pytest.approx(10.0 - H200.model.launch_us - BESIDE_US)
    assert found.note == "1 kernel counted on the emulated device, over the measured time"


def test_counts_of_other_launches_explain_nothing() -> None:
    found = counts_of(ADD, measured(grid=512))
    assert found.counters == ()
    assert found.note == "not counted on the emulated device: it launches other kernels there"


class Unbuilt(ForwardingDevice):
    """A machine without what the emulated device is built with."""

    def prepare(self) -> None:
        raise OSError("no g++")


def test_a_machine_that_cannot_emulate_leaves_a_note() -> None:
    found = counts_of(ADD, measured(), Unbuilt(EmulatedDevice(H200)))
    assert found == EmulatedCounts(note="not counted on the emulated device: OSError: no g++")


def test_a_round_waits_only_so_long_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated_counts, "COUNT_WAIT_S", 0.0)

    async def never() -> EmulatedCounts:
        await asyncio.Event().wait()
        return EmulatedCounts()

    async def work() -> EmulatedCounts:
        counting = asyncio.create_task(never())
        try:
            return await finish_counting(counting)
        finally:
            counting.cancel()

    assert asyncio.run(work()).note == "not counted on the emulated device: it took too long"


class CountedDevice(MeasuringDevice):
    """A GPU on which Nsight Compute counts, or not."""

    counters: tuple[KernelCounters, ...] = ()

    async def inspect(self, *_: object) -> Inspection:
        return Inspection(counters=self.counters)


def inspect_twice(device: MeasuringDevice) -> list[Inspected]:
    """What the bench of a run finds of a kernel that becomes the incumbent."""

    async def work() -> list[Inspected]:
        task = replace(TASK, sizes=replace(TASK.sizes, large=()))
        bench = open_bench(task, device, watcher=EmulatedDevice(H200))
        built = await bench.compile(ADD, "source.cu")
        assert isinstance(built, Compiled)
        return [await bench.inspect(built, measured()) for _ in range(2)]

    return asyncio.run(work())


def test_the_next_incumbent_is_counted_on_the_emulated_device_where_nothing_else_counts() -> None:
    for found in inspect_twice(CountedDevice(H200)):
        assert [one.origin for one in found.counters] == [EMULATED]
        assert found.notes[-1].startswith("1 kernel counted on the emulated device")


def test_counters_of_nsight_compute_come_first_and_then_nothing_else_counts() -> None:
    device = CountedDevice(H200)
    device.counters = (KernelCounters(kernel="add", duration_us=9.0, flushed=True),)
    for found in inspect_twice(device):
        assert [one.origin for one in found.counters] == [NSIGHT]
        assert not any(EMULATED in note for note in found.notes)
