"""Memory and reference cost, planned before anything runs."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import Dims, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.validator.budget import MemoryPlan, check_bytes, plan_sizes
from cuda_llm.tools.validator.cases import timed_case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.check_outputs import Method, check_outputs

ON_GPU = replace(HOST, at_once=1 << 24, part_bytes=1 << 31)
TASKS = (
    "vector_add",
    "matrix_multiplication",
    "matrix_transpose",
    "reduction",
    "histogram",
    "conv2d",
)


def plan(name: str, chip: str, free_gb: float = 0.0) -> MemoryPlan:
    hardware, task = find_hardware(chip), load_task(name)
    free = int(free_gb * 1e9 or 0.93 * hardware.memory_bytes)
    return plan_sizes(task, task.sizes.bench, free_bytes=free, hardware=hardware, arrays=ON_GPU)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("chip", ["NVIDIA H200", "RTX 3090 Ti"])
def test_the_papers_sizes_are_all_judged_in_time(name: str, chip: str) -> None:
    planned = plan(name, chip)
    too_large = (name, chip) == ("matrix_multiplication", "RTX 3090 Ti")
    assert len(planned.left_out) == too_large
    for size in planned.sizes:
        assert size.slots >= 2
        assert size.method is Method.PROJECTED or size.reference_s < 0.5
        assert size.peak_bytes <= 0.93 * find_hardware(chip).memory_bytes


def test_slow_float64_means_projections() -> None:
    """8.8 TFLOP: 0.5 s on a chip with half-rate float64, 7 s for a quarter of it on one of 1/64."""
    fast = plan("matrix_multiplication", "NVIDIA H200")
    slow = plan("matrix_multiplication", "RTX 3090 Ti")
    assert [size.method.value for size in fast.sizes] == ["reference"] * 4 + ["projected"]
    assert [size.method.value for size in slow.sizes] == ["reference"] + ["projected"] * 3
    assert fast.sizes[-1].words.endswith(
        "the reference takes 8.8 TFLOP in float64, 0.53 s at half of 33.5 TFLOP/s: projected"
    )
    assert slow.sizes[-1].reference_s == pytest.approx(7.0, rel=0.02)


def test_projected_sizes_are_reported() -> None:
    (line,) = plan("matrix_multiplication", "NVIDIA H200").how_checked
    assert line.startswith("M=262,144 N=2,048 K=4,096: every output element checked by random")
    assert "8.8 TFLOP" in line
    assert not plan("vector_add", "NVIDIA H200").how_checked


def test_what_does_not_fit_is_left_out_with_its_figures() -> None:
    planned = plan("matrix_multiplication", "NVIDIA H200", free_gb=20)
    assert len(planned.sizes) == 4
    (line,) = planned.left_out
    assert line.startswith("M=262,144 N=2,048 K=4,096: 2 lanes x 2 slots x (6.48 GB buffers")
    assert line.endswith("but 20 GB are free")


def test_more_memory_means_more_slots_and_scratch() -> None:
    for less, more in zip(
        plan("matrix_transpose", "L4").sizes,
        plan("matrix_transpose", "NVIDIA H200").sizes,
        strict=True,
    ):
        assert less.slots <= more.slots
        assert less.scratch_bytes <= more.scratch_bytes
    assert plan("matrix_transpose", "L4").sizes[-1].slots < 256


def test_a_reference_that_takes_too_long_and_cannot_be_projected_is_left_out() -> None:
    task, hardware = load_task("conv2d"), find_hardware("RTX 3090 Ti")
    huge = {"H": 40_000, "W": 40_000, "R": 24, "S": 24}
    planned = plan_sizes(task, [huge], free_bytes=10**12, hardware=hardware, arrays=ON_GPU)
    (line,) = planned.left_out
    assert "H=40,000" in line
    assert "offers no projection" in line


def test_a_task_without_a_reference_costs_a_baselines_call() -> None:
    task, hardware = replace(load_task("vector_add"), reference=None), find_hardware("NVIDIA H200")
    planned = plan_sizes(
        task, task.sizes.bench, free_bytes=10**11, hardware=hardware, arrays=ON_GPU
    )
    assert len(planned.sizes) == 5
    assert "baseline" in planned.sizes[0].words


@pytest.mark.parametrize(
    ("name", "dims", "spare"),
    [
        ("vector_add", {"n": 800_000}, 1.6),  # Nothing is made of the inputs.
        ("matrix_multiplication", {"M": 700, "N": 500, "K": 600}, 1.2),
        ("matrix_transpose", {"rows": 900, "cols": 1100}, 3.0),  # Nor is the value float64.
        ("reduction", {"n": 1_000_000}, 1.2),
    ],
)
@pytest.mark.parametrize("part_bytes", [1 << 31, 1 << 24])
def test_the_arithmetic_is_what_is_allocated(
    name: str, dims: Dims, spare: float, part_bytes: int
) -> None:
    task, arrays = load_task(name), replace(HOST, part_bytes=part_bytes)
    case = timed_case(task, dims, Level.CHECK)
    inputs = draw_inputs(task, case, np.random.default_rng(0))
    reference = load_reference(task)
    outputs = {
        key: value.astype(np.float32) for key, value in reference.compute(np, inputs, dims).items()
    }
    tracemalloc.start()
    found = check_outputs(task, case, inputs, outputs, arrays, reference=reference)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found is None
    assert peak / 1.2 <= check_bytes(task, dims, reference, arrays) <= spare * peak


def test_libraries_sessions_and_a_baseline_that_is_the_oracle_are_counted() -> None:
    task, hardware = load_task("vector_add"), find_hardware("NVIDIA H100 80GB HBM3")

    def peak(which: Task, libraries: int = 0, lane_bytes: int = 0) -> int:
        planned = plan_sizes(
            which,
            which.sizes.bench[-1:],
            free_bytes=10**11,
            hardware=hardware,
            arrays=ON_GPU,
            libraries=libraries,
            lane_bytes=lane_bytes,
        )
        return planned.sizes[0].peak_bytes

    n = task.sizes.bench[-1]["n"]
    assert peak(task, libraries=1) == peak(task) + 2 * 4 * n, "results of two calls"
    assert peak(task, lane_bytes=10**9) == peak(task) + 2 * 10**9
    blind = replace(task, reference=None)
    assert peak(blind, lane_bytes=10**9) > peak(blind) + 3 * 10**9 - 1


def test_scratch_leaves_what_is_to_be_spared() -> None:
    task, hardware = load_task("matrix_multiplication"), find_hardware("NVIDIA H100 80GB HBM3")
    planned = plan_sizes(
        task,
        task.sizes.bench,
        free_bytes=75 * 10**9,
        spare_bytes=7 * 10**9,
        hardware=hardware,
        arrays=ON_GPU,
    )
    assert planned.sizes[-1].dims["M"] == 262_144
    assert planned.sizes[-1].scratch_bytes > 0
    assert planned.sizes[-1].peak_bytes <= 68 * 10**9
