"""Techniques a candidate may try, and the tasks and devices that they fit."""

from collections.abc import Iterable
from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.task_kind import TaskKind, kind_of, length_of
from cuda_llm.search import Kind
from cuda_llm.tasks.task import ArgumentRole, Task

NARROW = ("e4m3", "e5m2", "fp16", "bf16", "tf32")
"""Precisions in which tensor cores multiply."""
ANY_LENGTH = (0, 1 << 62)


@dataclass(frozen=True, kw_only=True)
class Technique:
    """Something a brief may ask a candidate to try.

    The text names it and how to go about it, never a figure of the hardware: it is shown whatever
    the hardware context is.
    """

    text: str
    kinds: frozenset[Kind]
    """Kinds of orders that the technique fits."""
    source: str = ""
    """Author and year of the publication that describes the technique; empty for a repair."""
    tasks: frozenset[TaskKind] = frozenset(TaskKind)
    """Kinds of tasks that the technique fits; all kinds by default."""
    lengths: tuple[int, int] = ANY_LENGTH
    """Least and most elements that are reduced, sorted or scanned together (`length_of`) at some
    timed size."""
    least_rank: int = 0
    """Least number of extents of the first input."""
    against: tuple[str, ...] = ()
    """Codes of the bottlenecks that the technique relieves."""
    needs: tuple[int, int] = (0, 0)
    """Least compute capability; where the hardware is hidden, only techniques that need (0, 0)
    are offered."""
    newest: tuple[int, int] = (99, 0)
    """Last compute capability that has what the technique needs."""
    tensor: bool = False
    """Whether the technique needs tensor cores for the precision that the task allows."""
    cores_only: bool = False
    """Whether tensor cores make the technique pointless, where the task allows their precision."""
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
    needs_signs: frozenset[str] = frozenset()
    """Signs of which the parent's text must show one; empty where none is needed."""
    needs_launches: int = 1
    """Launches that the parent must make."""
    launches: int = 1
    """Number of launches that the technique needs."""
    output_passes: int = 0
    """Passes over memory as large as the outputs that the technique adds."""
    needs_fill: bool = False
    """Whether the parent must copy or fill by the CUDA API."""
    words_per_fma: float = 0.0
    """Words a lane reads from shared memory for each multiply-add; 0 where that is open."""
    work_per_thread: int = 0
    """1 where the technique gives a thread or a block more work, -1 where it gives less work,
    else 0."""


AIMS = frozenset(
    {
        *("occupancy", "residency", "unrolling", "larger_tiles", "more_registers"),
        *("fewer_blocks", "more_blocks"),
        *("fewer_bytes", "fewer_instructions", "prefetching", "faster_memory", "more_in_flight"),
        *("coalescing", "wide_accesses", "padding", "less_divergence"),
    }
)
"""Aims of techniques."""

STRUCTURE = frozenset({Kind.FIRST, Kind.DEPART})
"""Another way to cut the problem into threads: to begin with, or to leave the beaten track."""
CHANGE = frozenset({Kind.IMPROVE})
"""A change to a kernel that works."""
REPAIR = frozenset({Kind.FIX})


def fitting(techniques: Iterable[Technique], situation: Situation) -> list[Technique]:
    """Return the techniques that fit the kind of task and its sizes, and that task and device
    allow."""
    kind = kind_of(situation.task)
    return [one for one in techniques if kind in one.tasks and _fits(one, situation)]


def _fits(technique: Technique, situation: Situation) -> bool:
    task, hardware = situation.task, situation.hardware
    return (
        _fits_sizes(technique, situation)
        and (not technique.library or technique.library in task.capabilities.header_libraries)
        and technique.needs <= hardware.compute_capability <= technique.newest
        and (technique.emulated or situation.capabilities.full_isa)
        and (not technique.tensor or task.tolerance.precision in hardware.peaks.tensor_dense_tflops)
        and not (technique.cores_only and task.tolerance.precision in NARROW)
    )


def _fits_sizes(technique: Technique, situation: Situation) -> bool:
    task, (least, most) = situation.task, technique.lengths
    if _rank(task) < technique.least_rank:
        return False
    if technique.lengths == ANY_LENGTH:
        return True
    timed = situation.sizes or task.sizes.bench
    return any(least <= length_of(task, dims) <= most for dims in timed)


def _rank(task: Task) -> int:
    inputs = (one for one in task.arguments if one.role in (ArgumentRole.IN, ArgumentRole.INOUT))
    return max((len(one.shape) for one in inputs), default=0)
