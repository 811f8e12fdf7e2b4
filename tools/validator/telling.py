"""Which sizes show what a distribution of inputs is for: those where every buffer is long."""

from collections.abc import Sequence
from math import prod
from operator import truediv

from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.layout import Dims, buffer_specs

Size = tuple[str, Dims]
"""The group of a size, and its dimensions."""

MANY_ELEMENTS = 128
"""So many show one in ten that is not zero, and most of seven kinds of rows."""


def put_telling_first(task: Task, sizes: Sequence[Size], rows: int) -> list[Size]:
    """Sizes that tell most from dear to cheap, at least `rows` of them, then the others.

    `sizes` come from cheap to dear. Where too few tell most, the cheapest of those comes again.
    """
    shares = _shares_of_many(task, sizes)
    telling = [size for size, share in zip(sizes, shares, strict=True) if share == max(shares)]
    others = [size for size in sizes if size not in telling]
    again = telling[:1] * (rows - len(telling))
    return [*reversed(telling), *again, *reversed(others)]


def _shares_of_many(task: Task, sizes: Sequence[Size]) -> list[float]:
    """Elements of the shortest buffer of each size over those that are enough for it, at most 1.

    Enough are many, or as many as the buffer has at any of the sizes.
    """
    counts = [[prod(spec.shape) for spec in buffer_specs(task, dims)] for _, dims in sizes]
    enough = [min(MANY_ELEMENTS, max(column)) for column in zip(*counts, strict=True)]
    return [min(1.0, *map(truediv, one, enough)) for one in counts]
