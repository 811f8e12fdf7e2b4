"""Executes the kernel of a drafted task at small sizes on the emulated device, and reads out of
what the kernel touches how large its buffers are, which inputs are indices, and what is moved.

A buffer is as long as the kernel reaches into it: the least length with which a call at a size ends
without an access behind its end. Lengths at several sizes give a product of dims, such as
`rows * cols` or `tokens * dim // 2`; whole numbers of an input that move the end of another buffer
are indices into it. Where the source does not say how the kernel is launched, the launch is chosen
that writes every element of the outputs at every size.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from cuda_llm.outcomes import TimedOut, Verdict
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.new_task import Executed
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.sizes import item_bytes
from cuda_llm.tasks.task import ArgumentRole, Task, is_float
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import (
    CallOptions,
    CallReport,
    Level,
    Scalar,
    Session,
    Site,
    floating_operations,
)
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.validator.buffers import call_arguments

EXTENTS = (
    (4, 6, 8, 10, 12, 14),
    (6, 10, 4, 8, 14, 12),
    (12, 4, 10, 6, 8, 4),
    (8, 12, 6, 14, 4, 10),
)
"""Extents of the dims in order, at each tried size: small, even, and of other ratios each time."""
TILED = ((32, 64, 96, 32), (64, 32, 32, 96), (96, 96, 64, 32))
"""Extents for kernels that take whole tiles alone."""
MOST_DIMS = 6
MOST_TILED = 3
"""Dims of a kernel that is tried at whole tiles: their product stays below a million."""
FACTORS = range(2, 257)
"""Numbers of elements for each index of the dims: of small matrices and structs."""
DIVISORS = (2, 4, 8, 16, 32)
"""Indices of a dim that share an element: of groups with one scale."""
LIMIT_S = 5.0
"""Longest seconds of one call."""
MOST_EACH = 36
"""Elements for each index of all dims that a buffer may have, however many indices there are."""
SLACK = 1024
"""Elements beyond the product of all dims that a buffer has where its length is not looked for."""
STEPS = (1, 2, 4, 8, 16, 32)
"""Multiples that kernels ask for: of vectors and tiles."""
MOST_OPERATIONS = 2
"""Operations for each index that a least time is made of, at most: those of a multiply-add. What is
executed beyond may be work that a faster kernel leaves out, as a sum that every thread repeats."""
MOST_SPREAD = 1.3
"""Most times by which operations for each index may differ between sizes."""
WIDE_DIVISORS = (64, 128, 192, 256, 384, 512, 1024)
"""Indices of a dim that share an element where each block of a grid has one."""
MOST_CHECKED = 1 << 16
"""Product of the dims at which shapes found at small sizes are checked, at most."""
MOST_COUNTED = 1 << 21
"""Product of the dims of the call whose operations are counted, at most."""
POISONS = (0xA5, 0x3C)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """One call of the tried source."""

    dims: Dims
    choice: int
    lengths: Mapping[str, int] = field(default_factory=dict)
    """Elements of buffers that are not as long as can be."""
    indices: Mapping[str, int] = field(default_factory=dict)
    """Whole number that an input is filled with, by argument; 0 for other whole numbers."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Difference of neighbours of an input that ascends from 0, by argument."""
    spots: Mapping[str, int] = field(default_factory=dict)
    """Index of the element that is NaN, by float input."""
    poison: int = 0
    level: Level = Level.CHECK


