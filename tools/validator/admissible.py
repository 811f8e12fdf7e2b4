"""Checks that a task distinguishes right kernels from wrong ones."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.outcomes import InfraFailed, Verdict, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device, Level, Session, Site
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.validator.budget import format_dims
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case, fresh_nonce, generator, timed_case
from cuda_llm.tools.validator.check_case import case_limits, draw_inputs
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Oracle,
    baseline_oracle,
    compare_outputs,
    reference_oracle,
)
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.wording import describe

TAIL = 32
"""Elements of the last tile that a kernel forgets, at most."""

ArraysByName = Mapping[str, Array]


def trivial_outputs(
    right: Array, inputs: Mapping[str, Array], poison: int, arrays: Arrays = HOST
) -> Iterator[tuple[str, Array]]:
    """Yield outputs that need no computation, each with its name in reports.

    Those that happen to equal `right`, as zeros for an empty histogram, are left out.
    """
    xp = arrays.xp
    candidates = [("zeros", xp.zeros_like(right)), ("one constant", _constant(right, arrays))]
    for name, given in inputs.items():
        places = xp.arange(right.size) % given.size
        copied = xp.take(given.reshape(-1), places).reshape(right.shape)
        candidates.append((f"a copy of {name}", copied.astype(right.dtype)))
    untouched = xp.full(right.nbytes, poison, np.uint8).view(right.dtype).reshape(right.shape)
    candidates.append(("nothing", untouched))
    candidates.append(("all but the last tile", _without_tail(right, untouched)))
    for name, output in candidates:
        if not arrays.number(xp.array_equal(output, right, equal_nan=right.dtype.kind == "f")):
            yield name, output


def _constant(right: Array, arrays: Arrays) -> Array:
    """Return the constant with the least squared error: the best guess without computation."""
    mean = arrays.number(arrays.xp.mean(right, dtype=np.float64))
    if right.size == 1:
        mean = mean * 1.5 + 1.0
    return arrays.xp.full_like(right, round(mean) if right.dtype.kind in "iu" else mean)


def _without_tail(right: Array, untouched: Array) -> Array:
    output = right.copy()
    begin = right.size - min(TAIL, -(-right.size // 4))
    output.reshape(-1)[begin:] = untouched.reshape(-1)[begin:]
    return output


async def find_problems(
    task: Task, oracle: Oracle, nonce: bytes | None = None, arrays: Arrays = HOST
) -> AsyncIterator[str]:
    """Yield a line for each way in which a wrong kernel could pass. Raises TaskError."""
    nonce = fresh_nonce() if nonce is None else nonce
    rounding_passes = True
    for number, dims in enumerate((*task.sizes.edge, *task.sizes.emulated)):
        case = timed_case(task, dims, Level.CHECK)
        rng = generator(nonce, task.name, "soundness", number, arrays)
        inputs = draw_inputs(task, case, rng, arrays)
        expectation = await oracle(inputs, dims)
        if not isinstance(expectation, Expectation):
            yield f"{format_dims(dims)}: the baseline ends in {expectation.code}"
            return
        for problem in _trivial_problems(task, case, inputs, expectation, arrays):
            yield problem
        rounding_passes = rounding_passes and await _half_precision_passes(
            task, case, inputs, expectation, oracle, arrays
        )
        if dims == task.sizes.emulated[-1]:
            async for problem in _unused_inputs(task, case, inputs, expectation, oracle, arrays):
                yield problem
    if rounding_passes:
        yield (
            "inputs rounded to half precision pass at every size, though the task asks for fp32; "
            "tighten the tolerance"
        )


def _trivial_problems(
    task: Task, case: Case, inputs: ArraysByName, expectation: Expectation, arrays: Arrays
) -> Iterator[str]:
    dtypes = {spec.name: spec.dtype for spec in buffer_specs(task, case.dims)}
    right, at = _stored(expectation.values, dtypes), format_dims(case.dims)
    for name, value in right.items():
        if not arrays.number(arrays.xp.isfinite(value).all()):
            yield f"{at}: the reference's {name} is not finite for {case.label} inputs"
            return
        for written, output in trivial_outputs(value, inputs, case.poison, arrays):
            if _passes(task, case, {**right, name: output}, expectation, arrays):
                yield (
                    f"{at}: a kernel that writes {written} into {name} passes; draw other "
                    "inputs first or tighten the tolerance"
                )


async def _unused_inputs(
    task: Task,
    case: Case,
    inputs: ArraysByName,
    expectation: Expectation,
    oracle: Oracle,
    arrays: Arrays,
) -> AsyncIterator[str]:
    """Yield a line for each input the result does not depend on."""
    dtypes = {spec.name: spec.dtype for spec in buffer_specs(task, case.dims)}
    rng = generator(fresh_nonce(), task.name, "soundness", 0, arrays)
    for name in inputs:
        other = {**inputs, name: draw_inputs(task, case, rng, arrays)[name]}
        changed = await oracle(other, case.dims)
        if isinstance(changed, Expectation) and _passes(
            task, case, _stored(changed.values, dtypes), expectation, arrays
        ):
            yield f"{format_dims(case.dims)}: the result does not depend on {name}"


async def _half_precision_passes(
    task: Task,
    case: Case,
    inputs: ArraysByName,
    expectation: Expectation,
    oracle: Oracle,
    arrays: Arrays,
) -> bool:
    """Return whether a kernel that rounds its float32 inputs to half precision would pass."""
    dtypes = {spec.name: spec.dtype for spec in buffer_specs(task, case.dims)}
    floats = [name for name, array in inputs.items() if array.dtype == np.float32]
    float_outputs = all(np.dtype(dtypes[name]).kind == "f" for name in expectation.values)
    if task.tolerance.precision != "fp32" or not floats or not float_outputs:
        return False
    with np.errstate(over="ignore"):
        rounded = {name: inputs[name].astype(np.float16).astype(np.float32) for name in floats}
    result = await oracle({**inputs, **rounded}, case.dims)
    return isinstance(result, Expectation) and _passes(
        task, case, _stored(result.values, dtypes), expectation, arrays
    )


def _passes(
    task: Task, case: Case, outputs: ArraysByName, expectation: Expectation, arrays: Arrays
) -> bool:
    own = case_limits(task, case, expectation.values, arrays)
    return all(one.ok for one in compare_outputs(outputs, expectation, own, arrays).values())


def _stored(values: Mapping[str, Expected], dtypes: Mapping[str, str]) -> dict[str, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: one.value.astype(dtypes[name]) for name, one in values.items()}


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What the check of a task found."""

    problems: tuple[str, ...]
    """One line each: what is wrong, and where."""
    checked: Mapping[str, int]
    """What the baseline was compared on, as counts; empty where it did not pass."""

    @property
    def ok(self) -> bool:
        """Return whether the task is admissible."""
        return not self.problems


