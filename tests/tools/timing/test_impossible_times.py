"""Times below what the bytes and the arithmetic of a task need are impossible."""

from dataclasses import replace

import pytest
from simulated_clock import pair_without_noise as pair

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import ImpossibleTime, InfraFailed
from cuda_llm.profile import LaunchProfile
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.sizes import fastest_precision, least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.timing.comparison import compare_blocks
from cuda_llm.tools.timing.failures import (
    ROOFLINE_SLACK,
    ModelledCall,
    find_impossible,
    find_impossible_model,
)
from cuda_llm.tools.timing.slope import BatchBlock
from cuda_llm.tools.timing.times import find_too_quick

HARDWARE = find_hardware("RTX 3090 Ti")
TRANSPOSE = load_task("matrix_transpose")
DIMS = {"rows": 2048, "cols": 2048}


def least_us(task: Task, dims: dict[str, int]) -> float:
    return least_time(task, HARDWARE, dims, precision=fastest_precision(HARDWARE)).time_us


def test_moving_every_byte_once_takes_its_time_on_the_bus() -> None:
    bytes_moved = 8 * 2048 * 2048
    expected = bytes_moved / (HARDWARE.peaks.dram_gb_s * 1e3)
    assert least_us(TRANSPOSE, DIMS) == pytest.approx(expected)


def test_arithmetic_counts_at_the_fastest_precision() -> None:
    product = load_task("matrix_multiplication")
    dims = {"M": 4096, "N": 4096, "K": 4096}
    fastest = max(HARDWARE.peaks.fp32_tflops, *HARDWARE.peaks.tensor_dense_tflops.values())
    least = least_us(product, dims)
    assert least >= 0.99 * 2 * 4096**3 / (fastest * 1e6)


@pytest.mark.parametrize(("part", "impossible"), [(0.99, True), (1.01, False), (10, False)])
def test_only_what_is_below_the_floor_is_refused(part: float, impossible: bool) -> None:
    floor_us = ROOFLINE_SLACK * least_us(TRANSPOSE, DIMS)
    found = find_impossible(TRANSPOSE, HARDWARE, [(DIMS, 1e6), (DIMS, part * floor_us)])
    assert isinstance(found, ImpossibleTime) is impossible
    if found is not None:
        assert found.floor_us == pytest.approx(floor_us)


@pytest.mark.parametrize(
    ("value", "most", "expected"),
    [
        (0.5, 0.9, ImpossibleTime),
        (0.5, 1.1, InfraFailed),
        (1.1, 1.2, type(None)),
    ],
)
def test_a_time_is_impossible_only_where_no_call_can_have_taken_longer(
    value: float, most: float, expected: type
) -> None:
    floor_us = ROOFLINE_SLACK * least_us(TRANSPOSE, DIMS)
    block = BatchBlock(first=pair(value * floor_us), second=pair(floor_us), empty=pair(0.0))
    measured = replace(compare_blocks([block] * 3), most_us=most * floor_us)
    found = find_too_quick(TRANSPOSE, HARDWARE, DIMS, measured, l2_warm=False)
    assert isinstance(found, expected)
    if isinstance(found, InfraFailed):
        assert "rows = 2048, cols = 2048" in found.detail


@pytest.mark.parametrize(("part", "impossible"), [(0.99, True), (1.01, False)])
def test_a_modelled_time_has_no_slack(part: float, impossible: bool) -> None:
    found = find_impossible_model(TRANSPOSE, HARDWARE, [(DIMS, part * least_us(TRANSPOSE, DIMS))])
    assert isinstance(found, ImpossibleTime) is impossible


def product_call(size: int, tensor_operations: float, tensor_us: float = 0.0) -> ModelledCall:
    figures = {"tensor_operations": tensor_operations, "least_tensor_us": tensor_us}
    launch = LaunchProfile(
        kernel="k",
        grid=(1, 1, 1),
        block=(32, 1, 1),
        shared_bytes=0,
        occupancy=1.0,
        time_us=1.0,
        figures=figures if tensor_operations else {},
    )
    return ModelledCall(dims=cube(size), launches=[launch])


