"""Sizes of the shape of one that takes too long to execute, and the time that follows from them.

What a kernel launches follows from its extents, so a size is extrapolated from smaller ones of its
own shape: its largest extent is halved again and again, and small extents, by which kernels choose
what they do, stay as they are.
"""

from collections.abc import Iterator, Sequence

from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task

SHORTEST = 64
"""Extents below are not halved: they are the taps of a filter, the steps of a window, few rows."""


def halvings(task: Task, dims: Dims) -> Iterator[Dims]:
    """Yield ever smaller sizes that the task allows, each half as large as the one before."""
    limits = task.sizes.hidden.dims
    size = dict(dims)
    while True:
        halves = [
            {**size, name: size[name] // 2}
            for name in sorted(limits, key=lambda name: -size[name])
            if size[name] >= SHORTEST
            and size[name] % (2 * limits[name].multiple_of) == 0
            and size[name] // 2 >= limits[name].minimum
        ]
        allowed = [one for one in halves if not task.requires or evaluate(task.requires, one)]
        if not allowed:
            return
        size = allowed[0]
        yield dict(size)


def extrapolate(points: Sequence[tuple[float, float]], work: float) -> float:
    """Return the time at `work`, where the largest of `points` of work and time was executed.

    A unit of work takes as long as it did there, and longer where the time grew by more from the
    point before: time that was not executed is never better than time that was.
    """
    (less, less_us), (most, most_us) = points[-2:] if len(points) > 1 else (points[0], points[0])
    each_us = most_us / most
    if most > less:
        each_us = max(each_us, (most_us - less_us) / (most - less))
    return most_us + max(0.0, work - most) * each_us
