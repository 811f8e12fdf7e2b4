"""A task at one size: the buffers and arguments of a call, and what a call may use."""

from collections.abc import Mapping

from cuda_llm.tasks.dtypes import CTYPES
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.shapes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tools.buffers import BufferSpec, Role
from cuda_llm.tools.device import Argument, CallOptions, Level, Scalar

Dims = Mapping[str, int]


def buffer_specs(task: Task, dims: Dims) -> tuple[BufferSpec, ...]:
    """The buffers `solve` takes, in order."""
    return tuple(
        BufferSpec(
            name=argument.name,
            role=Role(argument.role.value),
            dtype=argument.dtype,
            shape=shape_of(argument, dims),
        )
        for argument in task.arguments
        if argument.role is not ArgumentRole.SCALAR
    )


def call_arguments(task: Task, dims: Dims) -> tuple[Argument, ...]:
    """The arguments of `solve`, in order."""
    return tuple(
        Scalar(value=scalar_value(argument, dims), ctype=CTYPES[argument.dtype])
        if argument.role is ArgumentRole.SCALAR
        else argument.name
        for argument in task.arguments
    )


def call_options(
    task: Task, dims: Dims, *, level: Level = Level.CHECK, schedule_seed: int = 0
) -> CallOptions:
    """What a call may use: the task's capabilities, and the time the settings allow."""
    from cuda_llm.settings import settings

    return CallOptions(
        level=level,
        schedule_seed=schedule_seed,
        limit_s=settings().call_limit_s,
        scratch_bytes=int(evaluate(task.capabilities.scratch_bytes, dims)),
        device_to_host=task.capabilities.device_to_host,
    )


def work(task: Task, dims: Dims) -> float:
    """Operations and bytes no kernel can do without: what cases are ordered and bounded by."""
    roofline = task.roofline
    return float(evaluate(roofline.flops, dims)) + float(evaluate(roofline.bytes, dims))
