"""Plans the cases of an evaluation: sizes (hidden sizes too), inputs, random streams."""

import hashlib
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import truediv

import numpy as np

from cuda_llm.tasks.distribution import maker_of, parse_distribution
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task, TaskArgument, ToleranceClass
from cuda_llm.tasks.tolerances import Terms
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import HOST, Arrays, Random
from cuda_llm.tools.validator.adversaries import split_arrangement
from cuda_llm.tools.validator.adversary_rows import adversary_rows, heavy_rows
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.distributions import (
    DOMINANT,
    REPEATED,
    SYMMETRIC,
    TINY,
    in_regions,
    short_label,
    spellings_in,
)
from cuda_llm.tools.validator.float_values import EXACT_SUM
from cuda_llm.tools.validator.hidden_sizes import NO_THRESHOLDS, draw_hidden

NONCE_BYTES = 16

GroupedSize = tuple[str, Dims]
"""The group of a size, and its dimensions."""

MANY_ELEMENTS = 128
"""Number of elements that shows one nonzero element in ten, and most of seven kinds of rows."""

POISONS = (0xFF, 0x7B)
"""Bytes outputs are filled with: NaN for floats, and a large finite number."""

FULL_LEVEL_WORK = 2e6
"""Cases with at most this much work run at level `full`, which finds races and unset reads."""

MOST_SCHEDULES = 1 << 31

PROBE_TERMS = 2048
"""Number of 13-bit numbers whose sum stays below 2^24, whatever they are."""
LONG_PROBE = "exact_odd_13bit"
PROBED_SHARE = 0.25
"""Share of the work of all cases that probes at further sizes may take."""
MOST_PROBED = 6

CHECKED_WORK = 1e7
"""Operations and bytes of the further calls at one timed size, unless a single call takes more."""
FEWEST_AT_SMALLEST = 2
MOST_AT_OTHERS = 3


def fresh_nonce() -> bytes:
    """Return a new secret for one evaluation, unknown to the candidate until the verdict."""
    return secrets.token_bytes(NONCE_BYTES)


def case_generator(nonce: bytes, task: Task, number: int, arrays: Arrays = HOST) -> Random:
    """Return the random stream that case `number` of a validation draws from."""
    return generator(nonce, task.name, "case", number, arrays)


def generator(nonce: bytes, task: str, phase: str, call: int, arrays: Arrays = HOST) -> Random:
    """Return the random stream of one call; equal arguments give equal streams."""
    digest = hashlib.blake2b(key=nonce, digest_size=16)
    for part in (task, phase, str(call)):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return arrays.generator(int.from_bytes(digest.digest(), "little"))


def put_informative_first(task: Task, sizes: Sequence[GroupedSize], rows: int) -> list[GroupedSize]:
    """Order sizes: the most informative ones first, from dear to cheap, then the others.

    `sizes` come from cheap to dear. At least `rows` of the first are informative: where there are
    fewer, the cheapest of them is repeated.
    """
    shares = _shares_of_many(task, sizes)
    informative = [size for size, share in zip(sizes, shares, strict=True) if share == max(shares)]
    others = [size for size in sizes if size not in informative]
    again = informative[:1] * (rows - len(informative))
    return [*reversed(informative), *again, *reversed(others)]


