"""No kernel is faster than the bytes it must move and the arithmetic it must do."""

from collections.abc import Iterable, Mapping

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import roof
from cuda_llm.outcomes import ImpossibleTime, InfraFailed
from cuda_llm.tasks.least_time import fastest_precision, least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.noisy import noisy
from cuda_llm.tools.timing.comparison import Comparison

SLACK = 0.5
"""Results may still lie in L2 when the clock stops, and a roofline is written by hand."""


def find_impossible(
    task: Task,
    hardware: Hardware,
    times: Iterable[tuple[Mapping[str, int], float]],
    *,
    l2_warm: bool = False,
) -> ImpossibleTime | None:
    """The first size that took less than half of its roofline's time, at the chip's best peaks.

    With `l2_warm`, what fits into L2 need not be moved at all.
    """
    for dims, time_us in times:
        floor_us = SLACK * least_us(task, hardware, dims, l2_warm=l2_warm)
        if time_us < floor_us:
            return ImpossibleTime(
                time_us=time_us,
                floor_us=floor_us,
            )
    return None


def find_too_quick(
    task: Task,
    hardware: Hardware,
    dims: Mapping[str, int],
    measured: Comparison,
    *,
    l2_warm: bool,
) -> ImpossibleTime | InfraFailed | None:
    """A measured time is impossible where all that calls can have taken is.

    One below the floor of a call that may have taken longer is noise, and no figure either.
    """
    call_us, most_us = measured.first_us.value, measured.most_us
    at_most, at_best = (
        find_impossible(task, hardware, [(dims, time_us)], l2_warm=l2_warm)
        for time_us in (most_us, call_us)
    )
    if at_best is None or at_most is not None:
        return at_best
    size = ", ".join(f"{name} = {extent}" for name, extent in dims.items())
    return noisy(
        f"at {size} calls seem to take {call_us:.3g} us, less than is possible, but may take "
        f"{most_us:.3g} us: other work on this machine holds up what is timed"
    )


def least_us(task: Task, hardware: Hardware, dims: Mapping[str, int], *, l2_warm: bool) -> float:
    """What the size takes at the chip's best peaks."""
    least = least_time(task, hardware, dims, precision=fastest_precision(hardware))
    if not l2_warm:
        return least.time_us
    moved = max(0.0, least.bytes_moved - hardware.l2_bytes)
    return roof(hardware, flops=least.flops, bytes_moved=moved, precision=least.precision).time_us
