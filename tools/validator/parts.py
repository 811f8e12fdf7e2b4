"""A size cut along one dim, so that a float64 reference needs little memory at a time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from cuda_llm.tasks.reference import Reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import Array
from cuda_llm.tools.buffers import Role
from cuda_llm.tools.validator.layout import Dims, buffer_specs

WIDE = 8
"""Bytes of a float64, and of the whole numbers of a reference."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some indices of one dim; without a dim, everything."""

    dims: Dims
    """Of the part."""
    axes: Mapping[str, int]
    """Argument to the axis that is cut."""
    indices: Any = None
    """A slice, or an array of indices; of no use without axes."""
    begin: int = 0

    def of(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays cut down to the part."""
        return {
            name: array[(slice(None),) * self.axes[name] + (self.indices,)]
            if name in self.axes
            else array
            for name, array in arrays.items()
        }

    def origin(self, name: str, array: Array) -> tuple[int, ...]:
        """Where in the whole argument the part's first element is."""
        return tuple(self.begin if axis == self.axes.get(name) else 0 for axis in range(array.ndim))


def parts(task: Task, dims: Dims, reference: Reference, part_bytes: int) -> Iterator[Part]:
    """The size in parts of about `part_bytes` of working memory each; whole without a split."""
    split = reference.split
    extent, step = dims.get(split, 1), part_extent(task, dims, reference, part_bytes)
    for begin in range(0, extent, step):
        end = min(begin + step, extent)
        yield Part(
            dims={**dims, split: end - begin} if split else dims,
            axes=axes_of(task, split),
            indices=slice(begin, end),
            begin=begin,
        )


def part_extent(task: Task, dims: Dims, reference: Reference, part_bytes: int) -> int:
    """How many indices of the split one part has; at least one."""
    split = reference.split
    if not split:
        return 1
    one, two = (working_bytes(task, {**dims, split: extent}, reference) for extent in (1, 2))
    each = two - one
    return max(1, min(dims[split], part_bytes // max(1, each)))


def working_bytes(task: Task, dims: Dims, reference: Reference | None) -> int:
    """What a reference takes at once: inputs and values in float64; with a scale, magnitudes of the
    inputs and scales beside them. Of inputs it takes as they are it may make one array like them.
    """
    inputs, outputs = elements(task, dims)
    wide = 1 if reference is not None and reference.scale is None else 2
    if reference is None or reference.promoted:
        return WIDE * wide * (inputs + outputs)
    specs = buffer_specs(task, dims)
    own = sum(spec.nbytes for spec in specs if spec.role is not Role.OUT)
    return own + WIDE * wide * outputs


def elements(task: Task, dims: Dims) -> tuple[int, int]:
    """Of the inputs, and of the outputs, of one call."""
    specs = buffer_specs(task, dims)
    inputs = sum(prod(spec.shape) for spec in specs if spec.role is not Role.OUT)
    outputs = sum(prod(spec.shape) for spec in specs if spec.role is not Role.IN)
    return inputs, outputs


def axes_of(task: Task, split: str) -> dict[str, int]:
    """Arguments that have the dim as an extent, and at which axis."""
    return {one.name: one.shape.index(split) for one in task.arguments if split in one.shape}
