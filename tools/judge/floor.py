"""No kernel is faster than the bytes it must move and the arithmetic it must do."""

from collections.abc import Iterable, Mapping

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import ImpossibleTime
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import Task

SLACK = 0.5
"""Results may still lie in L2 when the clock stops, and a roofline is written by hand."""


def find_impossible(
    task: Task, hardware: Hardware, times: Iterable[tuple[Mapping[str, int], float]]
) -> ImpossibleTime | None:
    """The first size that took less than half of its roofline's time, at the chip's best peaks."""
    for dims, time_us in times:
        floor_us = SLACK * least_us(task, hardware, dims)
        if time_us < floor_us:
            return ImpossibleTime(
                time_us=time_us,
                floor_us=floor_us,
                detail="less than half of what the bytes and operations of the task need",
            )
    return None


def least_us(task: Task, hardware: Hardware, dims: Mapping[str, int]) -> float:
    """Time of the task's compulsory bytes and operations at published peaks of any precision."""
    peaks = hardware.peaks
    fastest = max(
        (peaks.fp32_tflops, peaks.fp16_tflops, *peaks.tensor_dense_tflops.values()), default=0.0
    )
    moving_us = float(evaluate(task.roofline.bytes, dims)) / (peaks.dram_gb_s * 1e3)
    computing_us = float(evaluate(task.roofline.flops, dims)) / (fastest * 1e6)
    return max(moving_us, computing_us)