class _Kernel:
    """A compiled kernel on a device, in a session that is opened anew after a fault."""

    def __init__(self, task: Task, device: Site, compiled: Compiled) -> None:
        self.task = task
        self.buffers = tuple(one for one in task.arguments if one.is_buffer)
        self._device = device
        self._compiled = compiled
        self._open = AsyncExitStack()
        self._session: Session | None = None
        self.fault: Verdict | None = None
        """The last fault of a launch that was tried with long buffers."""
        self.known: Mapping[str, str] = {}
        """Shapes of buffers, as far as they are found."""
        self.offsets: Mapping[str, str] = {}
        """Dim that counts the elements of all rows, by input that holds where rows begin."""
        self._endless: TimedOut | None = None
        """The first call that did not end: no other is made."""

    async def close(self) -> None:
        """End the kernel's session, if one is open; the next call opens another."""
        self._session = None
        await self._open.aclose()

    def most(self, dims: Dims) -> int:
        """Return how many elements a buffer has at most."""
        every = prod(dims.values())
        if every > MOST_CHECKED:
            return every + SLACK
        return max(MOST_EACH * every, min(FACTORS.stop * every, MOST_CHECKED)) + SLACK

    def _length_of(self, name: str, call: _Call) -> int:
        """Return how many elements a buffer has in a call."""
        if name in call.lengths:
            return call.lengths[name]
        shape = self.known.get(name, "")
        return max(self.most(call.dims), int(evaluate(shape, call.dims)) + SLACK if shape else 0)

    async def call(self, call: _Call) -> tuple[CallReport | Verdict, Mapping[str, Any]]:
        """Return the outcome of a call, and what its buffers hold afterwards.

        The buffer whose length is looked for lies last: what lies behind it belongs to nobody.
        """
        if self._endless is not None:
            return self._endless, {}
        session = self._session
        if session is None:
            opened = await self._open.enter_async_context(self._device.open(self._compiled))
            if not isinstance(opened, Session):
                return opened, {}
            session = self._session = opened
        ordered = sorted(self.buffers, key=lambda one: one.name in call.lengths)
        specs = [
            BufferSpec(
                name=one.name,
                role=Role.INOUT,
                dtype=self.task.element_types[one.name].stored_as,
                shape=(self._length_of(one.name, call),),
                element=one.dtype,
            )
            for one in ordered
        ]
        placed = session.place(specs)
        for one in self.buffers:
            data = placed[one.name].data
            if one.name in call.indices:
                data[...] = call.indices[one.name]
            elif one.name in call.steps:
                data[...] = np.arange(data.size) * call.steps[one.name]
            elif one.name in self.offsets:
                rows = int(evaluate(self.known[one.name], call.dims)) - 1
                begins = np.minimum(np.arange(data.size), rows)
                data[...] = begins * call.dims[self.offsets[one.name]] // rows
            elif one.is_output:
                data.view(np.uint8)[...] = call.poison
            elif is_float(one.dtype):
                element = self.task.element_types[one.name]
                data[...] = element.encode(np.ones(data.shape, element.array), np)
            if one.name in call.spots:
                element = self.task.element_types[one.name]
                data[call.spots[one.name]] = element.encode(np.full(1, np.nan, element.array), np)[
                    0
                ]
        choice = Scalar(value=call.choice, ctype="int")
        options = CallOptions(level=call.level, limit_s=LIMIT_S)
        outcome = await session.call([*call_arguments(self.task, call.dims), choice], options)
        if isinstance(outcome, TimedOut):
            self._endless = outcome
        if not isinstance(outcome, CallReport):
            await self.close()
            return outcome, {}
        return outcome, {name: one.data for name, one in placed.items()}

    async def length(
        self,
        name: str,
        dims: Dims,
        choice: int,
        indices: Mapping[str, int] = MappingProxyType({}),
        steps: Mapping[str, int] = MappingProxyType({}),
    ) -> int:
        """Return the least length of a buffer with which a call stays inside; -1 for none."""
        low, high = 0, self.most(dims)

        async def fits(length: int) -> bool:
            call = _Call(
                dims=dims, choice=choice, lengths={name: length}, indices=indices, steps=steps
            )
            return isinstance((await self.call(call))[0], CallReport)

        if not await fits(high):
            return -1
        while low < high:
            middle = (low + high) // 2
            if await fits(middle):
                high = middle
            else:
                low = middle + 1
        return low


async def execute_draft(
    task: Task, device: Site, source: str, choices: int
) -> Executed | Verdict | None:
    """Return what a drafted kernel says of its task on a device that reports each access out of
    bounds; the last fault of a launch where none writes its outputs whole; None where nothing is
    wrong with a launch, or there are too many dims.

    `source` has a `solve` of the task's arguments and a last `int choice`, which makes one of
    `choices` launches. Raises MissingError without nvcc or g++.
    """
    if not 0 < len(task.dims) <= MOST_DIMS:
        return None
    request = CompileRequest(source=source, name="draft.cu", target=device.hardware.target)
    compiled = await compile_candidate(request)
    if not isinstance(compiled, Compiled):
        return compiled
    kernel = _Kernel(task, device, compiled)
    try:
        for extents in (EXTENTS, TILED):
            if extents is TILED and len(task.dims) > MOST_TILED:
                continue
            sizes = [dict(zip(task.dims, one, strict=False)) for one in extents]
            chosen = await _choose(kernel, sizes, choices)
            if chosen is not None:
                return await _execute(kernel, sizes, *chosen)
        return kernel.fault
    finally:
        await kernel.close()


