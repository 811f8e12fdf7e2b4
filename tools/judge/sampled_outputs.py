"""Compares what the blocks of a sampled call stored with the reference at the same elements.

Such a call is too large to be executed whole. Its device says which bytes of the outputs are what
they would be if all blocks had been executed; the reference is computed for some indices of the dim
along which outputs can be computed in parts, the first and the last among them, on the contents
that the pages of large inputs have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import WrongResult
from cuda_llm.profile import Compared, NotCompared
from cuda_llm.tasks.reference import Dims, Reference
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import limits
from cuda_llm.tools.device import SamplingSession
from cuda_llm.tools.device.buffers import Array, PlacedBuffer
from cuda_llm.tools.validator.budget import affords_on_host
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case, terms_of
from cuda_llm.tools.validator.check_case import describe_mismatch
from cuda_llm.tools.validator.compare import Expected, Tally
from cuda_llm.tools.validator.oracle import one_blas_thread
from cuda_llm.tools.validator.parts import axes_of, elements

MOST_INDICES = 1 << 16
"""Most indices of the split for which the reference is computed."""
MOST_ELEMENTS = 1 << 19
"""Most elements of an output that are compared: about 0.2 s, with the reference."""


@dataclass(frozen=True, kw_only=True)
class SampledCall:
    """A call of which some blocks were executed, in the session that still holds its outputs."""

    task: Task
    case: Case
    session: SamplingSession
    placed: Mapping[str, PlacedBuffer]
    drawn: Mapping[str, Array]
    """Inputs that were filled whole."""


def compare_sampled(call: SampledCall, reference: Reference, seed: int) -> Compared | WrongResult:
    """Compare the elements that the executed blocks are sure of; a WrongResult where one is wrong.

    `seed` decides which indices of the split are looked at, if not all can be.
    """
    task, dims = call.task, call.case.dims
    every = elements(task, dims)[1]
    outputs = [one for one in buffer_specs(task, dims) if one.is_output]
    sure = {one.name: _elements_at(call, one.name) for one in outputs}
    if not all(one.size for one in sure.values()):
        return Compared(elements=every, compared=0, why_not="mixed")
    if reference.comparator is not None:
        return Compared(elements=every, compared=0, why_not="reference")
    indices = _indices(call, reference, sure, np.random.default_rng(seed))
    part = {**dims, reference.split: len(indices)} if reference.split else dims
    if not len(indices) or not affords_on_host(task, part, reference):
        return Compared(elements=every, compared=0, why_not="reference")
    axes = axes_of(task, reference.split)
    inputs = {
        one.name: _input(call, one.name, one.shape, axes.get(one.name), indices)
        for one in buffer_specs(task, dims)
        if one.is_filled
    }
    with one_blas_thread():
        values = reference.compute(np, inputs, part)
        scales = {} if reference.scale is None else reference.scale(np, inputs, part)
    own = limits(task.tolerance, terms_of(task, call.case))
    compared = 0
    for one in outputs:
        at, inside = _in_part(sure[one.name], one.shape, axes.get(one.name), indices)
        if not at.size:
            continue
        tally, scale = Tally(own), scales.get(one.name)
        got = call.placed[one.name].data.reshape(-1)[at]
        expected = Expected(
            values[one.name].reshape(-1)[inside],
            None if scale is None else scale.reshape(-1)[inside],
            element=one.element_type,
        )
        tally.add(got, expected)
        found = tally.comparison()
        if not found.ok:
            first = np.unravel_index(at[found.first[0]], one.shape)
            placed = replace(found, first=tuple(int(k) for k in first))
            return describe_mismatch(call.case, one.name, placed)
        compared += at.size
    why_not: NotCompared | None = None if compared == every else "costly"
    return Compared(elements=every, compared=compared, why_not=why_not)


def _elements_at(call: SampledCall, name: str) -> npt.NDArray[np.int64]:
    """Return the flat indices of elements that are certain, at most MOST_ELEMENTS of them."""
    width = call.placed[name].data.dtype.itemsize
    ranges = call.session.certain_ranges(name)
    begins, ends = -(-ranges[:, 0] // width), ranges[:, 1] // width
    lengths = (ends - begins).clip(0)
    if lengths.sum() > MOST_ELEMENTS:
        # Of each range the beginning and the end: what is wrong at a border shows there.
        most = max(1, MOST_ELEMENTS // (2 * len(lengths)))
        head = lengths.clip(0, most)
        tail = (lengths - head).clip(0, most)
        begins = np.concatenate([begins, ends - tail])
        lengths = np.concatenate([head, tail])
    starts = np.repeat(begins - np.concatenate([[0], lengths.cumsum()[:-1]]), lengths)
    return _distinct(starts + np.arange(lengths.sum()))


def _distinct(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the distinct values in order.

    `np.unique` hashes since NumPy 2.3: seconds for millions of values, where sorting takes 0.1 s.
    """
    ordered = np.sort(values)
    is_new = np.ones(ordered.size, dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def _indices(
    call: SampledCall,
    reference: Reference,
    sure: Mapping[str, npt.NDArray[np.int64]],
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Return indices of the split for which the reference is affordable, where elements are sure.

    Without a split, return one index, which stands for the whole.
    """
    task, dims, split = call.task, call.case.dims, reference.split
    if not split:
        return np.zeros(1, np.int64)
    axes = axes_of(task, split)
    shapes = {one.name: one.shape for one in buffer_specs(task, dims)}
    known = [_along(at, shapes[name], axes[name]) for name, at in sure.items()]
    found = _distinct(np.concatenate(known))
    most = min(found.size, MOST_INDICES)
    while most > 1 and not _affords(task, {**dims, split: most}, reference):
        most //= 2
    if most >= found.size:
        return found
    inner = rng.choice(found[1:-1], max(0, most - 2), replace=False)
    return _distinct(np.concatenate([found[:1], inner, found[-1:]])[: max(1, most)])


def _affords(task: Task, part: Dims, reference: Reference) -> bool:
    return elements(task, part)[1] <= MOST_ELEMENTS and affords_on_host(task, part, reference)


def _along(at: npt.NDArray[np.int64], shape: tuple[int, ...], axis: int) -> npt.NDArray[np.int64]:
    return at // prod(shape[axis + 1 :]) % shape[axis]


def _in_part(
    at: npt.NDArray[np.int64],
    shape: tuple[int, ...],
    axis: int | None,
    indices: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the elements of `at` that the part has, and their flat indices in it."""
    if axis is None:
        return at, at
    along, inner = _along(at, shape, axis), prod(shape[axis + 1 :])
    place = np.searchsorted(indices, along).clip(0, indices.size - 1)
    is_there = indices[place] == along
    at, place = at[is_there], place[is_there]
    outer = at // (inner * shape[axis])
    return at, (outer * indices.size + place) * inner + at % inner


def _input(
    call: SampledCall,
    name: str,
    shape: tuple[int, ...],
    axis: int | None,
    indices: npt.NDArray[np.int64],
) -> Array:
    """Return an input, cut down to some indices of an axis."""
    if name in call.drawn:
        whole = call.drawn[name]
        return whole if axis is None else np.take(whole, indices, axis)
    if axis is None:
        return call.session.unfilled_elements(name, np.arange(prod(shape))).reshape(shape)
    inner, outer = prod(shape[axis + 1 :]), prod(shape[:axis])
    first = np.arange(outer)[:, None, None] * (shape[axis] * inner)
    at = first + indices[None, :, None] * inner + np.arange(inner)[None, None, :]
    cut = (*shape[:axis], indices.size, *shape[axis + 1 :])
    return call.session.unfilled_elements(name, at.reshape(-1)).reshape(cut)