def _shares_of_many(task: Task, sizes: Sequence[GroupedSize]) -> list[float]:
    """Return for each size the smallest share of enough elements that a buffer has, at most 1.

    Enough are MANY_ELEMENTS, or as many as the buffer has at any of the sizes.
    """
    counts = [[prod(spec.shape) for spec in buffer_specs(task, dims)] for _, dims in sizes]
    enough = [min(MANY_ELEMENTS, max(column)) for column in zip(*counts, strict=True)]
    return [min(1.0, *map(truediv, one, enough)) for one in counts]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of inputs at one size."""

    group: str
    """`edge`, `emulated`, `hidden` or `bench`."""
    dims: Dims
    distributions: Mapping[str, str]
    """Input argument to distribution, as the task spells it."""
    level: Level
    poison: int = POISONS[0]
    schedule_seed: int = 0
    probe: bool = False
    """Every sum is exact in float32, so the result must be equal."""
    repeat_seed: int = 0
    """Not 0: call again with the same inputs, other poison and this schedule."""
    work: float = 0.0
    tracks: bool = False
    """Undefined values are looked for, where the device can."""

    @property
    def label(self) -> str:
        """Return the distributions in few words, e.g. `normal` or `A normal, B sparse`."""
        used = [short_label(text) for text in self.distributions.values()]
        if len(set(used)) == 1:
            return used[0]
        return ", ".join(
            f"{name} {text}" for name, text in zip(self.distributions, used, strict=True)
        )


def plan(
    task: Task,
    rng: np.random.Generator,
    numbers: Sequence[int] = (),
    thresholds: Mapping[str, Sequence[int]] = NO_THRESHOLDS,
) -> tuple[Case, ...]:
    """Plan cases from cheap to dear: all edge sizes and distributions, hidden sizes, probes.

    Some of the hidden sizes lie beside `numbers`, those of the candidate's source, and on either
    side of the `thresholds` that it compares an extent with.

    The cheapest size begins, with the first row of distributions. Rows are dealt to the informative
    sizes first, those with the most work at the head; sizes left over repeat them. Larger emulated
    sizes are left to the timed calls, which are compared just as well.
    """
    sizes = [("edge", dims) for dims in task.sizes.edge]
    sizes += [("hidden", dims) for dims in draw_hidden(task, rng, numbers, thresholds)]
    sizes.sort(key=lambda size: work(task, size[1]))
    rows = distribution_rows(task)
    cases = [_case(task, *sizes[0], rows[0])]
    cases += [
        _case(task, *size, rows[rank % len(rows)])
        for rank, size in enumerate(put_informative_first(task, sizes[1:] or sizes, len(rows)))
    ]
    cases += [_case(task, "emulated", dims, rows[0]) for dims in task.sizes.emulated[:1]]
    # What such a size shows must not hang on the one row it was dealt.
    cases += [_case(task, *size, rows[0]) for size in sizes if _is_small_hidden(task, *size)]
    cases += _adversaries(task, sizes, rng)
    cases += _probes(task, cases, rng)
    cases.sort(key=lambda case: case.work)
    return tuple(
        replace(
            case,
            poison=POISONS[number % len(POISONS)],
            schedule_seed=0 if number % 2 == 0 else _schedule(rng),
            repeat_seed=_schedule(rng) if case is _repeated(cases) else 0,
        )
        for number, case in enumerate(cases)
    )


def _adversaries(
    task: Task, sizes: Sequence[GroupedSize], rng: np.random.Generator
) -> Iterator[Case]:
    """Yield a case for each arrangement of inputs, at cheap sizes that have many elements.

    Their values are looked at, and races are left to the other cases.
    """
    shares = _shares_of_many(task, sizes)
    many = [size for size, share in zip(sizes, shares, strict=True) if share == max(shares)]
    cheap = many[: -(-len(many) // 2)]
    for row in adversary_rows(task, distribution_rows(task), cheap[0][1], rng):
        yield replace(_case(task, *cheap[int(rng.integers(len(cheap)))], row), level=Level.CHECK)


def without_size(task: Task, case: Case) -> Task | None:
    """Return the task without the size of a case, or with hidden sizes of half the cost; None where
    no other size of its group is left."""
    sizes = task.sizes
    if case.group == "hidden":
        if math.isinf(sizes.hidden.max_cost):
            return None
        cheaper = replace(sizes.hidden, max_cost=sizes.hidden.max_cost / 2)
        return replace(task, sizes=replace(sizes, hidden=cheaper))
    if case.group == "edge" and len(sizes.edge) > 1:
        edge = tuple(dims for dims in sizes.edge if dims != case.dims)
        return replace(task, sizes=replace(sizes, edge=edge))
    if case.group == "emulated" and len(sizes.emulated) > 1:
        emulated = tuple(dims for dims in sizes.emulated if dims != case.dims)
        return replace(task, sizes=replace(sizes, emulated=emulated))
    return None


def _is_small_hidden(task: Task, group: str, dims: Dims) -> bool:
    return group == "hidden" and work(task, dims) <= FULL_LEVEL_WORK / 20


def work(task: Task, dims: Dims) -> float:
    """Return the operations and bytes of the roofline, by which cases are ordered and bounded.

    Where the task states neither, as a drafted task does, return the bytes of the buffers: above 0.
    """
    roofline = task.roofline
    stated = float(evaluate(roofline.flops, dims)) + float(evaluate(roofline.bytes, dims))
    return stated if stated > 0 else float(sum(spec.nbytes for spec in buffer_specs(task, dims)))


def timed_case(task: Task, dims: Dims, level: Level, group: str = "emulated") -> Case:
    """Return the case a size is timed on: the first distributions, blocks in ascending order."""
    return replace(_case(task, group, dims, distribution_rows(task)[0]), level=level)


def distribution_rows(task: Task) -> tuple[Mapping[str, str], ...]:
    """Combine distributions: row k takes each input's k-th, starting over after its last."""
    inputs = inputs_of(task)
    rows = max((len(argument.distributions) for argument in inputs), default=1)
    return tuple(
        {a.name: a.distributions[row % len(a.distributions)] for a in inputs} for row in range(rows)
    )