async def check_task(task: Task, device: Device) -> Admission:
    """Check that a task is admissible, and list why it is not.

    The baseline must pass all that a candidate has to; outputs that need no computation must be
    rejected; the result must depend on every input. Raises InfrastructureError.
    """
    from cuda_llm.tools.compiler.compile import baseline_request, compile_candidate

    compiled = await compile_candidate(baseline_request(task, device.target))
    if not isinstance(compiled, Compiled):
        return _not_admitted(task, compiled)
    return await device.carry_out(check_at_site, task, compiled)


async def check_at_site(site: Site, task: Task, compiled: Compiled) -> Admission:
    """Check a task where its device is, with its baseline compiled."""
    async with site.open(compiled) as session, site.open(compiled) as second:
        if not isinstance(session, Session):
            return _not_admitted(task, session)
        if not isinstance(second, Session):
            return _not_admitted(task, second)
        return await check_sessions(task, session, second, site.arrays)


async def check_sessions(
    task: Task, session: Session, second: Session, arrays: Arrays = HOST
) -> Admission:
    """Check a task with its baseline loaded twice: `second` is the oracle without a reference."""
    try:
        oracle = (
            baseline_oracle(task, second, arrays)
            if task.reference is None
            else reference_oracle(task, arrays)
        )
        result = await validate(task, session, arrays=arrays, oracle=oracle)
        problems = [problem async for problem in find_problems(task, oracle, arrays=arrays)]
    except TaskError as error:
        return Admission(problems=(str(error),), checked={})
    if not isinstance(result, Validated):
        failed = _not_admitted(task, result)
        return Admission(problems=(*failed.problems, *problems), checked={})
    return Admission(problems=tuple(problems), checked=result.checked)


def _not_admitted(task: Task, verdict: Verdict) -> Admission:
    """Return why the baseline did not pass, on one line."""
    detail = ""
    match verdict:
        case InfraFailed(component=component, detail=detail):
            raise InfrastructureError(component, detail)
        case WrongResult():
            where = format_dims(verdict.dims)
            detail = (
                f"{verdict.buffer}{list(verdict.index)} is {verdict.got:.9g}, the reference says "
                f"{verdict.expected:.9g} at {where or 'a hidden size'}, {verdict.distribution} "
                f"inputs ({verdict.error:.3g} rounding units, limit {verdict.limit:.3g})"
            )
        case _:
            detail = next(iter(describe(verdict)), "")
    return Admission(problems=(f"{task.baseline}: {verdict.code}: {detail}",), checked={})
