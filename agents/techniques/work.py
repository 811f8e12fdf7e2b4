"""What kind of work a task is, derived from its declaration alone, so for own tasks too."""

from collections.abc import Mapping
from enum import StrEnum
from math import prod

from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import ArgumentRole, Task, ToleranceClass


class Work(StrEnum):
    """What decides how a kernel is best cut into threads."""

    STREAMS = "streams"
    """Each output needs a few inputs, each input is used about once."""
    REARRANGES = "rearranges"
    """Values are moved, not computed with."""
    ACCUMULATES = "accumulates"
    """Many inputs are added up into few outputs."""
    SCATTERS = "scatters"
    """Inputs decide which of few outputs they count for."""
    REUSES = "reuses"
    """Each input is needed for many outputs."""
    SLIDES = "slides"
    """Neighbouring outputs need overlapping windows of the input."""


FEW = 16
"""Outputs are few when there are this many inputs for each."""
MANY_TERMS = 8
"""From this many terms an output on, inputs that are not simply summed up are reused."""


def work_of(task: Task) -> Work:
    """The kind of work that `task` is, judged at its largest published size."""
    dims = task.sizes.bench[-1]
    inputs = _elements(task, dims, (ArgumentRole.IN, ArgumentRole.INOUT))
    outputs = _elements(task, dims, (ArgumentRole.OUT, ArgumentRole.INOUT))
    if inputs >= FEW * outputs:
        exact = task.tolerance.kind == ToleranceClass.EXACT
        return Work.SCATTERS if exact else Work.ACCUMULATES
    if evaluate(task.tolerance.terms, dims) >= MANY_TERMS:
        return Work.SLIDES if _output_shrinks(task) else Work.REUSES
    if evaluate(task.roofline.flops, dims) == 0:
        return Work.REARRANGES
    return Work.STREAMS


def _output_shrinks(task: Task) -> bool:
    """Whether an output has an extent like `H - R + 1`."""
    outputs = (one for one in task.arguments if one.role == ArgumentRole.OUT)
    return any("-" in extent for output in outputs for extent in output.shape)


def _elements(task: Task, dims: Mapping[str, int], roles: tuple[ArgumentRole, ...]) -> float:
    return sum(
        prod(evaluate(extent, dims) for extent in argument.shape)
        for argument in task.arguments
        if argument.role in roles
    )
