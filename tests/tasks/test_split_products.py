"""What tensor cores do of a task in fp32 follows from the task's limits and the chip's rates."""

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.sizes import least_time
from cuda_llm.tasks.split_products import SPLITS, is_exact_enough, split_tflops


def test_the_error_of_a_product_of_parts_is_that_of_its_first_order_left_out() -> None:
    assert [one.error for one in SPLITS] == [2 * 2.0**-11, 3 * 2.0**-22, 3 * 2.0**-16]


def test_only_two_tf32_parts_keep_a_product_of_matrices_in_full_precision() -> None:
    task = load_task("matrix_multiplication")
    assert [one.name for one in SPLITS if is_exact_enough(task, one)] == ["three of two tf32 parts"]


@pytest.mark.parametrize("task", ["gemm_fp16", "reduction", "sorting", "sigmoid"])
def test_tasks_without_products_in_fp32_split_nothing(task: str) -> None:
    assert split_tflops(load_task(task), find_hardware("NVIDIA H200")) == 0.0


@pytest.mark.parametrize(
    ("gpu", "arithmetic"),
    [("NVIDIA H200", "split tf32"), ("NVIDIA GeForce RTX 3090 Ti", "fp32")],
)
def test_no_time_below_that_of_the_faster_arithmetic_is_promised(gpu: str, arithmetic: str) -> None:
    task, hardware = load_task("matrix_multiplication"), find_hardware(gpu)
    least = least_time(task, hardware, task.sizes.bench[-1])
    assert (least.arithmetic, least.precision) == (arithmetic, "fp32")
    rate = max(hardware.peaks.fp32_tflops, split_tflops(task, hardware))
    assert least.reachable_us == pytest.approx(least.flops / (rate * 1e6), rel=0.01)
    assert least.attainable_us >= 0.99 * least.flops / (hardware.peaks.fp32_tflops * 1e6)
