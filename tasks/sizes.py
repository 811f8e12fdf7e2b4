"""Shapes and values of a task's arguments at a size, and the least time of the size on a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cuda_llm.errors import TaskError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import peak_tflops, published_peaks, roof
from cuda_llm.tasks.element_types import FORMATS, element_type
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.split_products import split_tflops
from cuda_llm.tasks.task import Task, TaskArgument, is_float


def shape_of(argument: TaskArgument, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Return the extents of a buffer. Raises TaskError where an extent is no whole number of at
    least 0."""
    extents = []
    for text in argument.shape:
        extent = evaluate(text, dims)
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 0:
            raise TaskError(
                f"{argument.name}: {text} is {extent} at {dict(dims)}; "
                "expected a whole number of at least 0"
            )
        extents.append(extent)
    return tuple(extents)


def item_bytes(dtype: str) -> int:
    """Return the size of one element of a type in bytes."""
    return element_type(dtype).item_bytes


def scalar_value(argument: TaskArgument, dims: Mapping[str, int]) -> int | float:
    """Return the value of a scalar argument, as a float where its dtype is a float type."""
    value = evaluate(argument.value, dims)
    return float(value) if is_float(argument.dtype) else int(value)


@dataclass(frozen=True, kw_only=True)
class LeastTime:
    """Least time, bytes and operations of a task at a size."""

    time_us: float
    """Microseconds at published peaks. A kernel whose data stay in L2 may be faster."""
    attainable_us: float
    """Microseconds at the bandwidth that a large copy reaches, including a launch: the roofline
    that results are compared with."""
    reachable_us: float
    """Microseconds of a launch, the round trip of a load to DRAM, before which nothing can be
    computed, and the arithmetic on CUDA cores or, in split numbers, on tensor cores: no kernel is
    promised less."""
    arithmetic: str
    """The faster of both arithmetics, as prompts name it: `fp32`, `split tf32`."""
    bound: Literal["compute", "memory"]
    flops: float
    bytes_moved: float
    precision: str
    """Precision of the peak that was used, as `hardware_profiles.roofline` spells it."""


def least_time(
    task: Task, hardware: Hardware, dims: Mapping[str, int], *, precision: str = ""
) -> LeastTime:
    """Compute the roofline of a size, by default in the fastest precision the task allows."""
    precision = precision or usable_precision(task, hardware)
    flops = float(evaluate(task.roofline.flops, dims))
    bytes_moved = float(evaluate(task.roofline.bytes, dims))
    least = roof(hardware, flops=flops, bytes_moved=bytes_moved, precision=precision)
    moving_us = least.memory_us / hardware.model.dram_efficiency
    launch_us = hardware.model.launch_us
    loads = any(argument.role in ("in", "inout") for argument in task.arguments)
    split = split_tflops(task, hardware)
    splits = split > peak_tflops(hardware, precision)
    computing_us = flops / (split * 1e6) if splits else least.compute_us
    return LeastTime(
        time_us=least.time_us,
        attainable_us=launch_us + max(least.compute_us, moving_us),
        reachable_us=launch_us
        + max(computing_us, moving_us)
        + (round_trip_us(hardware) if loads else 0.0),
        arithmetic="split tf32" if splits else precision,
        bound=least.bound,
        flops=flops,
        bytes_moved=bytes_moved,
        precision=precision,
    )


def round_trip_us(hardware: Hardware) -> float:
    """Return the microseconds from a load to the arrival of its value from DRAM."""
    return hardware.model.latency_dram_clk / hardware.boost_clock_mhz


def usable_precision(task: Task, hardware: Hardware) -> str:
    """Return the fastest arithmetic that the task's tolerance allows and the chip has."""
    precision = task.tolerance.precision
    wanted = "fp8" if precision in ("e4m3", "e5m2") else precision
    allowed = ["fp32"] if wanted == "fp32" else [f"tensor:{wanted}", wanted, "fp32"]
    peaks = published_peaks(hardware)
    return next(one for one in allowed if one in peaks)


def core_precision(task: Task, hardware: Hardware) -> str:
    """Returns the fastest arithmetic of CUDA cores that the task's tolerance allows.

    Exact results are most often integers, whose products some units take four at a time.
    """
    if task.tolerance.kind == "exact":
        return fastest_precision(hardware)
    narrow = FORMATS[task.tolerance.precision].is_short
    peaks = published_peaks(hardware)
    return max(("fp16", "fp32") if narrow else ("fp32",), key=lambda one: peaks.get(one, 0.0))


def fastest_precision(hardware: Hardware) -> str:
    """Return the arithmetic with the highest peak, whatever a task allows."""
    peaks = published_peaks(hardware)
    return max(peaks, key=lambda precision: peaks[precision])