def cube(size: int) -> dict[str, int]:
    return {"M": size, "N": size, "K": size}


def test_work_that_was_counted_on_tensor_cores_is_not_asked_of_cuda_cores() -> None:
    product = load_task("matrix_multiplication")
    dims = cube(1024)
    work = 2.0 * 1024**3
    floor_us = work / (HARDWARE.peaks.fp32_tflops * 1e6)

    def found(part: float, done: float) -> ImpossibleTime | None:
        calls = {0: product_call(1024, done)}
        return find_impossible_model(product, HARDWARE, [(dims, part * floor_us)], calls)

    assert found(0.51, work / 2) is None
    assert isinstance(found(0.49, work / 2), ImpossibleTime)
    assert found(0.25, 3 * work) is None
    assert isinstance(found(0.9, 0.0), ImpossibleTime)
    moving_us = 3 * 4 * 1024**2 / (HARDWARE.peaks.dram_gb_s * 1e3)
    assert isinstance(found(0.9 * moving_us / floor_us, 3 * work), ImpossibleTime)


def test_each_size_is_held_against_what_it_did_itself() -> None:
    """The few rows of the last size are no work for tensor cores, those of the first are."""
    product = load_task("matrix_multiplication")
    many, few = cube(1024), cube(256)
    many_us, few_us = (
        2.0 * dims["M"] ** 3 / (HARDWARE.peaks.fp32_tflops * 1e6) for dims in (many, few)
    )
    calls = {0: product_call(1024, 2.0 * 1024**3), 1: product_call(256, 0.0)}

    def found(many_part: float, few_part: float) -> ImpossibleTime | None:
        times = [(many, many_part * many_us), (few, few_part * few_us)]
        return find_impossible_model(product, HARDWARE, times, calls)

    assert found(0.5, 2.0) is None
    assert isinstance(found(0.5, 0.9), ImpossibleTime)


@pytest.mark.parametrize("number", [0, -1])
def test_a_size_that_was_not_executed_may_do_what_another_one_did(number: int) -> None:
    product = load_task("matrix_multiplication")
    executed, extrapolated = cube(1024), cube(4096)
    floor_us = 2.0 * 1024**3 / (HARDWARE.peaks.fp32_tflops * 1e6)
    times = [(executed, 0.5 * floor_us), (extrapolated, 64 * 0.5 * floor_us)]
    calls = {number: product_call(1024, 2.0 * 1024**3)}
    assert find_impossible_model(product, HARDWARE, times, calls) is None
    assert isinstance(find_impossible_model(product, HARDWARE, times), ImpossibleTime)


def test_tensor_cores_have_a_peak_too() -> None:
    product = load_task("matrix_multiplication")
    calls = {0: product_call(1024, 2.0 * 1024**3, tensor_us=30.0)}
    for part, impossible in ((0.99, True), (1.01, False)):
        times = [(cube(4096), part * 64 * 30.0)]
        found = find_impossible_model(product, HARDWARE, times, calls={-1: calls[0]})
        assert isinstance(found, ImpossibleTime) is impossible


def test_modelled_fp32_work_is_held_against_fp32_peaks() -> None:
    product = load_task("matrix_multiplication")
    dims = {"M": 1024, "N": 1024, "K": 1024}
    floor_us = 2 * 1024**3 / (HARDWARE.peaks.fp32_tflops * 1e6)
    found = find_impossible_model(product, HARDWARE, [(dims, 0.99 * floor_us)])
    assert isinstance(found, ImpossibleTime)
    assert found.floor_us == pytest.approx(floor_us)
    assert find_impossible_model(product, HARDWARE, [(dims, 1.01 * floor_us)]) is None