def inputs_of(task: Task) -> tuple[TaskArgument, ...]:
    """Return the arguments that arrive filled."""
    return tuple(argument for argument in task.arguments if argument.distributions)


def real_terms(task: Task, dims: Dims) -> float:
    """Return how many real numbers are added for one output element, or for each of its parts: of a
    product of complex numbers each part is the sum of two real products."""
    is_complex = any(one.is_complex for one in task.element_types.values())
    return float(evaluate(task.tolerance.terms, dims)) * (2 if is_complex else 1)


def probe_rows(task: Task, dims: Dims) -> tuple[Mapping[str, str], ...]:
    """Return what the inputs of exactness probes are drawn from; nothing where there is none.

    A long sum of 13-bit numbers is exact where most of them are zero. A second probe has no zeros,
    but shorter numbers, so that no term is left out unseen.
    """
    inputs = inputs_of(task)
    if not task.linear or not all(argument.probe for argument in inputs):
        return ()
    terms = real_terms(task, dims)
    row = {argument.name: argument.probe for argument in inputs}
    if terms <= PROBE_TERMS:
        return (row,)
    long = {name for name, text in row.items() if text == LONG_PROBE}
    return row, {name: f"exact_odd({terms if name in long else EXACT_SUM:.0f})" for name in row}


def probe_densities(task: Task, case: Case) -> Mapping[str, float]:
    """Return the share of elements that are not zero: the last input is thinned for long sums of
    13-bit numbers."""
    terms = real_terms(task, case.dims)
    names = [argument.name for argument in inputs_of(task)]
    long = LONG_PROBE in case.distributions.values()
    thinned = case.probe and long and terms > PROBE_TERMS
    return {
        name: PROBE_TERMS / 2 / terms if thinned and name == names[-1] else 1.0 for name in names
    }


