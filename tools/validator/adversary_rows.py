"""Chooses which inputs of a task are arranged as adversaries, and beside which other inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cuda_llm.tasks.distribution import maker_of, parse_distribution
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task, TaskArgument, ToleranceClass, is_float
from cuda_llm.tools.validator.adversaries import arranged
from cuda_llm.tools.validator.distributions import draw

SAMPLE = (16, 128)
SAMPLE_SEED = 1
FARTHEST = 1.25
"""How far beyond their root mean square the arrangements put values."""

LOOSE = frozenset({"ints", "bins", "ints_full_range"})
"""Whole numbers in no order: a task that draws them asks for none."""

Row = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class _Span:
    """What a distribution draws: its ends, and the root mean square between them."""

    least: float
    greatest: float
    size: float

    @property
    def has_low(self) -> bool:
        """Return whether numbers of this size may be negative."""
        return 0 < FARTHEST * self.size <= -self.least

    @property
    def has_high(self) -> bool:
        """Return whether numbers of this size may be positive."""
        return 0 < FARTHEST * self.size <= self.greatest


def adversary_rows(
    task: Task, rows: Sequence[Row], dims: Dims, rng: np.random.Generator
) -> Iterator[Row]:
    """Yield rows of a task's distributions in which one or two inputs are arranged.

    An input with a single distribution is left as it is, and so is one that inputs.py makes, whose
    rows are independent or whose numbers are in order: the task may rely on what it draws. Of the
    rows that may draw such numbers the one with the largest is taken, since what holds a sentinel,
    overflows or cancels shows at large numbers.
    """
    floats, varied = _loose_floats(task), _varied(task)
    whole = [one for one in varied if element_type(one.dtype).kind == "int" and LOOSE & _names(one)]
    if floats:
        first, *others = floats
        yield from _largest(rows, dims, {first: "lowest"})
        yield from _largest(rows, dims, {first: "highest"})
        for other in others[:1]:
            yield from _largest(rows, dims, {first: "lowest", other: "highest"})
        drawn = floats[int(rng.integers(len(floats)))]
        if task.tolerance.kind is not ToleranceClass.EXACT:
            for _ in drawn.shape[2:] or ("once",):
                yield from _largest(rows, dims, {drawn: "nearly_equal"})
    for one in whole:
        row = rows[int(rng.integers(len(rows)))]
        yield {**row, one.name: arranged(str(rng.choice(("lowest", "highest"))), row[one.name])}


def heavy_rows(task: Task, rows: Sequence[Row], dims: Dims) -> list[Row]:
    """Return the rows in which a few terms of a sum carry all of it, for tasks that add terms.

    Without one of them the sum is off by more than any limit, whatever follows it. They are the
    task's own rows with `landmarks`, or else those of the first two inputs that may be so.
    """
    own = [row for row in rows if any(text.startswith("landmarks(") for text in row.values())]
    if own or task.tolerance.kind not in (ToleranceClass.REDUCTION, ToleranceClass.DOT):
        return own
    return [
        row for one in _loose_floats(task)[:2] for row in _largest(rows, dims, {one: "few_heavy"})
    ]


def _varied(task: Task) -> list[TaskArgument]:
    several = [one for one in task.arguments if len(set(one.distributions)) > 1]
    return [one for one in several if not maker_of(one.distributions[0])]


def _loose_floats(task: Task) -> list[TaskArgument]:
    return [one for one in _varied(task) if is_float(one.dtype) and "full_rank" not in _names(one)]


def _names(argument: TaskArgument) -> frozenset[str]:
    return frozenset(parse_distribution(text).name for text in argument.distributions)


def _largest(rows: Sequence[Row], dims: Dims, wanted: Mapping[TaskArgument, str]) -> Iterator[Row]:
    """Yield the row whose values are the largest, if any may be arranged so."""
    found: list[tuple[float, int]] = []
    for number, row in enumerate(rows):
        spans = {one: _span(row[one.name], one.dtype, tuple(dims.items())) for one in wanted}
        if all(_allows(spans[one], arrangement) for one, arrangement in wanted.items()):
            found.append((-min(span.size for span in spans.values()), number))
    if found:
        row = rows[min(found)[1]]
        names = {one.name: arrangement for one, arrangement in wanted.items()}
        yield {**row, **{name: arranged(how, row[name]) for name, how in names.items()}}


def _allows(span: _Span, arrangement: str) -> bool:
    match arrangement:
        case "lowest":
            return span.has_low
        case "few_heavy":
            return span.least <= 0 and span.has_high
        case _:
            return span.has_high


@lru_cache(maxsize=1024)
def _span(spelling: str, dtype: str, dims: tuple[tuple[str, int], ...]) -> _Span:
    """Measure what a distribution draws on a sample that is always the same."""
    rng = np.random.default_rng(SAMPLE_SEED)
    part = element_type(element_type(dtype).part)
    stored = draw(spelling, rng, SAMPLE, part.name, dict(dims))
    values = part.decode(stored, np).astype(np.float64)
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        # Infinite where float64 cannot hold the squares: no arrangement has room for that.
        size = float(np.sqrt(np.square(finite).mean())) if finite.size else 0.0
    return _Span(
        least=float(finite.min(initial=0.0)), greatest=float(finite.max(initial=0.0)), size=size
    )
