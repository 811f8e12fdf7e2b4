"""A task's buffers at a size: filling and guarding them before a call, checking them after it.

Arrays stay where the buffers are; a check of all of them costs one transfer.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cuda_llm.outcomes import GuardOverwritten, InputMutated
from cuda_llm.settings import settings
from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, TaskArgument
from cuda_llm.tools.device import Argument, CallOptions, Level, Scalar
from cuda_llm.tools.device.buffers import (
    HOST,
    Array,
    Arrays,
    BufferSpec,
    PlacedBuffer,
    Random,
    Role,
)
from cuda_llm.tools.validator.fused import as_words, bytes_of, first_difference


def buffer_specs(task: Task, dims: Dims) -> tuple[BufferSpec, ...]:
    """Return the buffers `solve` takes, in order."""
    return tuple(
        BufferSpec(
            name=argument.name,
            role=Role.INOUT if argument.initial else Role(argument.role.value),
            dtype=element_type(argument.dtype).stored_as,
            shape=shape_of(argument, dims),
            element=argument.dtype,
        )
        for argument in task.arguments
        if argument.is_buffer
    )


def stated_contents(
    task: Task, specs: Iterable[BufferSpec], dims: Dims, arrays: Arrays = HOST
) -> dict[str, Array]:
    """Return what outputs hold before a call, in the shapes of `specs`, where the task states
    it."""
    stated = {one.name: one.initial for one in task.arguments if one.initial}
    return {
        spec.name: spec.element_type.encode(
            arrays.xp.full(spec.shape, evaluate(stated[spec.name], dims), spec.element_type.array),
            arrays.xp,
        )
        for spec in specs
        if spec.name in stated
    }


def output_types(task: Task) -> dict[str, ElementType]:
    """Return the element type of each output, by name."""
    types = task.element_types
    return {one.name: types[one.name] for one in task.arguments if one.is_output}


def call_arguments(task: Task, dims: Dims) -> tuple[Argument, ...]:
    """Return the arguments of `solve`, in order."""
    return tuple(_call_argument(argument, dims) for argument in task.arguments)


def _call_argument(argument: TaskArgument, dims: Dims) -> Argument:
    match argument.role:
        case ArgumentRole.SCALAR:
            return Scalar(value=scalar_value(argument, dims), ctype=CTYPES[argument.dtype])
        case ArgumentRole.STREAM:
            # All work of a candidate is in the runner's one stream, which is its default stream.
            return Scalar(value=0, ctype="cudaStream_t")
        case _:
            return argument.name


def call_options(
    task: Task,
    dims: Dims,
    *,
    level: Level = Level.CHECK,
    schedule_seed: int = 0,
    tracks: bool = False,
) -> CallOptions:
    """Return what a call may use: the task's capabilities, and the time the settings allow."""
    return CallOptions(
        level=level,
        schedule_seed=schedule_seed,
        tracks=tracks,
        limit_s=settings().call_limit_s,
        scratch_bytes=int(evaluate(task.capabilities.scratch_bytes, dims)),
        device_to_host=task.capabilities.device_to_host,
    )


@dataclass(frozen=True)
class Filled:
    """Buffers ready for a call, and private copies to compare them with afterwards."""

    placed: Mapping[str, PlacedBuffer]
    contents: Mapping[str, Array]
    """Inputs as they were written."""
    guards: Mapping[str, tuple[Array, Array]]
    poison: int


def fill(
    placed: Mapping[str, PlacedBuffer], contents: Mapping[str, Array], poison: int, rng: Random
) -> Filled:
    """Write inputs, poison outputs, put random bytes at both ends of every buffer."""
    sides = [side for one in placed.values() for side in (one.guard_before, one.guard_after)]
    ends = np.cumsum([0, *(side.size for side in sides)]).tolist()
    noise = rng.integers(0, 256, ends[-1], dtype=np.uint8)
    copies = [noise[begin:end] for begin, end in pairwise(ends)]
    for side, noisy in zip(sides, copies, strict=True):
        side[...] = noisy
    for name, buffer in placed.items():
        if not buffer.spec.is_filled:
            bytes_of(buffer.data)[...] = poison
        else:
            buffer.data[...] = contents[name]
    guards = {name: (copies[2 * i], copies[2 * i + 1]) for i, name in enumerate(placed)}
    return Filled(placed=placed, contents=contents, guards=guards, poison=poison)


def find_damage(filled: Filled, arrays: Arrays = HOST) -> GuardOverwritten | InputMutated | None:
    """Return the first guard or input that has changed since it was filled."""
    watched: list[tuple[Array, Array]] = []
    for name, buffer in filled.placed.items():
        before, after = filled.guards[name]
        watched += [(buffer.guard_after, after), (buffer.guard_before, before)]
    inputs = [name for name, one in filled.placed.items() if one.spec.role is Role.IN]
    watched += [
        (as_words(filled.placed[name].data), as_words(filled.contents[name])) for name in inputs
    ]
    at = first_difference(watched, arrays)
    if at is None:
        return None
    guarded = 2 * len(filled.placed)
    if at >= guarded:
        return InputMutated(buffer=inputs[at - guarded])
    found, left = (arrays.to_host(one) for one in watched[at])
    changed = np.flatnonzero(found != left)
    name = list(filled.placed)[at // 2]
    if at % 2 == 0:
        return GuardOverwritten(buffer=name, side="after", offset_bytes=int(changed[0]))
    distance = left.size - 1 - int(changed[-1])
    return GuardOverwritten(buffer=name, side="before", offset_bytes=distance)


def copy_outputs(filled: Filled) -> dict[str, Array]:
    """Return private copies of the outputs, which no late write can change."""
    return {
        name: buffer.data.copy() for name, buffer in filled.placed.items() if buffer.spec.is_output
    }


def find_late_write(
    filled: Filled, copies: Mapping[str, Array], arrays: Arrays = HOST
) -> str | None:
    """Return the name of an output that changed since it was copied."""
    pairs = [(as_words(filled.placed[name].data), as_words(copy)) for name, copy in copies.items()]
    at = first_difference(pairs, arrays)
    return None if at is None else list(copies)[at]
