"""Draws the sizes that nobody is shown: anywhere, and where kernels change what they do."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import DimRange, Task

FEWEST_HIDDEN = 2
MOST_AT_CONSTANTS = 2
"""Sizes beside numbers of the source, besides the others."""
MOST_AT_THRESHOLDS = 4
"""Sizes on either side of numbers that the source compares an extent with."""
MOST_BESIDE_ONE = 2
"""Timed sizes of which one extent alone is changed, where there are several."""
STEPS = (1, 1, 1, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
"""One, and prime numbers, by which one extent is changed."""
ROUND = 64
"""Multiple that no odd number of `STEPS` leads to from another."""
NO_THRESHOLDS: Mapping[str, Sequence[int]] = MappingProxyType({})
_MOST_DRAWS = 2000
_FEW_DRAWS = 60


def draw_hidden(
    task: Task,
    rng: np.random.Generator,
    numbers: Sequence[int] = (),
    thresholds: Mapping[str, Sequence[int]] = NO_THRESHOLDS,
) -> tuple[Dims, ...]:
    """Draw sizes that meet `requires` and the cost limit. Raises TaskError where there are none.

    Half of them lie anywhere. The others lie beside timed sizes, in one extent alone too, where
    `requires` just holds, one below, at and one above `numbers`, and on either side of the
    `thresholds` of an extent, as far as the task's ranges allow.
    """
    if not task.sizes.hidden.dims:
        return ()
    known = [dict(size) for size in (*task.sizes.edge, *task.sizes.emulated)]
    count = max(FEWEST_HIDDEN, task.sizes.hidden.count)
    aimed = [
        *_first_new(task, _beside_timed(task, rng), known, 1),
        *_first_new(task, _at_the_limit(task, rng), known, 2),
    ]
    free = _first_new(task, _anywhere(task, rng), known, max(FEWEST_HIDDEN, count - len(aimed)))
    if len(free) < FEWEST_HIDDEN:
        raise TaskError(
            f"{task.folder}: sizes.hidden: found no {FEWEST_HIDDEN} sizes that fit {task.requires}"
        )
    in_one = min(MOST_BESIDE_ONE, len(task.dims) - 1)
    chosen = [
        *_first_new(task, _beside_in_one(task, rng), known, in_one),
        *_first_new(task, _beside_numbers(task, rng, numbers), known, MOST_AT_CONSTANTS),
        *_first_new(task, _at_thresholds(task, rng, thresholds), known, MOST_AT_THRESHOLDS),
    ]
    return (*free, *aimed, *chosen)


def draw_ragged(
    task: Task, dims: Dims, rng: np.random.Generator, most_times: float = 1.0
) -> Dims | None:
    """Draw a size of which each extent is a few more than that of `dims` or less, at most twice as
    long; None where the task allows no such size.

    One extent is up to `most_times` as long, where the task's own sizes are as long.
    """
    limits = task.sizes.hidden.dims
    sizes = (*task.sizes.bench, *task.sizes.large)
    longest = {name: max((size[name] for size in sizes), default=0) for name in limits}
    times = {name: min(most_times, longest[name] / dims[name]) for name in limits}
    grown = [name for name in limits if times[name] >= 2]
    for _ in range(_FEW_DRAWS):
        size = dict(dims)
        for name in rng.permutation(grown)[:1]:
            # A round number: a few more or less are then no multiple of a vector's width.
            step = ROUND * limits[name].multiple_of
            size[name] = int(dims[name] * times[name] * rng.uniform(0.75, 1.0)) // step * step
        for name, one in limits.items():
            few = [step for step in STEPS if step == 1 or step * one.multiple_of <= size[name]]
            step = int(rng.choice(few)) * one.multiple_of
            size[name] += step if size[name] <= step or rng.random() < 0.5 else -step
        is_allowed = not task.requires or evaluate(task.requires, size)
        if size != dict(dims) and is_allowed:
            return size
    return None


def _first_new(
    task: Task, sizes: Iterator[Dims], known: list[dict[str, int]], count: int
) -> list[Dims]:
    """Return the first sizes that fit and are new, and add them to the known sizes."""
    found: list[Dims] = []
    for size in sizes if count > 0 else ():
        if dict(size) not in known and _fits(task, size):
            known.append(dict(size))
            found.append(size)
        if len(found) == count:
            break
    return found


def _anywhere(task: Task, rng: np.random.Generator) -> Iterator[Dims]:
    for _ in range(_MOST_DRAWS):
        yield {name: _draw(limits, rng) for name, limits in task.sizes.hidden.dims.items()}


def _beside_timed(task: Task, rng: np.random.Generator) -> Iterator[Dims]:
    """Yield timed sizes with extents a few more or less, and others of as many elements."""
    timed = [*task.sizes.emulated, *task.sizes.bench]
    timed = [size for size in timed if _fits(task, size)] or timed
    limits = task.sizes.hidden.dims
    for _ in range(_FEW_DRAWS * bool(timed)):
        size = dict(timed[rng.integers(len(timed))])
        names = list(size)
        if len(names) > 1 and rng.random() < 0.3:
            more, fewer = rng.permutation(names)[:2]
            factor = int(rng.choice((2, 4, 8)))
            if size[fewer] % factor == 0:
                size[more] *= factor
                size[fewer] //= factor
        else:
            # Not always all: most neighbours in many dims break what the task requires.
            for name in rng.permutation(names)[: rng.integers(1, len(names), endpoint=True)]:
                size[name] += int(rng.integers(-3, 4)) * limits[name].multiple_of
        yield size


def _beside_in_one(task: Task, rng: np.random.Generator) -> Iterator[Dims]:
    """Yield timed sizes with one extent more or less by 1 or by a prime number, each in turn."""
    timed = [size for size in task.sizes.emulated if _fits(task, size)]
    limits = task.sizes.hidden.dims
    for _ in range(_FEW_DRAWS // 2 * bool(timed)):
        size = timed[rng.integers(len(timed))]
        for name in rng.permutation(list(limits)):
            step = int(rng.choice(STEPS)) * limits[name].multiple_of
            yield {**size, name: size[name] + int(rng.choice((-1, 1))) * step}


def _at_thresholds(
    task: Task, rng: np.random.Generator, thresholds: Mapping[str, Sequence[int]]
) -> Iterator[Dims]:
    """Yield sizes of which one extent lies below and above a threshold, each in turn."""
    limits = task.sizes.hidden.dims
    sides = [
        (name, number + side * limits[name].multiple_of)
        for name, numbers in thresholds.items()
        if name in limits
        for number in numbers
        for side in (-1, 0, 1)
        if limits[name].minimum < number <= limits[name].maximum
    ]
    for _ in range(_FEW_DRAWS // 4):
        for place in rng.permutation(len(sides)):
            name, extent = sides[place]
            step = limits[name].multiple_of
            yield {**next(_anywhere(task, rng)), name: -(-extent // step) * step}


def _at_the_limit(task: Task, rng: np.random.Generator) -> Iterator[Dims]:
    """Yield sizes with the least extents that `requires` allows: all that it bounds, or one."""
    drawn = islice(_anywhere(task, rng), _FEW_DRAWS * bool(task.requires))
    sizes = [size for size in drawn if evaluate(task.requires, size)]
    bounded = [[name for name in size if _least(task, size, name)[1]] for size in sizes]
    most = max(map(len, bounded), default=0)
    for size, names in zip(sizes, bounded, strict=True):
        for chosen in (names, list(rng.permutation(names)[:1])) if len(names) == most else ():
            least = dict(size)
            for name in chosen:
                least[name], _ = _least(task, least, name)
            yield least


def _least(task: Task, size: Dims, name: str) -> tuple[int, bool]:
    """Return the least extent that `requires` allows beside the others, and if it bounds it."""
    limits = task.sizes.hidden.dims[name]
    first = -(-limits.minimum // limits.multiple_of) * limits.multiple_of
    allowed = range(first, size[name] + 1, limits.multiple_of)
    least = next(n for n in allowed if evaluate(task.requires, {**size, name: n}))
    return least, least > first


def _beside_numbers(task: Task, rng: np.random.Generator, numbers: Sequence[int]) -> Iterator[Dims]:
    """Yield sizes of which one extent is a number of `numbers`, or differs from it by 1."""
    limits = task.sizes.hidden.dims
    reached = [
        (name, number)
        for number in numbers
        for name, one in limits.items()
        if one.minimum <= number - 1 and number + 1 <= one.maximum
    ]
    for size in islice(_anywhere(task, rng), _FEW_DRAWS * bool(reached)):
        name, number = reached[rng.integers(len(reached))]
        step = limits[name].multiple_of
        aimed = number + int(rng.integers(-1, 2))
        yield {**size, name: -(-aimed // step) * step}


def _fits(task: Task, size: Mapping[str, int]) -> bool:
    hidden = task.sizes.hidden
    ranges = [(size[name], one) for name, one in hidden.dims.items()]
    if any(not d.minimum <= n <= d.maximum or n % d.multiple_of for n, d in ranges):
        return False
    if task.requires and not evaluate(task.requires, size):
        return False
    return float(evaluate(hidden.cost, size)) <= hidden.max_cost


def _draw(limits: DimRange, rng: np.random.Generator) -> int:
    """Draw an extent, half of the time uniformly in its logarithm: wide ranges give small extents
    too."""
    step = limits.multiple_of
    low, high = -(-limits.minimum // step), limits.maximum // step
    if rng.random() < 0.5:
        return int(rng.integers(low, high, endpoint=True)) * step
    exponent = rng.uniform(math.log(max(low, 1)), math.log(high + 1))
    return min(high, max(low, int(math.exp(exponent)))) * step