async def _choose(
    kernel: _Kernel, sizes: Sequence[Dims], choices: int
) -> tuple[int, Sequence[Mapping[str, int]]] | None:
    """Return the launch whose outputs are written whole at every size and are products of the most
    dims, the first of those, with the elements that it writes at each size; None where none is."""
    best, most = None, -1
    for choice in range(choices):
        written = [one for dims in sizes if (one := await _written(kernel, dims, choice))]
        if len(written) < len(sizes):
            continue
        found = [fit([one[name] for one in written], sizes) for name in written[0]]
        factors = sum(one.count("*") + (not one.isdigit()) for one in found)
        if all(found) and factors > most:
            best, most = (choice, written), factors
    return best


async def _written(kernel: _Kernel, dims: Dims, choice: int) -> Mapping[str, int] | None:
    """Return how many elements of each output a launch writes; None where it fails, or leaves out
    an element before the last: of two poisons none is left."""
    outputs = [one.name for one in kernel.buffers if one.role == ArgumentRole.OUT]
    kept = {name: np.ones(kernel.most(dims), bool) for name in outputs}
    for poison in POISONS:
        outcome, data = await kernel.call(_Call(dims=dims, choice=choice, poison=poison))
        if not isinstance(outcome, CallReport):
            kernel.fault = outcome
            return None
        for name, mask in kept.items():
            raw = data[name].view(np.uint8).reshape(mask.size, -1)
            mask &= (raw == poison).all(axis=1)
    ends = {name: int(np.flatnonzero(~mask).max(initial=-1)) + 1 for name, mask in kept.items()}
    if any(mask[: ends[name]].any() for name, mask in kept.items()):
        return None
    for one in kernel.buffers:
        if one.role == ArgumentRole.INOUT:
            ends[one.name] = await kernel.length(one.name, dims, choice)
    return ends


async def _execute(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, written: Sequence[Mapping[str, int]]
) -> Executed:
    small = kernel.known = await _touched(kernel, sizes, choice, written)
    offsets = await _find_offsets(kernel, sizes, choice, small)
    added = ""
    if offsets:
        every = elements_dim(kernel.task, small)
        if every not in kernel.task.dims:
            added, place = every, len(kernel.task.dims) % MOST_DIMS
            sizes = [{**size, added: EXTENTS[number][place]} for number, size in enumerate(sizes)]
        kernel.offsets = dict.fromkeys(offsets, every)
        small = kernel.known = await _touched(kernel, sizes, choice, written)
    fitted = await _at_large(kernel, sizes, choice, small)
    shapes, distributions, reached = await _indexed(kernel, sizes, choice, fitted)
    own = {one.name for one in kernel.buffers if one.role == ArgumentRole.WORKSPACE}
    known = {name: shape for name, shape in shapes.items() if shape and name not in own}
    return Executed(
        choice=choice,
        shapes=known,
        distributions=distributions,
        reached=reached,
        multiples=await _multiples(kernel, sizes[0], choice, written[0], fitted),
        flops=await _flops(kernel, sizes, choice, known),
        terms=kernel.offsets[offsets[0]]
        if offsets
        else await _terms(kernel, sizes, choice, known, {*distributions, *reached}),
        offsets=kernel.offsets,
        added=added,
        bytes=_bytes(kernel.task, known),
    )


async def _touched(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, written: Sequence[Mapping[str, int]]
) -> Mapping[str, str]:
    """Return the shapes of buffers as far as the kernel reaches or writes; empty for no product."""
    shapes: dict[str, str] = {}
    for one in kernel.buffers:
        ends = [found.get(one.name, 0) for found in written]
        if one.role != ArgumentRole.INOUT:
            # What is only filled or copied, as by cudaMemset, is no access of the kernel's.
            touched = [await kernel.length(one.name, dims, choice) for dims in sizes]
            ends = [*map(max, touched, ends)]
        shapes[one.name] = fit(ends, sizes)
    return shapes


