"""Checks that a task tells correct kernels from wrong kernels."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import (
    ElementKind,
    InfraFailed,
    Verdict,
    WrongResult,
    infrastructure_error,
)
from cuda_llm.tasks.distribution import maker_of
from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.task import Task, ToleranceClass
from cuda_llm.tools.device import Level, Session, Site
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, Random
from cuda_llm.tools.device.candidate import Baseline
from cuda_llm.tools.validator.budget import format_dims
from cuda_llm.tools.validator.buffers import output_types
from cuda_llm.tools.validator.cases import Case, fresh_nonce, generator, timed_case
from cuda_llm.tools.validator.check_case import case_limits, draw_inputs
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Oracle,
    baseline_oracle,
    compare_outputs,
    reference_oracle,
)
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.verdict_wording import describe, describe_error

TAIL = 32
"""Elements of the last tile that a kernel forgets, at most."""

FURTHER_DRAWS = 2
"""Number of further input draws on which a trivial output that passed the first draw is tried."""

ArraysByName = Mapping[str, Array]

ROUNDED = 2.0**-10
"""Relative distance from the correct value below which a value may be correct and rounded."""


def trivial_outputs(
    right: Array,
    inputs: Mapping[str, Array],
    poison: int,
    arrays: Arrays = HOST,
    element: ElementType | None = None,
) -> Iterator[tuple[str, Array]]:
    """Yield outputs that need no computation, each with its name in reports.

    `right` and what is yielded are as memory holds elements of the type `element`, `inputs` are
    numbers. Those that happen to equal `right`, as zeros for an empty histogram, are left out.
    """
    xp, element = arrays.xp, element or element_type(right.dtype.name)
    if not right.size:
        return
    numbers = element.decode(right, xp)
    candidates = [
        ("zeros", xp.zeros_like(right)),
        ("one constant", element.encode(_constant(numbers, arrays), xp)),
    ]
    for name, given in inputs.items():
        if not given.size:
            continue
        given = given if element.is_complex else given.real
        places = xp.arange(right.size) % given.size
        copied = xp.take(given.reshape(-1), places).reshape(right.shape)
        candidates.append((f"a copy of {name}", element.encode(copied.astype(numbers.dtype), xp)))
    untouched = xp.full(right.nbytes, poison, np.uint8).view(right.dtype).reshape(right.shape)
    candidates.append(("nothing", untouched))
    candidates.append(("all but the last tile", _without_tail(right, untouched)))
    for name, output in candidates:
        written = element.decode(output, xp)
        if not arrays.number(xp.array_equal(written, numbers, equal_nan=element.is_float)):
            yield name, output


def _constant(right: Array, arrays: Arrays) -> Array:
    """Return the constant with the least squared error: the best guess without computation."""
    if right.dtype.kind == "c":
        parts = [_constant(part, arrays) for part in (right.real, right.imag)]
        return (parts[0] + 1j * parts[1]).astype(right.dtype)
    mean = arrays.number(arrays.xp.mean(right, dtype=np.float64))
    if right.size == 1:
        mean = mean * 1.5 + 1.0
    if right.dtype.kind in "iu":
        ends = np.iinfo(right.dtype)
        mean = min(max(round(mean), int(ends.min)), int(ends.max))
    return arrays.xp.full_like(right, mean)


def _without_tail(right: Array, untouched: Array) -> Array:
    output = right.copy()
    begin = right.size - min(TAIL, -(-right.size // 4))
    output.reshape(-1)[begin:] = untouched.reshape(-1)[begin:]
    return output


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """Inputs of one size, and the outputs that the oracle expects."""

    case: Case
    inputs: ArraysByName
    expectation: Expectation
    right: ArraysByName
    """The expected outputs as memory holds them."""


async def find_problems(
    task: Task, oracle: Oracle, nonce: bytes | None = None, arrays: Arrays = HOST
) -> AsyncIterator[str]:
    """Yield a line for each way in which a wrong kernel could pass. Raises TaskError.

    One draw may come near a guess (a sum near zero proves no tolerance too loose), so an output
    that passes on a size's first inputs is a problem only where it passes on further inputs too.
    """
    nonce = fresh_nonce() if nonce is None else nonce
    rounding_passes = True
    for number, dims in enumerate((*task.sizes.edge, *task.sizes.emulated)):
        case = timed_case(task, dims, Level.CHECK)
        rng = generator(nonce, task.name, "soundness", number, arrays)
        suspected: list[str] = []
        confirmed: set[str] = set()
        for further in range(1 + FURTHER_DRAWS):
            drawn = await _draw(task, case, rng, oracle, arrays)
            if not isinstance(drawn, _Draw):
                yield f"{format_dims(dims)}: {drawn}"
                return
            found = [*_trivial_problems(task, drawn, arrays)]
            if dims == task.sizes.emulated[-1]:
                found += await _unused_inputs(task, drawn, oracle, arrays)
            if further:
                confirmed.update(found)
                continue
            suspected = found
            rounding_passes = rounding_passes and await _half_precision_passes(
                task, drawn, oracle, arrays
            )
            if not suspected:
                break
        for problem in suspected:
            if problem in confirmed:
                yield f"{format_dims(dims)}: {problem}"
    if rounding_passes:
        yield (
            "inputs rounded to half precision pass at every size, though the task asks for fp32; "
            "tighten the tolerance"
        )


async def _draw(task: Task, case: Case, rng: Random, oracle: Oracle, arrays: Arrays) -> _Draw | str:
    """Draw inputs; return the reason where the oracle cannot judge them."""
    inputs = draw_inputs(task, case, rng, arrays)
    expectation = await oracle(inputs, case.dims)
    if not isinstance(expectation, Expectation):
        return f"the baseline ends in {expectation.code}"
    right = _stored(task, expectation, arrays)
    # A task that compares for equality chooses values, and infinity may be its choice.
    exact = task.tolerance.kind is ToleranceClass.EXACT
    types = output_types(task)
    for name, stored in right.items():
        value = types[name].decode(stored, arrays.xp)
        wrong = arrays.xp.isnan(value) if exact else ~arrays.xp.isfinite(value)
        if arrays.number(wrong.any()):
            return f"the reference's {name} is not finite for {case.label} inputs"
    return _Draw(case=case, inputs=inputs, expectation=expectation, right=right)


def _trivial_problems(task: Task, drawn: _Draw, arrays: Arrays) -> Iterator[str]:
    types = task.element_types
    inputs = {name: types[name].decode(one, arrays.xp) for name, one in drawn.inputs.items()}
    for name, value in drawn.right.items():
        trivial = trivial_outputs(value, inputs, drawn.case.poison, arrays, types[name])
        for written, output in trivial:
            if _passes(task, drawn, {**drawn.right, name: output}, arrays):
                yield (
                    f"a kernel that writes {written} into {name} passes; draw other "
                    "inputs first or tighten the tolerance"
                )


async def _unused_inputs(task: Task, drawn: _Draw, oracle: Oracle, arrays: Arrays) -> list[str]:
    """Return a line for each input the result does not depend on."""
    rng = generator(fresh_nonce(), task.name, "soundness", 0, arrays)
    problems = []
    row = drawn.case.distributions
    # What inputs.py makes is exchanged as a whole: its arrays depend on each other.
    made = [name for name, text in row.items() if maker_of(text)]
    for names in [[name] for name in row if name not in made] + ([made] if made else []):
        again = draw_inputs(task, drawn.case, rng, arrays)
        other = {**drawn.inputs, **{name: again[name] for name in names}}
        changed = await oracle(other, drawn.case.dims)
        if isinstance(changed, Expectation) and _passes(
            task, drawn, _stored(task, changed, arrays), arrays
        ):
            what = " and ".join(names)
            problems.append(
                f"the result does not depend on {what}: remove {what}, or name `distributions` in "
                "task.toml whose values change the result"
            )
    return problems


async def _half_precision_passes(task: Task, drawn: _Draw, oracle: Oracle, arrays: Arrays) -> bool:
    """Return whether a kernel that rounds its float32 inputs to half precision would pass."""
    floats = [name for name, array in drawn.inputs.items() if array.dtype == np.float32]
    float_outputs = all(one.is_float for one in output_types(task).values())
    if task.tolerance.precision != "fp32" or not floats or not float_outputs:
        return False
    with np.errstate(over="ignore"):
        rounded = {n: drawn.inputs[n].astype(np.float16).astype(np.float32) for n in floats}
    result = await oracle({**drawn.inputs, **rounded}, drawn.case.dims)
    return isinstance(result, Expectation) and _passes(
        task, drawn, _stored(task, result, arrays), arrays
    )


def _passes(task: Task, drawn: _Draw, outputs: ArraysByName, arrays: Arrays) -> bool:
    own = case_limits(task, drawn.case, drawn.expectation.values, arrays)
    compared = compare_outputs(outputs, drawn.expectation, own, arrays)
    return all(one.ok for one in compared.values())


def _stored(task: Task, expectation: Expectation, arrays: Arrays) -> dict[str, Array]:
    """Return expected outputs as memory holds them."""
    types = output_types(task)
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            name: types[name].encode(one.value, arrays.xp)
            for name, one in expectation.values.items()
        }


@dataclass(frozen=True, kw_only=True)
class Admission:
    """Result of `tasks check`."""

    problems: tuple[str, ...]
    """What is wrong with the task, and where, one line each."""
    checked: Mapping[str, int]
    """Numbers of sizes, inputs and elements that the baseline was compared on; empty where it
    failed."""
    warnings: tuple[str, ...] = ()
    """What may be wrong with the task, one line each."""

    @property
    def ok(self) -> bool:
        """Return whether the task is admissible."""
        return not self.problems


async def check_at_site(
    site: Site, task: Task, compiled: Baseline, uncontracted: Baseline | None
) -> Admission:
    """Check a task where its device is, with its baseline compiled.

    `uncontracted` is the baseline without FMA contraction; None where that changes nothing.
    """
    async with site.open(compiled) as session, site.open(compiled) as second:
        if not isinstance(session, Session):
            return not_admitted(task, session)
        if not isinstance(second, Session):
            return not_admitted(task, second)
        admission = await check_sessions(task, session, second, site.arrays)
        if not admission.ok or uncontracted is None:
            return admission
        async with site.open(uncontracted) as other:
            if not isinstance(other, Session):
                return not_admitted(task, other)
            problem = await find_strictness(task, other, second, site.arrays)
    return replace(admission, problems=(problem,)) if problem else admission


async def find_strictness(
    task: Task, uncontracted: Session, second: Session, arrays: Arrays = HOST
) -> str:
    """Return the line of a task whose tolerance refuses its baseline without FMA contraction.

    Both round as honest kernels do. Empty where the baseline passes; `second` is the oracle without
    a reference.
    """
    oracle = _oracle(task, second, arrays)
    result = await validate(task, uncontracted, arrays=arrays, oracle=oracle)
    if not isinstance(result, WrongResult):
        return ""
    return (
        f"{task.baseline}: {result.code} when compiled without FMA contraction (-fmad=false), as "
        f"honest kernels may round: {_difference(task, result)}; where terms cancel, use "
        '`kind = "dot"` or `"reduction"` of [tolerance], and scale() in reference.py: the sum of '
        "the absolute values of the terms"
    )


def _oracle(task: Task, second: Session, arrays: Arrays) -> Oracle:
    if task.reference is None:
        return baseline_oracle(task, second, arrays)
    return reference_oracle(task, arrays)


async def check_sessions(
    task: Task, session: Session, second: Session, arrays: Arrays = HOST
) -> Admission:
    """Check a task with its baseline loaded twice: `second` is the oracle without a reference."""
    try:
        oracle = _oracle(task, second, arrays)
        result = await validate(task, session, arrays=arrays, oracle=oracle)
        problems = [problem async for problem in find_problems(task, oracle, arrays=arrays)]
    except TaskError as error:
        return Admission(problems=(str(error),), checked={})
    if not isinstance(result, Validated):
        failed = not_admitted(task, result)
        return Admission(problems=(*failed.problems, *problems), checked={})
    return Admission(
        problems=tuple(problems), checked=result.checked, warnings=tuple(_missing_scales(task))
    )


def _missing_scales(task: Task) -> Iterator[str]:
    """Yield a warning where errors of sums of products are divided by the sums, for want of a
    scale(). A reduction may need none: its terms may all be positive."""
    kind, reference = task.tolerance.kind, task.reference
    if kind is ToleranceClass.DOT and reference and load_reference(task).scale is None:
        yield (
            f'{task.reference}: has no scale(), so `kind = "{kind}"` divides errors by |expected| '
            "and refuses honest kernels where terms cancel; return the sum of the absolute values "
            "of the terms"
        )


def not_admitted(task: Task, verdict: Verdict) -> Admission:
    """Return why the baseline failed, on one line."""
    detail = ""
    match verdict:
        case InfraFailed():
            raise infrastructure_error(verdict)
        case WrongResult():
            unwritten = _unwritten(task, verdict)
            if unwritten:
                return Admission(problems=(unwritten,), checked={})
            other = "another call of it" if task.reference is None else task.reference.name
            detail = f"it and {other} disagree, either may be wrong: {_difference(task, verdict)}"
            detail += "".join(f"; {remedy}" for remedy in _tolerance_remedies(task, verdict))
        case _:
            detail = next(iter(describe(verdict)), "")
    return Admission(problems=(f"{task.baseline}: {verdict.code}: {detail}",), checked={})


def _unwritten(task: Task, verdict: WrongResult) -> str:
    """Return the line of a baseline that left elements of an output as they were; else nothing."""
    pattern = verdict.looks_like
    if pattern is None or pattern.kind is not ElementKind.UNWRITTEN or pattern.share is None:
        return ""
    count = f"{pattern.share:.2g} of the"
    if verdict.elements is not None:
        count = f"{round(pattern.share * verdict.elements):,} of {verdict.elements:,}"
    return (
        f"{task.baseline}: never wrote {count} elements of {verdict.buffer} at "
        f"{format_dims(verdict.dims) or 'a hidden size'}: is its shape in task.toml right?"
    )


def _difference(task: Task, verdict: WrongResult) -> str:
    where = format_dims(verdict.dims) or "a hidden size"
    units = ""
    if verdict.limit:
        units = f" ({describe_error(verdict)})"
    says = "the other call" if task.reference is None else "the reference"
    got, expected = verdict.numbers
    return (
        f"{verdict.buffer}{list(verdict.index)} is {got:.9g}, {says} says "
        f"{expected:.9g} at {where}, {verdict.distribution} inputs{units}"
    )


def _tolerance_remedies(task: Task, verdict: WrongResult) -> Iterator[str]:
    """Yield what to change in the task where the baseline may only round otherwise."""
    got, expected = verdict.numbers
    if not abs(got - expected) <= ROUNDED * max(abs(got), abs(expected)):
        return
    begin = "if it only rounds otherwise"
    tolerance = task.tolerance
    probes = {argument.probe for argument in task.arguments if argument.probe}
    if task.linear and probes & {*verdict.distribution.replace(",", " ").split()}:
        yield (
            "`linear = true` asks for exact results of whole numbers: remove it and every `probe` "
            "where whole inputs do not give whole outputs"
        )
    elif tolerance.kind is ToleranceClass.EXACT:
        yield f'{begin}, `kind = "exact"` is too strict: elementwise, or reduction or dot for sums'
    elif task.reference is None:
        linear = "" if task.linear else "`linear = true` where the outputs are, "
        yield f"{begin}: {linear}a reference.py with scale(), or a larger `max_units`"
    elif load_reference(task).scale is None:
        sums = tolerance.kind is not ToleranceClass.ELEMENTWISE
        kind = "" if sums else ', and `kind = "reduction"` or `"dot"` with `terms` where it sums'
        yield (
            f"{begin}, define scale() in {task.reference}: what an error is divided by, for a sum "
            f"that of the absolute values of its terms{kind}"
        )
    else:
        yield f"{begin}, scale() is too small, `terms` or `max_units` of [tolerance] are"