def timed_checks(
    task: Task, dims: Dims, rng: np.random.Generator, group: str, most: int | None = None
) -> tuple[Case, ...]:
    """Plan further calls at a timed size, for their results alone: other inputs than the timed.

    Foremost all distributions side by side, one value repeated, and the exactness probe, or a sum
    of a few heavy terms; then the others, at random, `most` in all: else as many as CHECKED_WORK
    allows. A single one is drawn.
    """
    effort = work(task, dims)
    if most is None:
        afforded = int(CHECKED_WORK // effort)
        smallest = dims == task.sizes.emulated[0]
        most = max(FEWEST_AT_SMALLEST, afforded) if smallest else min(MOST_AT_OTHERS, afforded) or 1
    timed, *others = distribution_rows(task)
    shuffled = [others[number] for number in rng.permutation(len(others))]
    shuffled.sort(key=lambda row: not all(map(_is_repeated, row.values())))
    beside, exact = _side_by_side(task, timed), probe_rows(task, dims)
    heavy = exact or heavy_rows(task, distribution_rows(task), dims)
    probe = heavy[int(rng.integers(len(heavy)))] if heavy else {}
    first = shuffled[:1] if shuffled and all(map(_is_repeated, shuffled[0].values())) else []
    rows = [beside, *first, probe, *shuffled[len(first) :]]
    rows = [row for row in rows if row]
    if most == 1 and rows:
        rows = [rows[0 if rng.random() < 0.5 else rng.integers(len(rows))]]
    return tuple(
        replace(
            _case(task, group, dims, row),
            level=Level.CHECK,
            probe=row is probe and bool(exact),
            poison=POISONS[rng.integers(len(POISONS))],
        )
        for row in rows[:most]
    )


def _side_by_side(task: Task, timed: Mapping[str, str]) -> Mapping[str, str]:
    """Return the row in which the first input has regions of all its distributions.

    Where terms are added, what would hide all others, or be rounded alike over and over, is left to
    rows of its own, and so is everything else where all terms are added to one element.
    """
    adds = task.tolerance.kind in (ToleranceClass.REDUCTION, ToleranceClass.DOT)
    inputs = [one for one in inputs_of(task) if not maker_of(one.distributions[0])]
    if not inputs or (adds and len(inputs) == 1):
        return {}
    first = inputs[0]
    together = [
        text
        for text in first.distributions
        if not adds or parse_distribution(text).name not in REPEATED | DOMINANT
    ]
    if len(set(together)) < 2:
        return {}
    return {**timed, first.name: in_regions(together)}


def side_by_side_case(task: Task, dims: Dims, group: str) -> Case:
    """Return the case on which a call at a timed size is compared for its results alone: all
    distributions side by side where a row can hold them, else the first ones."""
    timed = distribution_rows(task)[0]
    return replace(_case(task, group, dims, _side_by_side(task, timed) or timed), level=Level.CHECK)


def _is_repeated(spelling: str) -> bool:
    return parse_distribution(spelling).name in REPEATED


def terms_of(task: Task, case: Case) -> Terms:
    """Return what is summed into one output element of this case."""
    used = [
        parse_distribution(text)
        for spelling in case.distributions.values()
        for text in spellings_in(spelling)
    ]
    arrangements = {split_arrangement(text)[0] for text in case.distributions.values()} - {""}
    return Terms(
        count=real_terms(task, case.dims),
        symmetric=not arrangements
        and all(
            one.name in SYMMETRIC or (one.name == "uniform" and _is_centred(one.arguments, case))
            for one in used
        ),
        repeated=all(one.name in REPEATED for one in used) or "nearly_equal" in arrangements,
        may_overflow=not all(one.name in TINY for one in used),
    )


def _is_centred(bounds: tuple[str, ...], case: Case) -> bool:
    low, high = (evaluate(text, case.dims) for text in bounds)
    return low == -high


def _case(task: Task, group: str, dims: Dims, distributions: Mapping[str, str]) -> Case:
    effort = work(task, dims)
    return Case(
        group=group,
        dims=dims,
        distributions=distributions,
        level=Level.FULL if effort <= FULL_LEVEL_WORK else Level.CHECK,
        work=effort,
    )


def _probes(task: Task, cases: list[Case], rng: np.random.Generator) -> Iterator[Case]:
    """Yield exactness probes of linear tasks, and sums of a few heavy terms of others.

    They are for the dearest edge size, a hidden one of median work, and the dearest others that
    together take no more than PROBED_SHARE of the work of all cases.
    """
    edge, hidden = (
        sorted((c for c in cases if c.group == group), key=lambda case: case.work)
        for group in ("edge", "hidden")
    )
    chosen = [*edge[-1:], *hidden[len(hidden) // 2 :][:1]]
    left = PROBED_SHARE * sum(case.work for case in cases)
    sizes = {tuple(case.dims.items()): case for case in (*edge, *hidden)}
    known = [case.dims for case in chosen]
    for case in sorted(sizes.values(), key=lambda case: -case.work):
        fits = case.work <= left and len(chosen) < MOST_PROBED
        if fits and case.dims not in known:
            chosen.append(replace(case, level=Level.CHECK))
            left -= case.work
    for number, case in enumerate(chosen):
        exact = probe_rows(task, case.dims)
        rows = exact or heavy_rows(task, distribution_rows(task), case.dims)
        first = int(rng.integers(len(rows))) if rows else 0
        dealt = rows[first : first + 1] if number else rows
        for row in dealt:
            yield replace(case, distributions=row, probe=bool(exact))


def _repeated(cases: list[Case]) -> Case:
    """Choose the case that is called twice: the most work at level `full`."""
    full = [case for case in cases if case.level is Level.FULL]
    return max(full or cases[:1], key=lambda case: case.work)


def _schedule(rng: np.random.Generator) -> int:
    return int(rng.integers(1, MOST_SCHEDULES))
