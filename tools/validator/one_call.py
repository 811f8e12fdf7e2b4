"""One call of a candidate: where its buffers lie, what is in them, and what it may not change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Session
from cuda_llm.tools.device.buffers import Array, Arrays, BufferSpec, Random, Role
from cuda_llm.tools.validator.buffers import (
    Filled,
    buffer_specs,
    call_arguments,
    call_options,
    copy_outputs,
    fill,
    find_damage,
)
from cuda_llm.tools.validator.cases import Case, inputs_of
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.fused import as_words, bytes_of, first_difference

EXTRA = "extra"
"""A repeated call with the same contents in the same place."""

ALIGNMENT = 256
MOST_SHIFTS = 64
"""Places a buffer may begin at, each ALIGNMENT further."""

ELEMENTWISE = frozenset(
    {
        *("normal", "uniform", "uniform_signed", "uniform_unit", "heavy_tail", "large", "denormal"),
        *("sparse", "mixed", "zeros", "all_equal", "constant_rows", "ints_full_range", "ints"),
        *("bins", "exact_odd_13bit", "exact_signs"),
    }
)
"""Distributions of which any element may take the place of another of the same index."""


@dataclass(frozen=True)
class CompletedCall:
    """A call that came back and changed nothing but its outputs."""

    report: CallReport
    filled: Filled
    outputs: Mapping[str, Array]
    """Private copies."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What the calls of one case have in common."""

    task: Task
    session: Session
    rng: Random
    arrays: Arrays

    def place(self, case: Case, choices: np.random.Generator) -> tuple[BufferSpec, ...]:
        """Return the buffers of the case, every other time in places drawn at random."""
        specs = buffer_specs(self.task, case.dims)
        return _shifted(specs, choices)

    async def call(
        self, case: Case, inputs: Mapping[str, Array], place: Sequence[BufferSpec]
    ) -> CompletedCall | Verdict:
        """Fill the buffers, call `solve` once, and see that guards and inputs are unchanged."""
        filled = fill(self.session.place(place), inputs, case.poison, self.rng)
        return await self._complete(case, filled, checks=True)

    async def call_in_place(
        self, case: Case, before: CompletedCall, *, last: bool
    ) -> CompletedCall | Verdict:
        """Call `solve` again as it was; guards and inputs are looked at after the `last`."""
        for name, buffer in before.filled.placed.items():
            if buffer.spec.role is Role.OUT:
                bytes_of(buffer.data)[...] = case.poison
            elif buffer.spec.role is Role.INOUT:
                buffer.data[...] = before.filled.contents[name]
        return await self._complete(case, before.filled, checks=last)

    async def _complete(
        self, case: Case, filled: Filled, *, checks: bool
    ) -> CompletedCall | Verdict:
        task, dims = self.task, case.dims
        options = call_options(task, dims, level=case.level, schedule_seed=case.schedule_seed)
        report = await self.session.call(call_arguments(task, dims), options)
        if not isinstance(report, CallReport):
            return report
        damage = find_damage(filled, self.arrays) if checks else None
        return damage or CompletedCall(report, filled, copy_outputs(filled))


def same_bits(one: Mapping[str, Array], other: Mapping[str, Array], arrays: Arrays) -> bool:
    """Return whether all outputs of two calls are the same bit by bit."""
    pairs = [(as_words(one[name]), as_words(other[name])) for name in one]
    return first_difference(pairs, arrays) is None


def _shifted(specs: Sequence[BufferSpec], rng: np.random.Generator) -> tuple[BufferSpec, ...]:
    """Return the buffers in places drawn at random, every other time as they are."""
    if rng.random() < 0.5:
        return tuple(specs)
    return tuple(
        replace(spec, shift_bytes=ALIGNMENT * int(rng.integers(MOST_SHIFTS))) for spec in specs
    )


def change_one(
    task: Task,
    case: Case,
    inputs: Mapping[str, Array],
    rng: Random,
    choices: np.random.Generator,
    arrays: Arrays,
    begin: int = 0,
) -> dict[str, Array] | None:
    """Return the inputs with one element of one of them changed, to another that may be drawn.

    `begin` is the position of the input tried first. None where there is no such element: inputs
    are empty, or right only as a whole.
    """
    names = [name for name, array in inputs.items() if array.size]
    for position in range(len(names)):
        name = names[(begin + position) % len(names)]
        old = inputs[name].reshape(-1)
        index = _draw_index(old.size, choices)
        before = arrays.to_host(old[index : index + 1])
        for spelling in _spellings(task, case, name, choices):
            fresh = draw(spelling, rng, inputs[name].shape, old.dtype, case.dims, arrays=arrays)
            new = fresh.reshape(-1)[index : index + 1]
            if arrays.to_host(new).tobytes() != before.tobytes():
                changed = inputs[name].copy()
                changed.reshape(-1)[index : index + 1] = new
                return {**inputs, name: changed}
    return None


def _draw_index(size: int, choices: np.random.Generator) -> int:
    """Draw an index, more often inside: who looks at samples looks at both ends."""
    inside = size > 2 and choices.random() < 0.75
    return int(choices.integers(1, size - 1) if inside else choices.integers(size))


def _spellings(task: Task, case: Case, name: str, choices: np.random.Generator) -> list[str]:
    """Return the distribution of the case, then the others of the argument; a probe's alone."""
    own = next(one.distributions for one in inputs_of(task) if one.name == name)
    others = [] if case.probe else [own[int(k)] for k in choices.permutation(len(own))]
    every = (case.distributions[name], *others)
    return [text for text in every if parse_distribution(text).name in ELEMENTWISE]
