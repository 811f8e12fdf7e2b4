"""Whether an oracle and a tolerance together can tell right outputs from lazy ones."""

from collections.abc import AsyncIterator, Iterator, Mapping

import numpy as np

from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Array, Arrays
from cuda_llm.tools.device import Level
from cuda_llm.tools.validator.cases import Case, timed_case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.layout import Dims, buffer_specs
from cuda_llm.tools.validator.oracle import Expectation, Oracle
from cuda_llm.tools.validator.results import case_limits, compare_outputs
from cuda_llm.tools.validator.seeds import fresh_nonce, generator
from cuda_llm.tools.validator.trivial import trivial_outputs

Contents = Mapping[str, Array]


async def find_problems(
    task: Task, oracle: Oracle, nonce: bytes | None = None, arrays: Arrays = HOST
) -> AsyncIterator[str]:
    """One line for each way in which a wrong kernel could pass. Raises TaskError."""
    secret = fresh_nonce() if nonce is None else nonce
    rounding_passes = True
    for number, dims in enumerate((*task.sizes.edge, *task.sizes.emulated)):
        case = timed_case(task, dims, Level.CHECK)
        rng = generator(secret, task.name, "soundness", number, arrays)
        inputs = draw_inputs(task, case, rng, arrays)
        expectation = await oracle(inputs, dims)
        if not isinstance(expectation, Expectation):
            yield f"{_at(dims)}: the baseline ends in {expectation.code}"
            return
        for problem in _trivial_problems(task, case, inputs, expectation, arrays):
            yield problem
        rounding_passes = rounding_passes and await _short_inputs_pass(
            task, case, inputs, expectation, oracle, arrays
        )
        if dims == task.sizes.emulated[-1]:
            async for problem in _idle_inputs(task, case, inputs, expectation, oracle, arrays):
                yield problem
    if rounding_passes:
        yield (
            "inputs rounded to half precision pass at every size, though the task asks for fp32; "
            "tighten the tolerance"
        )


def _trivial_problems(
    task: Task, case: Case, inputs: Contents, expectation: Expectation, arrays: Arrays
) -> Iterator[str]:
    dtypes = {spec.name: spec.dtype for spec in buffer_specs(task, case.dims)}
    right = _stored(expectation.values, dtypes)
    for name, value in right.items():
        if not arrays.number(arrays.xp.isfinite(value).all()):
            yield f"{_at(case.dims)}: the reference's {name} is not finite for {case.label} inputs"
            return
        for lazy, output in trivial_outputs(value, inputs, case.poison, arrays):
            if _passes(task, case, {**right, name: output}, expectation, arrays):
                yield (
                    f"{_at(case.dims)}: a kernel that writes {lazy} into {name} passes; draw other "
                    "inputs first or tighten the tolerance"
                )


async def _idle_inputs(
    task: Task,
    case: Case,
    inputs: Contents,
    expectation: Expectation,
    oracle: Oracle,
    arrays: Arrays,
) -> AsyncIterator[str]:
    """Inputs the result does not depend on."""
    dtypes = {spec.name: spec.dtype for spec in buffer_specs(task, case.dims)}
    rng = generator(fresh_nonce(), task.name, "soundness", 0, arrays)
    for name in inputs:
        other = {**inputs, name: draw_inputs(task, case, rng, arrays)[name]}
        changed = await oracle(other, case.dims)
        if isinstance(changed, Expectation) and _passes(
            task, case, _stored(changed.values, dtypes), expectation, arrays
        ):
            yield f"{_at(case.dims)}: the result does not depend on {name}"


async def _short_inputs_pass(
    task: Task,
    case: Case,
    inputs: Contents,
    expectation: Expectation,
    oracle: Oracle,
    arrays: Arrays,
) -> bool:
    """Whether a kernel that rounds its float32 inputs to half precision would go unnoticed."""
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
    task: Task, case: Case, outputs: Contents, expectation: Expectation, arrays: Arrays
) -> bool:
    own = case_limits(task, case, expectation.values, arrays)
    return all(one.ok for one in compare_outputs(outputs, expectation, own, arrays).values())


def _stored(values: Mapping[str, Expected], dtypes: Mapping[str, str]) -> dict[str, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: one.value.astype(dtypes[name]) for name, one in values.items()}


def _at(dims: Dims) -> str:
    return " ".join(f"{name}={extent:,}" for name, extent in dims.items())