async def _find_offsets(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, shapes: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the inputs of whole numbers, one more than a dim, that say where rows begin: ascending
    by 2 instead of 1 they make the kernel reach as many elements farther as there are rows."""
    found = []
    for one in kernel.buffers:
        rows, is_longer, _ = shapes[one.name].partition(" + 1")
        whole = one.role == ArgumentRole.IN and not is_float(one.dtype)
        if not (whole and is_longer and rows in kernel.task.dims and item_bytes(one.dtype) >= 4):
            continue
        for other in kernel.buffers:
            if other is one:
                continue
            farther = []
            for dims in sizes[:2]:
                ends = [
                    await kernel.length(other.name, dims, choice, steps={one.name: step})
                    for step in (1, 2)
                ]
                farther.append(min(ends) >= 0 and ends[1] - ends[0] == dims[rows])
            if all(farther):
                found.append(one.name)
                break
    return tuple(found)


def elements_dim(task: Task, shapes: Mapping[str, str]) -> str:
    """Return the dim that counts the elements of all rows: by its name one that no shape has, else
    a new one."""
    used = {word for shape in shapes.values() for word in shape.split()}
    counts = re.compile(r"nnz|non_?zero|edge|element|total|entries", re.IGNORECASE)
    known = [dim for dim in task.dims if dim not in used and counts.search(dim)]
    taken = {one.name for one in task.arguments}
    return known[0] if known else "nonzeros" if "nonzeros" not in taken else "nonzeros_count"


async def _at_large(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, shapes: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the shapes, those corrected that are too short at large sizes: an element for each
    block of a grid is one element at every small size."""
    every = [*sizes, *_larger(sizes, MOST_CHECKED)]
    found = dict(shapes)
    for name, shape in shapes.items():
        if not shape:
            continue
        for dims in every[len(sizes) :]:
            lengths = {name: int(evaluate(shape, dims))}
            outcome, _ = await kernel.call(_Call(dims=dims, choice=choice, lengths=lengths))
            if not isinstance(outcome, CallReport):
                touched = [await kernel.length(name, one, choice) for one in every]
                found[name] = fit(touched, every, WIDE_DIVISORS) if min(touched) > 0 else ""
                break
    return found


def _larger(sizes: Sequence[Dims], most: int, shapes: Iterable[str] = ()) -> list[Dims]:
    """Return the sizes with all dims as many times longer as keeps their products, and the elements
    of each of the shapes, below `most`."""

    def longer(times: int) -> list[Dims]:
        return [{name: times * one for name, one in size.items()} for size in sizes]

    def is_small(size: Dims) -> bool:
        return max(prod(size.values()), *(evaluate(one, size) for one in shapes), 0) <= most

    times = 1
    while all(map(is_small, longer(2 * times))):
        times *= 2
    return longer(times)


def fit(lengths: Sequence[int], sizes: Sequence[Dims], divisors: Sequence[int] = ()) -> str:
    """Return the simplest product of dims that gives these lengths at these sizes: with a factor,
    one dim divided and rounded up, by `divisors` too, or 1 added. Empty where there is none, or
    the lengths are 0.

    Where a kernel leaves out the last members of a struct, as the alpha of a pixel, the lengths end
    as many elements before those of a product with a larger factor.
    """
    if not any(lengths):
        return ""
    pairs = [*zip(lengths, sizes, strict=True)]
    for text in _products([*sizes[0]], (*DIVISORS, *divisors)):
        if all(evaluate(text, size) == length for length, size in pairs):
            return text
    if len(set(lengths)) == 1:
        return str(lengths[0])
    for text in _multiples_of([*sizes[0]]):
        short = {int(evaluate(text, size)) - length for length, size in pairs}
        if len(short) == 1 and 0 < short.pop() < int(text.split(" * ")[0]):
            return text
    return ""


def _multiples_of(dims: Sequence[str]) -> Iterator[str]:
    """Yield products of dims with a factor of more than 1, small factors and few dims first."""
    for factor in FACTORS:
        for count in range(1, len(dims) + 1):
            for chosen in combinations(dims, count):
                yield " * ".join((str(factor), *chosen))


def _products(dims: Sequence[str], divisors: Sequence[int]) -> Iterator[str]:
    """Yield products of dims as expressions, simple ones first."""
    chosen = [one for count in range(len(dims) + 1) for one in combinations(dims, count)]
    plain = [" * ".join(one) or "1" for one in chosen]
    yield from plain
    yield from _multiples_of(dims)
    for divisor in divisors:
        yield from (f"{one} // {divisor}" for one in plain[1:])
    yield from (f"{one} + 1" for one in plain[1:])
    for divisor in divisors:
        for one in chosen:
            for dim in one:
                rounded = f"({dim} + {divisor - 1}) // {divisor}"
                yield " * ".join([rounded, *(other for other in one if other != dim)])


async def _indexed(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, shapes: Mapping[str, str]
) -> tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]:
    """Return the shapes, those of indexed buffers as long as their index reaches, what indices are
    drawn from, and the index of each buffer that has one.

    An index is below a dim that no shape names, as a number of pages, or else the first dim of the
    index's own shape.
    """
    found, drawn = dict(shapes), {}
    limits: dict[str, str] = {}
    reached: dict[str, str] = {}
    whole = [
        one
        for one in kernel.buffers
        if one.role == ArgumentRole.IN and not is_float(one.dtype) and item_bytes(one.dtype) >= 2
    ]
    for index in whole:
        for buffer in kernel.buffers:
            if buffer is index:
                continue
            strides = []
            for dims in sizes:
                ends = [
                    await kernel.length(buffer.name, dims, choice, {index.name: value})
                    for value in (0, 1, 2)
                ]
                regular = min(ends) >= 0 and ends[2] - ends[1] == ends[1] - ends[0]
                strides.append(ends[1] - ends[0] if regular else 0)
            stride = fit(strides, sizes) if all(strides) else ""
            if not stride:
                continue
            limit = limits.setdefault(
                index.name, _limit(kernel.task, found, index.name, buffer.name, stride)
            )
            found[buffer.name] = limit if stride == "1" else f"{limit} * {stride}"
            drawn[index.name] = f"ints(0, {limit})"
            reached[buffer.name] = index.name
    return found, drawn, reached


