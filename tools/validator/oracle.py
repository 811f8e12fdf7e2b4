"""Computes expected values, by the task's reference or the user's own kernel, and compares."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.element_types import ElementType
from cuda_llm.tasks.reference import Dims, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device import CallReport, Session
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.validator.buffers import (
    buffer_specs,
    call_arguments,
    call_options,
    output_types,
)
from cuda_llm.tools.validator.compare import Expected, OutputComparison, compare

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class Expectation:
    """Expected outputs of one call."""

    values: Mapping[str, Expected]
    own_rule: Callable[[Mapping[str, Array]], Mapping[str, Array]] | None = None
    """The task's comparator: outputs to the error of each element in rounding units."""


Oracle = Callable[[Inputs, Dims], Awaitable[Expectation | Verdict]]


def reference_oracle(task: Task, arrays: Arrays = HOST) -> Oracle:
    """Return an oracle that runs the task's reference.py. Raises TaskError where it is broken."""
    reference, xp, types = load_reference(task), arrays.xp, output_types(task)

    async def expected(inputs: Inputs, dims: Dims) -> Expectation:
        with one_blas_thread():
            values = reference.compute(xp, inputs, dims)
            scales = {} if reference.scale is None else reference.scale(xp, inputs, dims)
        comparator = reference.comparator
        return Expectation(
            {
                name: Expected(value, scales.get(name), element=types[name])
                for name, value in values.items()
            },
            None if comparator is None else lambda got: comparator(xp, got, inputs, dims),
        )

    return expected


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS products of the host on the calling thread.

    Emulated devices and compilers keep all cores busy; waiting BLAS threads there took up to four
    times the processor time of one thread, and longer.
    """
    with _blas().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _blas() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def baseline_oracle(task: Task, session: Session, arrays: Arrays = HOST) -> Oracle:
    """Return an oracle that runs the baseline kernel, loaded in a session of its own.

    Errors are measured against its results on the inputs' magnitudes where the task is linear,
    else against the larger of the value and the output's root mean square.
    """
    types = task.element_types

    async def run(inputs: Inputs, dims: Dims) -> dict[str, Array] | Verdict:
        placed = session.place(buffer_specs(task, dims))
        for name, buffer in placed.items():
            buffer.data[...] = inputs.get(name, 0)
        report = await session.call(call_arguments(task, dims), call_options(task, dims))
        if not isinstance(report, CallReport):
            return report
        return {
            name: wide_numbers(buffer.data, types[name], arrays.xp)
            for name, buffer in placed.items()
            if buffer.spec.is_output
        }

    async def expected(inputs: Inputs, dims: Dims) -> Expectation | Verdict:
        values = await run(inputs, dims)
        if not isinstance(values, dict):
            return values
        if not task.linear:
            return Expectation(
                {
                    name: Expected(value, _spread(value, arrays.xp), element=types[name])
                    for name, value in values.items()
                }
            )
        magnitudes = {
            name: types[name].encode(arrays.xp.abs(types[name].decode(one, arrays.xp)), arrays.xp)
            for name, one in inputs.items()
        }
        scales = await run(magnitudes, dims)
        if not isinstance(scales, dict):
            return scales
        return Expectation(
            {
                name: Expected(value, arrays.xp.abs(scales[name]), element=types[name])
                for name, value in values.items()
            }
        )

    return expected


def wide_numbers(stored: Array, element: ElementType, xp: Any) -> Array:
    """Return stored elements as float64 or complex128, or whole numbers and bools as int64."""
    return element.decode(stored, xp).astype(element.wide)


def _spread(value: Array, xp: Any) -> Array:
    finite = xp.abs(xp.where(xp.isfinite(value), value, 0.0))
    return xp.maximum(finite, xp.sqrt(xp.mean(xp.square(finite))))


def with_own_units(
    outputs: Mapping[str, Array], expectation: Expectation
) -> Mapping[str, Expected]:
    """Return the expectation in the units of the task's comparator, where the task has one."""
    if expectation.own_rule is None:
        return expectation.values
    units = expectation.own_rule(outputs)
    return {
        name: replace(expected, units=units[name]) for name, expected in expectation.values.items()
    }


def compare_outputs(
    outputs: Mapping[str, Array],
    expectation: Expectation,
    own: ErrorLimits,
    arrays: Arrays = HOST,
) -> dict[str, OutputComparison]:
    """Compare every output, by the task's comparator where the task has one."""
    return {
        name: compare(outputs[name], expected, own, arrays)
        for name, expected in with_own_units(outputs, expectation).items()
    }
