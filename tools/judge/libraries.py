"""Times of the libraries that do a task's work, taken on the same device in the same way as those
of kernels."""

import math
from dataclasses import replace
from pathlib import Path

from cuda_llm.errors import NoMemory, TaskError
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import LibraryTimes
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.device.candidate import Compiled, LibraryCall
from cuda_llm.tools.judge import plain_copy
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.judge import StepRetry
from cuda_llm.tools.timing.baseline_doubt import size_key
from cuda_llm.tools.timing.failures import FailedCase, without_case
from cuda_llm.tools.timing.library import measure_library
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.verdict_wording import describe

HEADER_LIBRARY = "CUB"
COPY_TASK = "matrix_copy"


async def time_libraries(
    task: Task, device: Device, options: MeasureOptions | None = None
) -> tuple[LibraryTimes, ...]:
    """Return the times of each of the task's libraries, and at last of a plain copy of as many
    bytes.

    Empty where times are modelled. Raises TaskError where the task's baseline is broken,
    MissingError without PyTorch.
    """
    if not device.capabilities.duels:
        return ()
    pinned, chosen = device.pinned(), options or MeasureOptions()

    async def timed(of: Task, file: Path) -> LibraryTimes:
        return await StepRetry().run(lambda _trial: time_library(of, pinned, file, chosen))

    each = [await timed(task, file) for file in task.libraries]
    return (*each, await timed(*copy_of(task)))


async def time_library(
    task: Task, device: Device, file: Path, options: MeasureOptions
) -> LibraryTimes:
    """Time one file of `Task.libraries`: a call of PyTorch, or a candidate of header libraries.

    A file that cannot be timed has the reason as the `fault` of its times. Raises TaskError where
    the task's baseline is broken, MissingError without PyTorch.
    """
    if file.suffix != ".py":
        return await _time_candidate(task, device, file, options)
    call = LibraryCall(file=file, arguments=tuple(one.name for one in task.arguments))
    baseline = await compile_baseline(task, device.hardware.target)
    try:
        return await device.carry_out(Work.of(measure_library, task, call, baseline, options))
    except (TaskError, NoMemory) as error:
        return LibraryTimes(name=file.name, fault=str(error))


async def _time_candidate(
    task: Task, device: Device, file: Path, options: MeasureOptions
) -> LibraryTimes:
    baseline = await compile_baseline(task, device.hardware.target)
    compiled = await compile_source(task, device, file.read_text(encoding="utf-8"), file.name)
    if not isinstance(compiled, Compiled):
        return LibraryTimes(name=HEADER_LIBRARY, fault="; ".join(describe(compiled)))
    outcome: KernelTimes | Verdict | FailedCase = await device.carry_out(
        Work.of(measure_candidate, task, compiled, baseline, options)
    )
    timed: KernelTimes | Verdict = without_case(outcome)
    if not isinstance(timed, KernelTimes):
        return LibraryTimes(name=HEADER_LIBRARY, fault="; ".join(describe(timed)))
    known = {size_key(one.dims): one for one in timed.sizes}
    sizes = [known.get(size_key(dims)) for dims in task.sizes.bench]
    return LibraryTimes(
        name=HEADER_LIBRARY,
        times=tuple(None if one is None else one.time_us for one in sizes),
        spreads=tuple(None if one is None else one.spread for one in sizes),
    )


def copy_of(task: Task) -> tuple[Task, Path]:
    """Return the task of copying as many bytes as each bench size of `task` has to move, and its
    library. Half of the bytes are read and half are written."""
    copying = load_task(COPY_TASK)
    sides = [
        max(1, round(math.sqrt(float(evaluate(task.roofline.bytes, dims)) / 8)))
        for dims in task.sizes.bench
    ]
    bench = tuple({"n": side} for side in sides)
    sizes = replace(copying.sizes, bench=bench)
    return replace(copying, sizes=sizes, weights=()), Path(plain_copy.__file__)
