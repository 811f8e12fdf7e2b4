"""Plans the cases a candidate is judged on: sizes, hidden ones too, inputs, random streams."""

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import truediv

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import DimRange, Task, TaskArgument
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import HOST, Arrays, Random
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.distributions import REPEATED, SYMMETRIC
from cuda_llm.tools.validator.tolerances import Terms

NONCE_BYTES = 16


FEWEST_HIDDEN = 2
_MOST_DRAWS = 2000

GroupedSize = tuple[str, Dims]
"""The group of a size, and its dimensions."""

MANY_ELEMENTS = 128
"""Enough elements to show one in ten that is not zero, and most of seven kinds of rows."""

POISONS = (0xFF, 0x7B)
"""Bytes outputs are filled with: NaN for floats, and a large finite number."""

FULL_LEVEL_WORK = 2e6
"""Cases with at most this much work run at level `full`, which finds races and unset reads."""

MOST_SCHEDULES = 1 << 31


def fresh_nonce() -> bytes:
    """Return a new secret for one evaluation, unknown to the candidate until the verdict is out."""
    return secrets.token_bytes(NONCE_BYTES)


def case_generator(nonce: bytes, task: Task, number: int, arrays: Arrays = HOST) -> Random:
    """Return the random stream that case `number` of a validation draws from."""
    return generator(nonce, task.name, "case", number, arrays)


def generator(nonce: bytes, task: str, phase: str, call: int, arrays: Arrays = HOST) -> Random:
    """Return the random stream of one call; the same arguments give the same stream."""
    digest = hashlib.blake2b(key=nonce, digest_size=16)
    for part in (task, phase, str(call)):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return arrays.generator(int.from_bytes(digest.digest(), "little"))


def draw_hidden(task: Task, rng: np.random.Generator) -> tuple[Mapping[str, int], ...]:
    """Draw sizes that meet `requires` and the cost limit. Raises TaskError where there are none."""
    if not task.sizes.hidden.dims:
        return ()
    known = [dict(size) for size in (*task.sizes.edge, *task.sizes.emulated)]
    found: list[Mapping[str, int]] = []
    for _ in range(_MOST_DRAWS):
        size = {name: _draw(limits, rng) for name, limits in task.sizes.hidden.dims.items()}
        if _fits(task, size) and size not in known:
            known.append(size)
            found.append(size)
        if len(found) == max(FEWEST_HIDDEN, task.sizes.hidden.count):
            return tuple(found)
    if len(found) >= FEWEST_HIDDEN:
        return tuple(found)
    raise TaskError(
        f"{task.folder}: sizes.hidden: found no {FEWEST_HIDDEN} sizes that fit {task.requires}"
    )


def _fits(task: Task, size: Mapping[str, int]) -> bool:
    hidden = task.sizes.hidden
    if task.requires and not evaluate(task.requires, size):
        return False
    return float(evaluate(hidden.cost, size)) <= hidden.max_cost


def _draw(limits: DimRange, rng: np.random.Generator) -> int:
    """Draw an extent, half of the time even in its logarithm: wide ranges give small ones too."""
    step = limits.multiple_of
    low, high = -(-limits.minimum // step), limits.maximum // step
    if rng.random() < 0.5:
        return int(rng.integers(low, high, endpoint=True)) * step
    exponent = rng.uniform(math.log(max(low, 1)), math.log(high + 1))
    return min(high, max(low, int(math.exp(exponent)))) * step


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

    @property
    def label(self) -> str:
        """Return the distributions in few words, e.g. `normal` or `A normal, B sparse`."""
        used = list(self.distributions.values())
        if len(set(used)) == 1:
            return used[0]
        return ", ".join(f"{name} {text}" for name, text in self.distributions.items())


def plan(task: Task, rng: np.random.Generator) -> tuple[Case, ...]:
    """Plan cases from cheap to dear: all edge sizes and distributions, hidden sizes, probes.

    The cheapest size begins, with the first row of distributions. Rows are dealt to the informative
    sizes first, those with the most work at the head; sizes left over repeat them. Larger emulated
    sizes are left to the timed calls, which are compared just as well.
    """
    sizes = [("edge", dims) for dims in task.sizes.edge]
    sizes += [("hidden", dims) for dims in draw_hidden(task, rng)]
    sizes.sort(key=lambda size: work(task, size[1]))
    rows = distribution_rows(task)
    cases = [_case(task, *sizes[0], rows[0])]
    cases += [
        _case(task, *size, rows[rank % len(rows)])
        for rank, size in enumerate(put_informative_first(task, sizes[1:] or sizes, len(rows)))
    ]
    cases += [_case(task, "emulated", dims, rows[0]) for dims in task.sizes.emulated[:1]]
    cases += _probes(task, cases)
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


def work(task: Task, dims: Dims) -> float:
    """Return the operations and bytes of the roofline, by which cases are ordered and bounded."""
    roofline = task.roofline
    return float(evaluate(roofline.flops, dims)) + float(evaluate(roofline.bytes, dims))


def format_dims(dims: Dims) -> str:
    """Return `rows=1,024 cols=512`."""
    return " ".join(f"{name}={extent:,}" for name, extent in dims.items())


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


def terms_of(task: Task, case: Case) -> Terms:
    """Describe what is summed into one output element of this case."""
    used = [parse_distribution(text) for text in case.distributions.values()]
    return Terms(
        count=float(evaluate(task.tolerance.terms, case.dims)),
        symmetric=all(
            one.name in SYMMETRIC or (one.name == "uniform" and _is_centred(one.arguments, case))
            for one in used
        ),
        repeated=all(one.name in REPEATED for one in used),
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


def _probes(task: Task, cases: list[Case]) -> list[Case]:
    """Make exactness probes at the dearest edge size and at a hidden one of median work."""
    inputs = inputs_of(task)
    if not task.linear or not inputs or not all(argument.probe for argument in inputs):
        return []
    probes = {argument.name: argument.probe for argument in inputs}
    edge, hidden = (
        sorted((c for c in cases if c.group == group), key=lambda case: case.work)
        for group in ("edge", "hidden")
    )
    chosen = [*edge[-1:], *hidden[len(hidden) // 2 :][:1]]
    return [replace(case, distributions=probes, probe=True) for case in chosen]


def _repeated(cases: list[Case]) -> Case:
    """Choose the case that is called twice: the most work at level `full`."""
    full = [case for case in cases if case.level is Level.FULL]
    return max(full or cases[:1], key=lambda case: case.work)


def _schedule(rng: np.random.Generator) -> int:
    return int(rng.integers(1, MOST_SCHEDULES))
