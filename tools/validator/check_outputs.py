"""Checks the outputs of timed calls on known inputs, however large: in parts, or by projections."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import ElementKind, ElementPattern, WrongResult
from cuda_llm.tasks.reference import Reference, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import ErrorLimits, limits
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.validator.buffers import output_types
from cuda_llm.tools.validator.cases import Case, terms_of
from cuda_llm.tools.validator.check_case import (
    MOST_EXPLAINED,
    case_limits,
    describe_mismatch,
    wrong_result,
)
from cuda_llm.tools.validator.compare import Expected, OutputComparison, Tally, compare
from cuda_llm.tools.validator.oracle import Expectation, compare_outputs, wide_numbers
from cuda_llm.tools.validator.parts import (
    OutputPart,
    axes_of,
    chosen_rows,
    parts,
    projected_limits,
    random_vectors,
    working_bytes,
)

SEED_BITS = 128


class Method(StrEnum):
    """How outputs are compared with expected values."""

    REFERENCE = "reference"
    """Compare every element with its float64 value."""
    PROJECTED = "projected"
    """Compare random signed sums over every element, and some rows element by element."""


@dataclass(frozen=True, kw_only=True)
class _RecordedCall:
    task: Task
    case: Case
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    arrays: Arrays
    reference: Reference
    own: ErrorLimits


def check_outputs(
    task: Task,
    case: Case,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    arrays: Arrays = HOST,
    *,
    method: Method = Method.REFERENCE,
    seed: int | None = None,
    reference: Reference | None = None,
) -> WrongResult | None:
    """Compare the outputs of a timed call with the reference's; None if all of them are right.

    `inputs` and `outputs` lie where `arrays` does and are not changed. The reference is computed
    now, in parts of `arrays.part_bytes` where the task can be split, and freed at once: expected
    values are not in memory while a candidate runs.
    `method` is what `budget.plan_sizes` found for the size. `seed`, 128 bits unknown when the
    outputs were written, decides the projections; fresh ones are drawn without it. `reference`
    saves loading the task's again. Raises TaskError where the reference is broken or missing, or
    cannot be projected.
    """
    call = _RecordedCall(
        task=task,
        case=case,
        inputs=inputs,
        outputs=outputs,
        arrays=arrays,
        reference=load_reference(task) if reference is None else reference,
        own=limits(task.tolerance, terms_of(task, case)),
    )
    if method is Method.PROJECTED:
        return _projected(call, secrets.randbits(SEED_BITS) if seed is None else seed)
    return _at_once(call) if call.reference.comparator is not None else _part_by_part(call)


def check_batch(
    task: Task,
    case: Case,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    arrays: Arrays = HOST,
    *,
    method: Method = Method.REFERENCE,
    reference: Reference | None = None,
) -> tuple[int, WrongResult] | None:
    """Check many calls of one size: every array has one more axis in front, an index a call.

    Returns the first wrong call and what is wrong with it. Calls that fit into `arrays.part_bytes`
    together are compared together where the task's reference takes them so.
    """
    known = load_reference(task) if reference is None else reference
    calls = len(next(iter(outputs.values())))
    own = limits(task.tolerance, terms_of(task, case))
    together = arrays.part_bytes // working_bytes(task, case.dims, known)
    if method is Method.PROJECTED or not known.batched or known.comparator or case.probe:
        together = 1
    for begin in range(0, calls, max(1, together)):
        some = slice(begin, min(begin + max(1, together), calls))
        given, got = ({n: a[some] for n, a in each.items()} for each in (inputs, outputs))
        if together > 1 and _all_right(task, known, case.dims, given, got, own, arrays):
            continue
        for number in range(some.stop - some.start):
            found = check_outputs(
                task,
                case,
                {name: array[number] for name, array in given.items()},
                {name: array[number] for name, array in got.items()},
                arrays,
                method=method,
                reference=known,
            )
            if found is not None:
                return begin + number, found
    return None


def _all_right(
    task: Task,
    known: Reference,
    dims: Mapping[str, int],
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    own: ErrorLimits,
    arrays: Arrays,
) -> bool:
    """Return whether all calls are surely right."""
    calls = len(next(iter(outputs.values())))
    values = known.compute(arrays.xp, inputs, dims)
    scales = {} if known.scale is None else known.scale(arrays.xp, inputs, dims)
    types = output_types(task)
    for name, value in values.items():
        expected = Expected(value, scales.get(name), element=types[name])
        found = compare(outputs[name], expected, own, arrays)
        if not found.each_is_right(calls, own):
            return False
    return True


def _part_by_part(call: _RecordedCall) -> WrongResult | None:
    tallies: dict[tuple[str, ErrorLimits], Tally] = {}
    for part in parts(call.task, call.case.dims, call.reference, call.arrays.part_bytes):
        expected = _expected(call, part.of(call.inputs), part)
        # Each part of a probe is exact, or not, by its own sums.
        own = case_limits(call.task, call.case, expected, call.arrays)
        some = {name: tallies.setdefault((name, own), Tally(own, call.arrays)) for name in expected}
        _add(some, call, part, expected)
    for (name, _), tally in tallies.items():
        comparison = tally.comparison()
        if not comparison.ok:
            small = call.outputs[name].size <= MOST_EXPLAINED
            explained = _at_once(call) if small else None
            return explained or describe_mismatch(call.case, name, comparison)
    return None


def _add(
    tallies: Mapping[str, Tally],
    call: _RecordedCall,
    part: OutputPart,
    expected: Mapping[str, Expected],
) -> None:
    got = part.of({name: call.outputs[name] for name in tallies})
    for name, tally in tallies.items():
        tally.add(got[name], expected[name], part.origin(name, got[name]))


def _expected(
    call: _RecordedCall, inputs: Mapping[str, Array], part: OutputPart
) -> dict[str, Expected]:
    xp, scale = call.arrays.xp, call.reference.scale
    values = call.reference.compute(xp, inputs, part.dims)
    scales = {} if scale is None else scale(xp, inputs, part.dims)
    types = output_types(call.task)
    return {
        name: Expected(value, scales.get(name), element=types[name])
        for name, value in values.items()
    }


def _at_once(call: _RecordedCall) -> WrongResult | None:
    rule, arrays = call.reference.comparator, call.arrays
    expectation = Expectation(
        _expected(call, call.inputs, OutputPart(dims=call.case.dims, axes={})),
        None if rule is None else lambda got: rule(arrays.xp, got, call.inputs, call.case.dims),
    )
    own = case_limits(call.task, call.case, expectation.values, arrays)
    for name, comparison in compare_outputs(call.outputs, expectation, own, arrays).items():
        if not comparison.ok:
            return wrong_result(
                call.case, name, call.outputs, expectation, own, call.inputs, arrays
            )
    return None


def _projected(call: _RecordedCall, seed: int) -> WrongResult | None:
    """Compare some rows exactly, then all by projections, then a row whose projections are off."""
    xp, split = call.arrays.xp, call.reference.split
    project, project_scale = call.reference.project, call.reference.project_scale
    if project is None or project_scale is None:
        raise TaskError(f"{call.task.folder}: its reference offers no projection")
    found = _rows(call, chosen_rows(call.case.dims[split], seed))
    if found is not None:
        return found
    types = output_types(call.task)
    for name, output in call.outputs.items():
        vectors = random_vectors(output.shape[-1], seed)
        tally = Tally(projected_limits(call.own, vectors), call.arrays)
        placed = xp.asarray(vectors)
        for part in parts(call.task, call.case.dims, call.reference, call.arrays.part_bytes):
            inputs, got = part.of(call.inputs), part.of({name: output})[name]
            expected = Expected(
                project(xp, placed, inputs, part.dims)[name],
                project_scale(xp, placed, inputs, part.dims)[name],
            )
            numbers = wide_numbers(got, types[name], xp)
            tally.add(numbers @ placed, expected, part.origin(name, got))
        comparison = tally.comparison()
        if not comparison.ok:
            return _explain_projection(call, name, comparison)
    return None


def _rows(call: _RecordedCall, rows: list[int]) -> WrongResult | None:
    """Compare every element at some indices of the split."""
    xp, split = call.arrays.xp, call.reference.split
    axes = axes_of(call.task, call.reference.split)
    part = OutputPart(
        dims={**call.case.dims, split: len(rows)}, axes=axes, indices=xp.asarray(rows)
    )
    tallies = {name: Tally(call.own, call.arrays) for name in call.outputs}
    _add(tallies, call, part, _expected(call, part.of(call.inputs), part))
    for name, tally in tallies.items():
        comparison = tally.comparison()
        if not comparison.ok:
            index = list(comparison.first)
            index[axes[name]] = rows[index[axes[name]]]
            return describe_mismatch(call.case, name, replace(comparison, first=tuple(index)))
    return None


def _explain_projection(
    call: _RecordedCall, name: str, comparison: OutputComparison
) -> WrongResult:
    """Find the first wrong element of a row whose projections are off, or return its figures."""
    row = comparison.first[axes_of(call.task, call.reference.split)[name]]
    found = _rows(call, [row])
    of_row = describe_mismatch(call.case, name, replace(comparison, first=comparison.first[:1]))
    return found or replace(of_row, looks_like=ElementPattern(kind=ElementKind.ROW_SUMS))
