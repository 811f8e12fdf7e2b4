"""One call of a candidate: where its buffers lie, their contents, what must not change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.outcomes import Nondeterministic, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device import CallReport, Session
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, BufferSpec, Random, Role
from cuda_llm.tools.validator.buffers import (
    Filled,
    buffer_specs,
    call_arguments,
    call_options,
    copy_outputs,
    fill,
    find_damage,
)
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.compare import compare
from cuda_llm.tools.validator.fused import as_words, bytes_of, first_difference
from cuda_llm.tools.validator.oracle import Expectation, compare_outputs

EXTRA = "extra"
"""A repeated call with the same contents in the same place."""

ALIGNMENT = 256
MOST_SHIFTS = 64
"""Places a buffer may begin at, each ALIGNMENT further."""


@dataclass(frozen=True)
class CompletedCall:
    """A call that came back and changed nothing but its outputs."""

    report: CallReport
    filled: Filled
    outputs: Mapping[str, Array]
    """Private copies of the outputs."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Values that all calls of one case share."""

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
            if not buffer.spec.is_filled:
                bytes_of(buffer.data)[...] = case.poison
            elif buffer.spec.role is Role.INOUT:
                buffer.data[...] = before.filled.contents[name]
        return await self._complete(case, before.filled, checks=last)

    async def _complete(
        self, case: Case, filled: Filled, *, checks: bool
    ) -> CompletedCall | Verdict:
        task, dims = self.task, case.dims
        options = call_options(
            task, dims, level=case.level, schedule_seed=case.schedule_seed, tracks=case.tracks
        )
        report = await self.session.call(call_arguments(task, dims), options)
        if not isinstance(report, CallReport):
            return report
        if task.strict and report.guarded_races:
            return report.guarded_races[0]
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


def compare_repeat(
    first: Mapping[str, Array],
    second: Mapping[str, Array],
    expectation: Expectation,
    own: ErrorLimits,
    arrays: Arrays = HOST,
) -> tuple[str, ...] | Nondeterministic:
    """Compare two calls on the same inputs; return notes on sums that depend on the order.

    Outputs have equal bits, or differ by at most a quarter of the tolerance. With a rule of the
    task's own each call has to satisfy it, and they may differ.
    """
    notes = []
    for name, expected in expectation.values.items():
        xp, other = arrays.xp, second[name]
        one, again = (expected.numbers(each[name], xp) for each in (first, second))
        if arrays.number(xp.array_equal(one, again, equal_nan=one.dtype.kind in "fc")):
            continue
        if not compare_outputs(second, expectation, own, arrays)[name].ok:
            return Nondeterministic(buffer=name, kind="order-of-execution")
        if expectation.own_rule is not None:
            continue
        reach = replace(
            own, max_units=own.max_units / 4, rms_units=max(own.rms_units, own.max_units)
        )
        wide = np.complex128 if one.dtype.kind == "c" else np.float64
        wanted = replace(expected, value=one.astype(wide))
        gap = compare(other, wanted, reach, arrays)
        if not gap.ok:
            return Nondeterministic(
                buffer=name, kind="spread", units=gap.max_units, limit=gap.limit
            )
        notes.append(
            f"{name} depends on the order of execution, by at most {gap.max_units:.2g} "
            "rounding units"
        )
    return tuple(notes)
