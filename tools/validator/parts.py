"""Splits outputs too large to compare at once: into parts along one dim, or by projections.

A projection is a random signed sum of elements (Freivalds 1977), in float64. A vector v has random
signs in one group of an output row's elements and zeros elsewhere; the groups of a round cover the
row. With e_j an element's error, the row's projection is off by sum_j v_j e_j. The signs are drawn
after the outputs were written, so by Hoeffding's inequality an output whose errors keep to T
rounding units u of their scales s_j (root mean square over the group) gives
|sum v_j e_j| <= Z T u || v s || but for a chance of 2 exp(-Z^2 / 2): 5e-18 for each of some 1e8
projections. That is the limit. It is exceeded by:

- one wrong element, at any place, in every round, if it is off by more than 2 Z T u || v s ||: with
  64 elements in a group and T = 4, by more than 2^-14 of its scale;
- several in one group: by more than half of the root of their squares' sum with a probability of at
  least 3/16 a round (Paley and Zygmund's inequality; the fourth moment of a signed sum is at most
  three times its second one squared), and each group and round tries anew;
- short formats everywhere: the mean square of all projections is limited to (2 T u)^2 too, which
  TF32's rounding exceeds ten-fold at 4,096 terms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.reference import Dims, Reference
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device.buffers import Array
from cuda_llm.tools.validator.buffers import buffer_specs

GROUP = 64
"""Number of elements that one vector adds."""
MOST_GROUPS = 64
ROUNDS = 2
Z = 9.0
EXACT_ROWS = 32
WIDE = 8
"""Bytes of a float64, and of the whole numbers of a reference."""


def random_vectors(length: int, seed: int) -> npt.NDArray[np.float64]:
    """Return columns of signs and zeros; every element is in one vector of each round."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    groups = min(MOST_GROUPS, -(-length // GROUP))
    vectors = np.zeros((length, groups * ROUNDS))
    for turn in range(ROUNDS):
        group = rng.permutation(length) % groups
        vectors[np.arange(length), turn * groups + group] = rng.choice((-1.0, 1.0), length)
    return vectors


def projected_limits(own: ErrorLimits, vectors: npt.NDArray[np.float64]) -> ErrorLimits:
    """Return the limits of projections of outputs whose elements have the limits `own`."""
    largest = float(np.count_nonzero(vectors, axis=0).max())
    return replace(
        own,
        max_units=max(Z * own.rms_units, own.max_units),
        rms_units=2.0 * own.rms_units,
        floor=own.floor * largest**0.5,
        # |y| is at most the scale it is measured with.
        scale_weight=own.scale_weight + own.value_weight,
        value_weight=0.0,
    )


def chosen_rows(extent: int, seed: int) -> list[int]:
    """Choose the first row, the last row, and random rows."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    some = rng.choice(extent, min(extent, EXACT_ROWS), replace=False).tolist()
    return sorted({0, extent - 1, *some})


@dataclass(frozen=True, kw_only=True)
class OutputPart:
    """Some indices of one dim; without a dim, the whole output."""

    dims: Dims
    """Dims of the part."""
    axes: Mapping[str, int]
    """Argument to the axis that is cut."""
    indices: Any = None
    """A slice, or an array of indices; of no use without axes."""
    begin: int = 0

    def of(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the arrays cut down to the part."""
        return {
            name: array[(slice(None),) * self.axes[name] + (self.indices,)]
            if name in self.axes
            else array
            for name, array in arrays.items()
        }

    def origin(self, name: str, array: Array) -> tuple[int, ...]:
        """Return the index in the whole argument of the part's first element."""
        return tuple(self.begin if axis == self.axes.get(name) else 0 for axis in range(array.ndim))


def parts(task: Task, dims: Dims, reference: Reference, part_bytes: int) -> Iterator[OutputPart]:
    """Yield parts of about `part_bytes` of working memory each; the whole without a split."""
    split = reference.split
    extent, step = dims.get(split, 1), part_extent(task, dims, reference, part_bytes)
    for begin in range(0, extent, step):
        end = min(begin + step, extent)
        yield OutputPart(
            dims={**dims, split: end - begin} if split else dims,
            axes=axes_of(task, split),
            indices=slice(begin, end),
            begin=begin,
        )


def part_extent(task: Task, dims: Dims, reference: Reference, part_bytes: int) -> int:
    """Return how many indices of the split dim one part has, at least one."""
    split = reference.split
    if not split:
        return 1
    one, two = (working_bytes(task, {**dims, split: extent}, reference) for extent in (1, 2))
    each = two - one
    return max(1, min(dims[split], part_bytes // max(1, each)))


def working_bytes(task: Task, dims: Dims, reference: Reference | None) -> int:
    """Return the bytes a reference works with at once.

    Inputs and values in float64; with a scale, magnitudes of the inputs and scales too. Of inputs
    that it takes in their own types it may make one array like them.
    """
    inputs, outputs = elements(task, dims)
    if any(one.is_complex for one in task.element_types.values()):
        inputs, outputs = 2 * inputs, 2 * outputs
    wide = 1 if reference is not None and reference.scale is None else 2
    if reference is None or reference.promoted:
        return WIDE * wide * (inputs + outputs)
    specs = buffer_specs(task, dims)
    own = sum(spec.nbytes for spec in specs if spec.is_filled)
    return own + WIDE * wide * outputs


def elements(task: Task, dims: Dims) -> tuple[int, int]:
    """Return the number of elements of the inputs and of the outputs of one call."""
    specs = buffer_specs(task, dims)
    inputs = sum(prod(spec.shape) for spec in specs if spec.is_filled)
    outputs = sum(prod(spec.shape) for spec in specs if spec.is_output)
    return inputs, outputs


def axes_of(task: Task, split: str) -> dict[str, int]:
    """Map arguments that have the dim as an extent to its axis."""
    return {one.name: one.shape.index(split) for one in task.arguments if split in one.shape}
