"""What a kernel goes through before it becomes the incumbent, on a device that executes it here."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from measured_runs import MeasuringDevice
from small_tasks import small_task

from cuda_llm.errors import InfrastructureError, NoMemory, TaskError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    GuardOverwritten,
    InfraFailed,
    LaunchFailed,
    OutOfMemory,
    TimedOut,
    Verdict,
    WrongResult,
)
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, ForwardingDevice, Session, T, Work
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.device.inspection import Inspection, InspectionOptions, KernelCounters
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.inspection import conclude_large, inspect_on_gpu
from cuda_llm.tools.judge.judge import StepRetry, open_bench
from cuda_llm.tools.validator.buffers import buffer_specs

LARGE = {"rows": 70, "cols": 40}
"""Large beside the sizes of the small task."""
NARROW = """
__global__ void turn(const float* input, float* output, int rows, int cols) {
    unsigned char row = blockIdx.y, col = threadIdx.x;
    if (col < cols) output[col * rows + row] = input[row * cols + col];
}
extern "C" void solve(const float* input, float* output, int rows, int cols) {
    turn<<<dim3(1, rows), 256>>>(input, output, rows, cols);
}
"""
"""Right up to 256 rows and columns."""


def transpose_of(*large: dict[str, int]) -> Task:
    task = small_task("matrix_transpose")
    return replace(task, sizes=replace(task.sizes, large=large))


def inspected(task: Task, source: str, *, gpu: str = "RTX 3090 Ti") -> Inspection:
    """As before an attempt becomes the incumbent; with the H200's memory all at the same time."""

    async def run() -> Inspection:
        device = MeasuringDevice(find_hardware(gpu))
        built = await compile_source(task, device, source, "kernel.cu")
        assert isinstance(built, Compiled)
        options = InspectionOptions(counters=False)
        return await inspect_on_gpu(task, device, built, LARGE, options)

    return asyncio.run(run())


@pytest.mark.parametrize("gpu", ["RTX 3090 Ti", "H200"])
def test_results_are_looked_at_where_nobody_times(gpu: str) -> None:
    found = inspected(transpose_of(LARGE), NARROW, gpu=gpu)
    assert found.fault is None
    assert "all on the GPU" in found.seconds
    assert found.notes[-1] == "rows=70 cols=40: results are right there, too"


def test_a_kernel_that_is_wrong_at_a_large_size_alone_has_a_fault() -> None:
    found = inspected(transpose_of(LARGE, {"rows": 300, "cols": 40}), NARROW, gpu="H200")
    assert isinstance(found.fault, WrongResult)
    assert found.fault.dims == {"rows": 300, "cols": 40}
    assert found.notes[-2:] == (
        "rows=70 cols=40: results are right there, too",
        "rows=300 cols=40: WRONG_RESULT",
    )


def test_a_size_that_the_memory_does_not_hold_is_a_note() -> None:
    found = inspected(transpose_of({"rows": 1 << 20, "cols": 1 << 16}), NARROW)
    assert found.fault is None
    assert found.notes[-1].startswith("not checked: rows=1,048,576 cols=65,536: ")


@pytest.mark.parametrize(
    ("verdict", "is_fault"),
    [
        (GuardOverwritten(buffer="C", side="after", offset_bytes=0), True),
        (LaunchFailed(kernel="turn", error="cudaErrorInvalidConfiguration"), True),
        (TimedOut(stage="kernel", limit_s=10), False),
        (OutOfMemory(bytes=8, allowed_bytes=4), False),
        (InfraFailed(component="device", detail="gone"), False),
    ],
)
def test_nobody_is_asked_to_be_fast_or_thrifty_there(verdict: Verdict, is_fault: bool) -> None:
    check = conclude_large(verdict, LARGE)
    assert check.fault == (verdict if is_fault else None)
    assert check.notes[0].startswith("rows=70 cols=40: ")


@pytest.mark.parametrize(
    ("verdict", "lacked"),
    [
        (TimedOut(stage="kernel", limit_s=10), False),
        (OutOfMemory(bytes=8, allowed_bytes=4), True),
        (InfraFailed(component="runner", detail="arena: full", lacked_memory=True), True),
        (InfraFailed(component="runner", detail="out of memory, says a kernel"), False),
    ],
)
def test_a_size_for_which_memory_lacked_may_be_checked_with_more_of_it(
    verdict: Verdict, lacked: bool
) -> None:
    assert conclude_large(verdict, LARGE).lacked_memory is lacked


@pytest.mark.parametrize("name", list_tasks())
def test_every_shipped_task_has_a_size_beyond_31_bits(name: str) -> None:
    task = load_task(name)
    assert task.sizes.large
    for dims in task.sizes.large:
        assert max(spec.nbytes for spec in buffer_specs(task, dims)) > 1 << 31


