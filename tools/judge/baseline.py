"""The task's baseline, compiled and timed: the denominator of every speedup."""

from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.request import baseline_request
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.kept_times import kept_file, read_times, write_times
from cuda_llm.tools.judge.measured.judge_times import baseline_there
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.on_site import time_calls_there
from cuda_llm.tools.judge.refusal import refusal
from cuda_llm.tools.judge.timing import Dims, Timing

FORMAT = 2
INPUTS = b"baseline"
"""Nonce of the timed inputs: always the same, because where a kernel's time depends on them, every
speed-up would depend on when its baseline was timed. The baseline has nobody to deceive."""


async def compile_baseline(task: Task, target: str) -> Compiled:
    """The task's baseline, built for `target`. Raises TaskError where it is refused."""
    compiled = await compile_candidate(baseline_request(task, target))
    if not isinstance(compiled, Compiled):
        raise refusal(task, compiled)
    return compiled


async def time_baseline(
    task: Task, device: Device, options: MeasureOptions | None = None
) -> Timing:
    """Time the task's baseline, once for each content, device and model.

    Where kernels duel, its own times are kept where the device is; speed-ups come from the
    baseline that runs beside each candidate. Raises TaskError when the baseline itself is refused:
    then no kernel of the task can be judged.
    """
    compiled = await compile_baseline(task, device.target)
    if device.capabilities.duels:
        options = options or MeasureOptions()
        return await device.carry_out(baseline_there, task, compiled, options)
    kept = kept_file(*cache_parts(task, device, compiled))
    # What was measured on another day, beside other work, is no denominator.
    modelled = not device.capabilities.measures_time
    times_us = read_times(kept, len(task.sizes.emulated)) if modelled else None
    if times_us is not None:
        return without_profile(tuple(zip(task.sizes.emulated, times_us, strict=True)))
    timing = await device.carry_out(time_calls_there, task, compiled, compiled, INPUTS)
    if not isinstance(timing, Timing):
        raise refusal(task, timing)
    if modelled:
        write_times(kept, [time_us for _, time_us in timing.times])
    return without_profile(timing.times)


def without_profile(times: tuple[tuple[Dims, float], ...]) -> Timing:
    """Times alone: nobody asks what limits a baseline."""
    return Timing(times=times, launches=(), bottlenecks=())


def cache_parts(task: Task, device: Device, compiled: Compiled) -> tuple[object, ...]:
    """Everything a baseline's time depends on."""
    asked = (task.sizes, task.arguments, task.capabilities)
    return FORMAT, compiled.key, device.name, device.version, repr(asked)
