"""The kind of a task, which its declaration shows: the problem whose known algorithms apply, and
how much of the input decides an output.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from math import prod

from cuda_llm.tasks.expressions import evaluate, names_in
from cuda_llm.tasks.task import ArgumentRole, Task, TaskArgument, ToleranceClass, is_float


class Work(StrEnum):
    """How outputs depend on inputs, which decides how a kernel is cut into threads."""

    STREAMS = "streams"
    """Each output needs a few inputs, each input is used about once."""
    REARRANGES = "rearranges"
    """Values are moved, not computed with."""
    ACCUMULATES = "accumulates"
    """Many inputs are combined into few outputs."""
    SCATTERS = "scatters"
    """Inputs decide which of few outputs they count for."""
    REUSES = "reuses"
    """Each input is needed for many outputs."""
    SLIDES = "slides"
    """Neighbouring outputs need overlapping windows of the input."""


class TaskKind(StrEnum):
    """The problem that a task is an instance of."""

    ELEMENTWISE = "elementwise"
    """Each output needs the inputs at its own place."""
    COPY = "copy"
    """Values are moved in their order."""
    TRANSPOSE = "transpose"
    """Values are moved, the extents in another order."""
    PERMUTATION = "permutation"
    """Values change places within one array."""
    SORTING = "sorting"
    SELECTION = "selection"
    """Some of the inputs are the output: the largest k, the distinct, those that meet something."""
    SCAN = "scan"
    """Each output is a sum over all inputs up to its place."""
    HISTOGRAM = "histogram"
    """Inputs decide which output they count for."""
    REDUCTION = "reduction"
    """All inputs are combined into one value."""
    ROWS = "rows"
    """Each row, contiguous in memory, is reduced or normalised: softmax, RMS norm."""
    COLUMNS = "columns"
    """The same along an axis whose elements lie a stride apart."""
    ROW_LOSS = "row_loss"
    """Each row is reduced, and the results of all rows are combined into one value."""
    PRODUCT = "product"
    """Two matrices are multiplied."""
    PRODUCT_CHAIN = "product_chain"
    """Several products of matrices, each needing the one before."""
    MATVEC = "matvec"
    """A matrix is multiplied by a vector."""
    SPARSE = "sparse"
    """The matrix is given by the places of its elements that are not 0."""
    ATTENTION = "attention"
    """Products of queries and keys, a softmax, and a product with values."""
    CONVOLUTION = "convolution"
    """A window that slides over the input is weighted by a small operand."""
    WINDOW = "window"
    """A window that slides over the input is combined without weights: pooling, stencils."""
    SOLVER = "solver"
    """A system of equations is set up or solved."""
    GENERATOR = "generator"
    """Outputs come from no input: random numbers, tables."""


WORK: Mapping[TaskKind, Work] = {
    TaskKind.ELEMENTWISE: Work.STREAMS,
    TaskKind.COPY: Work.REARRANGES,
    TaskKind.TRANSPOSE: Work.REARRANGES,
    TaskKind.PERMUTATION: Work.REARRANGES,
    TaskKind.SORTING: Work.STREAMS,
    TaskKind.SELECTION: Work.ACCUMULATES,
    TaskKind.SCAN: Work.STREAMS,
    TaskKind.HISTOGRAM: Work.SCATTERS,
    TaskKind.REDUCTION: Work.ACCUMULATES,
    TaskKind.ROWS: Work.STREAMS,
    TaskKind.COLUMNS: Work.STREAMS,
    TaskKind.ROW_LOSS: Work.ACCUMULATES,
    TaskKind.PRODUCT: Work.REUSES,
    TaskKind.PRODUCT_CHAIN: Work.REUSES,
    TaskKind.MATVEC: Work.ACCUMULATES,
    TaskKind.SPARSE: Work.ACCUMULATES,
    TaskKind.ATTENTION: Work.REUSES,
    TaskKind.CONVOLUTION: Work.SLIDES,
    TaskKind.WINDOW: Work.STREAMS,
    TaskKind.SOLVER: Work.ACCUMULATES,
    TaskKind.GENERATOR: Work.STREAMS,
}

FEW = 16
"""Number of inputs for each output from which outputs count as few."""
MANY = 8
"""Least number of terms of an output, or of operations an input, at which inputs are reused."""


def work_of(task: Task) -> Work:
    """Return how the task's outputs depend on its inputs."""
    return WORK[kind_of(task)]