def _limit(task: Task, shapes: Mapping[str, str], index: str, buffer: str, stride: str) -> str:
    """Return the dim below which an index is: the axis of the indexed buffer, where a fill showed
    the whole buffer; a dim that no other shape names; or the first dim of the index's own shape."""
    axes = [one for one in shapes[buffer].split(" * ") if one not in stride.split(" * ")]
    if len(axes) == 1 and axes[0] in task.dims:
        return axes[0]
    used = {word for name, shape in shapes.items() if name != buffer for word in shape.split()}
    unused = [dim for dim in task.dims if dim not in used and dim not in stride.split()]
    own = [word for word in shapes[index].split() if word in task.dims]
    return (unused or own or list(task.dims))[0]


async def _multiples(
    kernel: _Kernel,
    dims: Dims,
    choice: int,
    written: Mapping[str, int],
    shapes: Mapping[str, str],
) -> Mapping[str, int]:
    """Return what a dim has to be a multiple of, by dim, where the kernel leaves out or oversteps
    elements at others; dims of any extent are left out. `written` are the elements of each output
    at `dims`."""
    found = {}
    here = {name: end for name, end in written.items() if shapes[name]}
    for dim in dims:
        for step in STEPS:
            size = {**dims, dim: 5 * step}
            ends = await _written(kernel, size, choice) or {}
            # A kernel may leave out the last members of a struct, at every size as many.
            more = [evaluate(shapes[one], size) - evaluate(shapes[one], dims) for one in here]
            is_whole = ends and more == [ends[one] - here[one] for one in here]
            if is_whole and await _reads_all(kernel, size, choice, shapes):
                break
        else:
            step = STEPS[-1]
        if step > 1:
            found[dim] = step
    return found


async def _reads_all(kernel: _Kernel, dims: Dims, choice: int, shapes: Mapping[str, str]) -> bool:
    """Return whether inputs are read as far as their shapes reach, but for members of a struct."""
    for one in kernel.buffers:
        shape = shapes[one.name]
        if one.role != ArgumentRole.IN or not shape:
            continue
        left = int(evaluate(shape, dims)) - await kernel.length(one.name, dims, choice)
        factor = shape.split(" * ")[0]
        if not 0 <= left < (int(factor) if factor.isdigit() else 1):
            return False
    return True


