"""Calls and times of sources on an emulated H200, at sizes of a test's own."""

import asyncio
from dataclasses import replace

from unfilled_calls import NONCE, call_source

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import DependentLaunch, Verdict
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.sizes import fastest_precision, least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.judge import time_compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.times import KernelTimes


def device() -> EmulatedDevice:
    return open_emulated("H200")


def called(
    task: Task, source: str, dims: Dims, level: Level
) -> CallReport | DependentLaunch | Verdict:
    return asyncio.run(call_source(task, device(), source, dims, level))


def timed(
    task: Task, source: str, nonce: bytes | None = NONCE
) -> KernelTimes | Verdict | FailedCase:
    """Times of a kernel, on inputs and blocks that follow from the nonce, or from the source."""

    async def work() -> KernelTimes | Verdict | FailedCase:
        compiled = await compile_source(task, device(), source, "solve.cu")
        assert isinstance(compiled, Compiled), compiled
        return await time_compiled(task, device(), compiled, nonce=nonce)

    return asyncio.run(work())


def with_sizes(task: Task, emulated: Dims, *bench: Dims) -> Task:
    sizes = replace(task.sizes, emulated=(emulated,), bench=bench)
    return replace(task, sizes=sizes, weights=())


def roofline_us(task: Task, hardware: Hardware, dims: Dims) -> float:
    """Time of a size at the fastest arithmetic that right results allow, in microseconds.

    Exact results are most often integers, whose products some units take four at a time.
    """
    precision = fastest_precision(hardware) if task.tolerance.kind == "exact" else ""
    return least_time(task, hardware, dims, precision=precision).time_us