class ShortDevice(MeasuringDevice):
    """Memory lacks so many times when the kernel is opened; what happens is noted."""

    def __init__(self, lacking: int, error: Exception) -> None:
        super().__init__(find_hardware("H200"))
        self.lacking, self.error = lacking, error
        self.noted: list[str] = []

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[Session | Verdict]:
        self.noted.append("open")
        if self.lacking:
            self.lacking -= 1
            raise self.error
        async with super().open(candidate) as opened:
            yield opened

    async def release_unused(self) -> None:
        self.noted.append("release")


def inspected_where(device: ShortDevice) -> Inspection:
    async def run() -> Inspection:
        task = transpose_of(LARGE)
        built = await compile_source(task, device, NARROW, "kernel.cu")
        assert isinstance(built, Compiled)
        options = InspectionOptions(counters=False)
        return await inspect_on_gpu(task, device, built, LARGE, options)

    return asyncio.run(run())


def test_all_that_is_kept_is_given_back_before_an_inspection() -> None:
    device = ShortDevice(0, MemoryError())
    inspected_where(device)
    assert "release" in device.noted


def test_a_large_size_for_which_memory_lacks_is_tried_once_more_when_all_is_given_back() -> None:
    device = ShortDevice(1, MemoryError("Out of memory allocating 8,589,934,592 bytes"))
    found = inspected_where(device)
    assert found.notes[-1] == "rows=70 cols=40: results are right there, too"
    first = device.noted.index("open")
    assert "release" in device.noted[first:]


def test_a_large_size_for_which_memory_lacks_for_good_is_a_note_beside_what_was_found() -> None:
    found = inspected_where(ShortDevice(99, NoMemory("device memory", "none is to be had")))
    assert found.fault is None
    assert found.notes[-1] == ("rows=70 cols=40: not checked: device memory: none is to be had")
    assert len(found.notes) > 1


def test_what_fails_otherwise_is_no_note_of_a_size() -> None:
    with pytest.raises(TaskError):
        inspected_where(ShortDevice(99, TaskError("reference.py: broken")))


class CountingDevice(MeasuringDevice):
    """Counts and sanitizes by name alone, and notes what it was asked for."""

    def __init__(self) -> None:
        super().__init__(find_hardware("H200"))
        self.asked: list[tuple[bool, bool]] = []

    async def inspect(
        self, task: Task, compiled: Compiled, dims: object, options: InspectionOptions
    ) -> Inspection:
        self.asked.append((options.counters, bool(options.sanitizers)))
        if not options.counters:
            return Inspection(notes=("sanitized",), seconds={"sanitizers": 2.0})
        one = KernelCounters(kernel="turn", duration_us=9.0, flushed=True)
        return Inspection(counters=(one,), notes=("counted",), seconds={"counters": 1.0})


def test_a_kernel_is_counted_alone_and_then_sanitized_beside_large_sizes() -> None:
    device = CountingDevice()

    async def run() -> Inspection:
        task = transpose_of(LARGE)
        built = await compile_source(task, device, NARROW, "kernel.cu")
        assert isinstance(built, Compiled)
        return await inspect_on_gpu(task, device, built, LARGE, InspectionOptions())

    found = asyncio.run(run())
    assert device.asked == [(True, False), (False, True)]
    assert [one.kernel for one in found.counters] == ["turn"]
    assert found.notes[:2] == ("counted", "sanitized")
    assert (found.seconds["counters"], found.seconds["sanitizers"]) == (1.0, 2.0)


class UnsteadyHost(ForwardingDevice):
    """A GPU whose host process runs out of memory so many times."""

    def __init__(self, device: Device, failures: int) -> None:
        super().__init__(device)
        self.left = failures

    async def carry_out(self, work: Work[T]) -> T:
        if self.left:
            self.left -= 1
            raise InfrastructureError("gpu_host", "out of memory")
        return await super().carry_out(work)


@pytest.mark.parametrize("failures", [1, 99])
def test_an_inspection_that_fails_is_tried_again_and_else_there_was_none(failures: int) -> None:
    device = UnsteadyHost(MeasuringDevice(find_hardware("RTX 3090 Ti")), failures)
    task = transpose_of()

    async def run() -> Inspection:
        bench = replace(open_bench(task, device), retry=StepRetry(first_wait_s=0.0))
        built = await bench.compile(NARROW, "kernel.cu")
        assert isinstance(built, Compiled)
        return await bench.inspect_at(built, LARGE, InspectionOptions(counters=False))

    found = asyncio.run(run())
    assert found.not_inspected == ("" if failures == 1 else "gpu_host: out of memory")
    assert "no device that watches every access was given" in found.notes[-1]
