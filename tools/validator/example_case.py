"""One case for a program outside of this package: inputs and expected outputs."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import HOST, Array
from cuda_llm.tools.validator.buffers import buffer_specs, output_types
from cuda_llm.tools.validator.cases import generator, timed_case
from cuda_llm.tools.validator.check_case import case_limits, draw_inputs
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.oracle import Expectation, reference_oracle

SEED = b"example"
MOST_BYTES = 4 << 20
"""All files together are within this where the task has a size so small."""


@dataclass(frozen=True, kw_only=True)
class ExampleCase:
    """One case as plain bytes, little-endian and row-major."""

    dims: Mapping[str, int]
    distribution: str
    """Distribution of the inputs, in words."""
    inputs: Mapping[str, bytes]
    """Bytes of each input by argument, `inout` arguments too."""
    expected: Mapping[str, bytes]
    """By output: float64, or the output's type where it must be equal."""
    allowed: Mapping[str, bytes]
    """By output that need not be equal: the largest error of each element, or of each part of a
    complex one, float64."""
    unchecked: str
    """Why nothing is expected; empty where something is."""


def draw_example(task: Task) -> ExampleCase:
    """Draw the inputs that the task is timed on, and compute its reference.

    Raises TaskError where the reference fails.
    """
    case = timed_case(task, _dims(task), Level.CHECK)
    inputs = draw_inputs(task, case, generator(SEED, task.name, "example", 0))
    expected, allowed, why = dict[str, bytes](), dict[str, bytes](), _why_unchecked(task)
    if not why:
        found = asyncio.run(_expect(task, inputs, case.dims))
        own = case_limits(task, case, found.values)
        types = output_types(task)
        for name, one in found.values.items():
            exact = own.exact or not types[name].is_float
            value = HOST.to_host(one.value)
            wide = types[name].within_range(value.astype(types[name].wide), np)
            stored = types[name].encode(value, np) if exact else wide
            expected[name] = stored.tobytes()
            if not exact:
                # A complex number is two numbers in all files.
                parts = 2 if types[name].is_complex else 1
                allowed[name] = np.repeat(_allowed(one, own), parts).tobytes()
    return ExampleCase(
        dims=dict(case.dims),
        distribution=case.label,
        inputs={name: HOST.to_host(array).tobytes() for name, array in inputs.items()},
        expected=expected,
        allowed=allowed,
        unchecked=why,
    )


async def _expect(task: Task, inputs: Mapping[str, Array], dims: Dims) -> Expectation:
    found = await reference_oracle(task)(inputs, dims)
    assert isinstance(found, Expectation), "a reference gives values, or raises"
    return found


def _dims(task: Task) -> Mapping[str, int]:
    """Return the largest usual size that fits, else the largest edge size, else the smallest."""
    for sizes in (task.sizes.emulated, task.sizes.edge):
        if fitting := [one for one in sizes if _bytes(task, one) <= MOST_BYTES]:
            return max(fitting, key=lambda one: _bytes(task, one))
    return min(task.sizes.edge, key=lambda one: _bytes(task, one))


def _bytes(task: Task, dims: Dims) -> int:
    """Return the size of all files: of an output there are a value and what is allowed."""
    outputs = {one.name for one in task.arguments if one.role is ArgumentRole.OUT}
    return sum(
        int(np.prod(spec.shape)) * (16 if spec.name in outputs else np.dtype(spec.dtype).itemsize)
        for spec in buffer_specs(task, dims)
    )


def _why_unchecked(task: Task) -> str:
    if task.reference is None:
        return "the task has no reference.py"
    return "a rule of the task's own judges the outputs" if task.comparator else ""


def _allowed(expected: Expected, limits: ErrorLimits) -> Array:
    magnitude = np.abs(expected.value)
    scale = magnitude if expected.scale is None else expected.scale
    measure = limits.scale_weight * scale + limits.value_weight * magnitude
    return limits.max_units * limits.unit * np.maximum(limits.floor, measure)
