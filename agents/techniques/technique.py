"""Techniques a candidate may try, and the kinds of work that a task's declaration shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Kind
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import ArgumentRole, Task, ToleranceClass


class Work(StrEnum):
    """The kind of work of a task, which decides how a kernel is best cut into threads."""

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
"""Number of inputs for each output from which outputs count as few."""
MANY_TERMS = 8
"""Least number of terms of an output at which inputs that are not simply summed up are reused."""


def work_of(task: Task) -> Work:
    """Return the kind of work that `task` is, judged at its largest published size."""
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
    """Return whether an output has an extent like `H - R + 1`."""
    outputs = (one for one in task.arguments if one.role == ArgumentRole.OUT)
    return any("-" in extent for output in outputs for extent in output.shape)


def _elements(task: Task, dims: Mapping[str, int], roles: tuple[ArgumentRole, ...]) -> float:
    return sum(
        prod(evaluate(extent, dims) for extent in argument.shape)
        for argument in task.arguments
        if argument.role in roles
    )


@dataclass(frozen=True, kw_only=True)
class Technique:
    """Something a brief may ask a candidate to try.

    The text names it and how to go about it, never a figure of the hardware: it is shown whatever
    the hardware context is.
    """

    text: str
    kinds: frozenset[Kind]
    """Kinds of orders that the technique fits."""
    work: frozenset[Work] = frozenset(Work)
    """Kinds of work that the technique fits; all kinds by default."""
    against: tuple[str, ...] = ()
    """Codes of the bottlenecks that the technique relieves."""
    needs: tuple[int, int] = (0, 0)
    """Least compute capability; where the hardware is hidden, only techniques that need (0, 0)
    are offered."""
    emulated: bool = True
    """Whether the emulated device executes the technique."""
    library: str = ""
    """Header library the task must allow."""
    shown_by: str = ""
    """Sign of the technique in a source (`kernel_facts.SIGNS`); empty where no sign shows the
    technique."""
    aims: frozenset[str] = frozenset()
    """Aims of the technique, of `AIMS`; a figure or a hint may say that an aim is of no use."""
    needs_shared: bool = False
    """Whether the parent must use shared memory."""
    needs_launches: int = 1
    """Launches that the parent must make."""
    launches: int = 1
    """Number of launches that the technique needs."""
    words_per_fma: float = 0.0
    """Words a lane reads from shared memory for each multiply-add; 0 where that is open."""
    work_per_thread: int = 0
    """1 where the technique gives a thread or a block more work, -1 where it gives less work,
    else 0."""


AIMS = frozenset(
    {
        *("occupancy", "unrolling", "larger_tiles", "more_registers", "fewer_blocks"),
        *("fewer_bytes", "fewer_instructions", "prefetching", "faster_memory"),
        *("coalescing", "padding"),
    }
)
"""Aims of techniques."""

STRUCTURE = frozenset({Kind.FIRST, Kind.DEPART})
"""Another way to cut the problem into threads: to begin with, or to leave the beaten track."""
CHANGE = frozenset({Kind.IMPROVE})
"""A change to a kernel that works."""
REPAIR = frozenset({Kind.FIX})

STREAMS, REARRANGES = frozenset({Work.STREAMS}), frozenset({Work.REARRANGES})
ACCUMULATES, SCATTERS = frozenset({Work.ACCUMULATES}), frozenset({Work.SCATTERS})
REUSES, SLIDES = frozenset({Work.REUSES}), frozenset({Work.SLIDES})
ADDS_UP = ACCUMULATES | SCATTERS


def fits(technique: Technique, situation: Situation) -> bool:
    """Return whether the technique fits the kind of work, and task and device allow the
    technique."""
    task = situation.task
    return (
        work_of(task) in technique.work
        and (not technique.library or technique.library in task.capabilities.header_libraries)
        and technique.needs <= situation.hardware.compute_capability
        and (technique.emulated or situation.capabilities.full_isa)
    )
