"""No kernel is faster than the bytes it must move and the arithmetic it must do."""

from collections.abc import Iterable, Mapping

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import ImpossibleTime
from cuda_llm.tasks.least_time import fastest_precision, least_time
from cuda_llm.tasks.task import Task

SLACK = 0.5
"""Results may still lie in L2 when the clock stops, and a roofline is written by hand."""


def find_impossible(
    task: Task, hardware: Hardware, times: Iterable[tuple[Mapping[str, int], float]]
) -> ImpossibleTime | None:
    """The first size that took less than half of its roofline's time, at the chip's best peaks."""
    fastest = fastest_precision(hardware)
    for dims, time_us in times:
        floor_us = SLACK * least_time(task, hardware, dims, precision=fastest).time_us
        if time_us < floor_us:
            return ImpossibleTime(
                time_us=time_us,
                floor_us=floor_us,
                detail="less than half of what the bytes and operations of the task need",
            )
    return None