async def _flops(
    kernel: _Kernel, sizes: Sequence[Dims], choice: int, shapes: Mapping[str, str]
) -> str:
    """Return the floating-point operations of a call as so many for each index of some dims: those
    for which the number differs least between sizes. `0` where none was executed.

    The sizes are larger ones, at which what a warp does beside counts little. Where no product of
    dims explains the operations, a kernel of more operations than any needs is likely: then one
    for each element of the outputs, since no faster kernel may be below the least time.
    """
    counted: list[tuple[Dims, float]] = []
    for large in _larger(sizes, MOST_COUNTED, shapes.values()):
        lengths = {name: int(evaluate(shape, large)) for name, shape in shapes.items()}
        call = _Call(dims=large, choice=choice, lengths=lengths, level=Level.ACCOUNT)
        outcome, _ = await kernel.call(call)
        if not isinstance(outcome, CallReport) or not outcome.operations:
            return "0"
        counted.append((large, floating_operations(outcome.operations)))
    if not all(count for _, count in counted):
        return "0"
    best, least = "0", np.inf
    for number in range(1, len(sizes[0]) + 1):
        for chosen in combinations(sizes[0], number):
            each = [count / prod(size[dim] for dim in chosen) for size, count in counted]
            spread = max(each) / min(each)
            if spread < least:
                least = spread
                counted_each = max(1, round(float(np.median(each))))
                best = " * ".join((str(min(counted_each, MOST_OPERATIONS)), *chosen))
    if least > MOST_SPREAD:
        outputs = (one.name for one in kernel.buffers if one.is_output)
        return " + ".join(shapes[name] for name in outputs if name in shapes) or "0"
    return best


async def _terms(
    kernel: _Kernel,
    sizes: Sequence[Dims],
    choice: int,
    shapes: Mapping[str, str],
    indexed: Collection[str],
) -> str:
    """Return how many elements of one input an element of an output depends on, for the input with
    the most: a product of dims. Empty where no float input shows it.

    An input with one NaN makes the outputs NaN that depend on that element. All elements together
    reach as many outputs as all outputs depend on elements. Buffers that are `indexed`, where one
    element may serve all outputs, are left out, and indices; other whole numbers are 1, as masks.
    """
    whole = [one.name for one in kernel.buffers if not is_float(one.dtype) and not one.is_output]
    ones = {name: 1 for name in whole if name not in indexed}
    floats = [one for one in kernel.buffers if is_float(one.dtype) and one.name in shapes]
    inputs = [one.name for one in floats if one.role in (ArgumentRole.IN, ArgumentRole.INOUT)]
    outputs = [one.name for one in floats if one.is_output]
    most, terms = 0.0, ""
    for name in (one for one in inputs if one not in indexed):
        found = [
            await _reached(kernel, dims, choice, shapes, name, outputs, ones) for dims in sizes
        ]
        if not any(found):
            continue
        fitted = fit([int(one) for one in found], sizes) if all(map(_is_whole, found)) else ""
        if not fitted:
            return ""
        count = max(float(evaluate(fitted, dims)) for dims in sizes)
        if count > most:
            most, terms = count, fitted
    return terms


def _is_whole(number: float) -> bool:
    return number >= 1 and number == int(number)


async def _reached(
    kernel: _Kernel,
    dims: Dims,
    choice: int,
    shapes: Mapping[str, str],
    name: str,
    outputs: Sequence[str],
    indices: Mapping[str, int],
) -> float:
    """Return how many elements of an input an element of an output depends on at a size, by the
    input's first, middle and last element; 0 where a call fails."""
    lengths = {one: int(evaluate(shape, dims)) for one, shape in shapes.items()}
    most = 0.0
    for place in sorted({0, lengths[name] // 2, lengths[name] - 1}):
        call = _Call(
            dims=dims, choice=choice, lengths=lengths, indices=indices, spots={name: place}
        )
        outcome, data = await kernel.call(call)
        if not isinstance(outcome, CallReport):
            return 0.0
        for output in outputs:
            numbers = kernel.task.element_types[output].decode(data[output], np)
            most = max(most, float(np.isnan(numbers).sum()) * lengths[name] / lengths[output])
    return most


def _bytes(task: Task, shapes: Mapping[str, str]) -> str:
    """Return the bytes of all buffers, those that are read and written twice."""
    of_shape: dict[str, int] = {}
    for one in task.arguments:
        if one.name in shapes and one.role != ArgumentRole.WORKSPACE:
            passes = 2 if one.role == ArgumentRole.INOUT else 1
            head, _, rest = shapes[one.name].partition(" * ")
            number, product = (int(head), rest) if head.isdigit() else (1, shapes[one.name])
            count = number * passes * item_bytes(one.dtype)
            of_shape[product] = of_shape.get(product, 0) + count
    terms = []
    for product, count in of_shape.items():
        factors = [str(count)] if count > 1 or not product else []
        terms.append(" * ".join([*factors, _factor(product)] if product else factors))
    return " + ".join(terms) or "0"


def _factor(shape: str) -> str:
    return f"({shape})" if "+" in shape or "//" in shape else shape