def kind_of(task: Task) -> TaskKind:
    """Return the kind of `task`, by roles, shapes, terms, tolerance and least work.

    The rules ask for what is surer first; a task that no rule knows gets the kind that is typical
    of how its outputs depend on its inputs.
    """
    inputs, outputs = _inputs(task), _outputs(task)
    if not inputs or not outputs:
        return TaskKind.GENERATOR
    return next(_rules(task, inputs, outputs))


def _rules(
    task: Task, inputs: Sequence[TaskArgument], outputs: Sequence[TaskArgument]
) -> Iterator[TaskKind]:
    if _has_row_starts(inputs):
        yield TaskKind.SPARSE
    exact = task.tolerance.kind == ToleranceClass.EXACT
    if exact and (task.tolerance.bits or evaluate(task.roofline.flops, _dims(task)) == 0):
        yield _moved(task, inputs, outputs)
    if kind := _sliding(task, inputs, outputs):
        yield kind
    if _is_attention(task, inputs, outputs):
        yield TaskKind.ATTENTION
    if kind := _contracting(task, inputs, outputs):
        yield kind
    if _elements(task, inputs) >= FEW * _elements(task, outputs):
        rows = any(len(one.shape) > 1 and is_float(one.dtype) for one in inputs)
        one_value = _elements(task, outputs) == len(outputs)
        if rows and not one_value:
            yield _along(inputs[0].shape, set(inputs[0].shape) - set(outputs[0].shape))
        yield TaskKind.ROW_LOSS if rows and not task.linear else TaskKind.REDUCTION
    terms = names_in(task.tolerance.terms) & set(outputs[0].shape)
    if terms:
        yield TaskKind.SCAN if task.linear else _along(outputs[0].shape, terms)
    many = evaluate(task.tolerance.terms, _dims(task)) >= MANY
    yield TaskKind.PRODUCT if many else TaskKind.ELEMENTWISE


def _moved(task: Task, inputs: Sequence[TaskArgument], outputs: Sequence[TaskArgument]) -> TaskKind:
    """Return the kind of a task whose outputs are found by no arithmetic."""
    before, after = inputs[0], outputs[0]
    if task.tolerance.bits or task.linear:
        if after.role == ArgumentRole.INOUT:
            return TaskKind.PERMUTATION
        turned = before.shape != after.shape and Counter(before.shape) == Counter(after.shape)
        return TaskKind.TRANSPOSE if turned else TaskKind.COPY
    if before.dtype == after.dtype and before.shape == after.shape:
        return TaskKind.SORTING
    bounded = names_in(task.requires) >= {*before.shape, *after.shape} if task.requires else False
    same = before.dtype == after.dtype and (is_float(after.dtype) or bounded)
    return TaskKind.SELECTION if same else TaskKind.HISTOGRAM


def _sliding(
    task: Task, inputs: Sequence[TaskArgument], outputs: Sequence[TaskArgument]
) -> TaskKind | None:
    """Return the kind of a task whose outputs see a window of the input, if it is such a task.

    An extent of the output is less than the input's by an extent, or the terms are the extents of
    one small operand.
    """
    rank = len(outputs[0].shape)
    over = [one for one in inputs if len(one.shape) == rank]
    weights = [one for one in inputs if one is not inputs[0] and is_float(one.dtype)]
    if over and any("-" in extent for extent in outputs[0].shape):
        return TaskKind.CONVOLUTION if weights else TaskKind.WINDOW
    terms = names_in(task.tolerance.terms)
    own = [
        one
        for one in weights
        if len(one.shape) > 1
        and terms
        and terms == {*one.shape} - {*outputs[0].shape}
        and not terms & {name for other in inputs if other is not one for name in _names(other)}
    ]
    return TaskKind.CONVOLUTION if over and own else None


