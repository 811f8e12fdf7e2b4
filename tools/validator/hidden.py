"""Fresh sizes nobody has seen, drawn within the ranges a task gives."""

import math
from collections.abc import Mapping

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import DimRange, Task

FEWEST = 2
_TRIES = 2000


def draw_hidden(task: Task, rng: np.random.Generator) -> tuple[Mapping[str, int], ...]:
    """Sizes that meet `requires` and the cost limit. Raises TaskError where none can be found."""
    if not task.sizes.hidden.dims:
        return ()
    known = [dict(size) for size in (*task.sizes.edge, *task.sizes.emulated)]
    found: list[Mapping[str, int]] = []
    for _ in range(_TRIES):
        size = {name: _draw(limits, rng) for name, limits in task.sizes.hidden.dims.items()}
        if _fits(task, size) and size not in known:
            known.append(size)
            found.append(size)
        if len(found) == max(FEWEST, task.sizes.hidden.count):
            return tuple(found)
    if len(found) >= FEWEST:
        return tuple(found)
    raise TaskError(
        f"{task.folder}: sizes.hidden: found no {FEWEST} sizes that fit {task.requires}"
    )


def _fits(task: Task, size: Mapping[str, int]) -> bool:
    hidden = task.sizes.hidden
    if task.requires and not evaluate(task.requires, size):
        return False
    return float(evaluate(hidden.cost, size)) <= hidden.max_cost


def _draw(limits: DimRange, rng: np.random.Generator) -> int:
    """Even in the logarithm for half of the draws, so that wide ranges give small sizes too."""
    step = limits.multiple_of
    low, high = -(-limits.minimum // step), limits.maximum // step
    if rng.random() < 0.5:
        return int(rng.integers(low, high, endpoint=True)) * step
    exponent = rng.uniform(math.log(max(low, 1)), math.log(high + 1))
    return min(high, max(low, int(math.exp(exponent)))) * step