def _is_attention(
    task: Task, inputs: Sequence[TaskArgument], outputs: Sequence[TaskArgument]
) -> bool:
    """Return whether queries as large as the output meet keys and values alike, with as many
    operations an element as there are keys."""
    matrices = [one for one in inputs if is_float(one.dtype) and len(one.shape) > 1]
    alike = Counter(one.shape for one in matrices)
    queries = any(one.shape == outputs[0].shape for one in matrices)
    heads = {one.shape[-1] for one in matrices} == {outputs[0].shape[-1]}
    busy = evaluate(task.roofline.flops, _dims(task)) >= MANY * _elements(task, inputs)
    pairs = len(matrices) >= 3 and max(alike.values()) >= 2
    return not task.linear and queries and heads and busy and pairs


def _contracting(
    task: Task, inputs: Sequence[TaskArgument], outputs: Sequence[TaskArgument]
) -> TaskKind | None:
    """Return the kind of a task with products summed over an extent that two inputs share and no
    output has, if it is such a task; also of one square matrix and a vector."""
    factors = [one for one in inputs if is_float(one.dtype)]
    matrices = [one for one in factors if len(one.shape) > 1]
    after = {extent for one in outputs for extent in one.shape}
    # Names: a row of `32 * blocks` weights has a scale for each of its `blocks`.
    shared = Counter(name for one in factors for name in _names(one) - after)
    summed = max(shared.values(), default=0) > 1
    square = any(max(Counter(one.shape).values()) > 1 for one in matrices)
    if len(outputs[0].shape) > 1:
        if not summed:
            return None
        return TaskKind.PRODUCT_CHAIN if len(matrices) > 2 else TaskKind.PRODUCT
    if _elements(task, outputs) == len(outputs):
        return TaskKind.REDUCTION if summed else None
    if matrices and len(factors) > 1 and (summed or square):
        operations = evaluate(task.roofline.flops, _dims(task)) / _elements(task, inputs)
        return TaskKind.SOLVER if operations > MANY / 2 else TaskKind.MATVEC
    return None


def _names(argument: TaskArgument) -> set[str]:
    """Return the dims that an argument's extents are made of."""
    return {name for extent in argument.shape for name in names_in(extent)}


def _along(shape: Sequence[str], reduced: Collection[str]) -> TaskKind:
    """Return whether the reduced extents hold the innermost."""
    return TaskKind.ROWS if shape[-1] in reduced else TaskKind.COLUMNS


def _has_row_starts(inputs: Sequence[TaskArgument]) -> bool:
    """Return whether an input of whole numbers has one element more than there are rows."""
    return any(
        not is_float(one.dtype)
        and len(one.shape) == 1
        and one.shape[0].replace(" ", "")[-2:] == "+1"
        for one in inputs
    )


def length_of(task: Task, dims: Mapping[str, int]) -> int:
    """Return how many elements are reduced, sorted or scanned together at a size: a row where the
    kind is about rows, the terms of a product, a window or a softmax, else the largest input."""
    inputs, kind = _inputs(task), kind_of(task)
    if not inputs:
        return 0
    shape = max(inputs, key=lambda one: len(one.shape)).shape
    match kind:
        case TaskKind.ROWS | TaskKind.ROW_LOSS:
            return int(evaluate(shape[-1], dims))
        case TaskKind.COLUMNS:
            reduced = names_in(task.tolerance.terms) & set(shape) or {shape[0]}
            return prod(int(evaluate(one, dims)) for one in reduced)
        case TaskKind.ATTENTION | TaskKind.CONVOLUTION | TaskKind.PRODUCT:
            return int(evaluate(task.tolerance.terms, dims))
    return max(prod(int(evaluate(one, dims)) for one in given.shape) for given in inputs)


def _dims(task: Task) -> Mapping[str, int]:
    return task.sizes.bench[-1]


def _inputs(task: Task) -> list[TaskArgument]:
    return [one for one in task.arguments if one.role in (ArgumentRole.IN, ArgumentRole.INOUT)]


def _outputs(task: Task) -> list[TaskArgument]:
    return [one for one in task.arguments if one.role in (ArgumentRole.OUT, ArgumentRole.INOUT)]


def _elements(task: Task, arguments: Sequence[TaskArgument]) -> float:
    return sum(
        prod(evaluate(extent, _dims(task)) for extent in argument.shape) for argument in arguments
    )
