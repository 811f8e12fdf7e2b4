"""The check that is published with a task, made on kernels that fail ours, to know which wrong
kernels the published check accepts.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import accumulate

import numpy as np

from cuda_llm.outcomes import (
    Duplicate,
    EmulatorUnsupported,
    InfraFailed,
    Passed,
    PublishedCheck,
    TimedOut,
    Verdict,
)
from cuda_llm.tasks.reference import Dims, load_reference
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session, Site
from cuda_llm.tools.device.buffers import HOST, Array, Arrays
from cuda_llm.tools.device.candidate import Baseline, Compiled
from cuda_llm.tools.timing.measurement import open_oracle
from cuda_llm.tools.validator.budget import reference_cost
from cuda_llm.tools.validator.buffers import (
    buffer_specs,
    call_arguments,
    call_options,
    output_types,
)
from cuda_llm.tools.validator.cases import case_generator, timed_case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.oracle import (
    Expectation,
    Inputs,
    Oracle,
    one_blas_thread,
    wide_numbers,
)
from cuda_llm.tools.validator.parts import OutputPart, parts

LIMIT_S = 2.0
"""Longest seconds of the references of all sizes: the kernel has failed already."""
FIXED_SEED = b"published"
"""Seed of the inputs: those of the published check are the same in every run, too."""


def known_answer(task: Task, verdict: Verdict) -> PublishedCheck | None:
    """Return what the published check says of a kernel, where our own verdict decides that; None
    where a call of the kernel has to show it, where the kernel did not compile or is not to
    blame."""
    if task.published is None:
        return None
    tolerance = task.published.absolute_tolerance
    if isinstance(verdict, Passed):
        # Ours bounds the error of every element by rounding units, on these inputs among others.
        return PublishedCheck(accepts=True, basis="passed ours", absolute_tolerance=tolerance)
    if isinstance(verdict, TimedOut):
        detail = "a call did not come back"
        return PublishedCheck(
            accepts=False, basis="never ended", absolute_tolerance=tolerance, detail=detail
        )
    return None


def needs_a_call(task: Task, verdict: Verdict) -> bool:
    """Return whether the published check has to be made: the kernel itself failed ours."""
    unknown = (Passed, TimedOut, Duplicate, EmulatorUnsupported, InfraFailed)
    return task.published is not None and not isinstance(verdict, unknown)


async def make_published_check(
    site: Site, task: Task, compiled: Compiled, baseline: Baseline
) -> PublishedCheck | None:
    """Make the published check of a task that has one; None where memory does not hold its sizes.

    A call that ends in a fault is a refusal, too. Sizes whose float64 references take longer than
    LIMIT_S together are left out.
    """
    assert task.published is not None, "asked of tasks of the benchmark only"
    tolerance = task.published.absolute_tolerance
    whole = site.capabilities.bench_sizes and not site.capabilities.samples
    group, sizes = ("bench", task.sizes.bench) if whole else ("emulated", task.sizes.emulated)
    if whole and task.reference is not None:
        reference = load_reference(task)
        seconds = [reference_cost(task, dims, reference, site.hardware)[0] for dims in sizes]
        totals = accumulate(seconds)
        sizes = tuple(dims for dims, total in zip(sizes, totals, strict=True) if total <= LIMIT_S)
    try:
        refusal = await _find_refusal(site, task, compiled, baseline, group, sizes)
    except MemoryError:
        return None
    return PublishedCheck(
        accepts=not refusal,
        basis="executed",
        sizes=group,
        left_out=len(getattr(task.sizes, group)) - len(sizes),
        absolute_tolerance=tolerance,
        detail=refusal,
    )


async def _find_refusal(
    site: Site,
    task: Task,
    compiled: Compiled,
    baseline: Baseline,
    group: str,
    sizes: Sequence[Dims],
) -> str:
    """Return why the first size that is not accepted is refused; empty where all are accepted."""
    assert task.published is not None, "asked of tasks of the benchmark only"
    tolerance, types = task.published.absolute_tolerance, output_types(task)
    async with open_oracle(task, site, baseline) as oracle, site.open(compiled) as session:
        if not isinstance(session, Session):
            return session.code
        for number, dims in enumerate(sizes):
            case = timed_case(task, dims, Level.CHECK, group)
            rng = case_generator(FIXED_SEED, task, number, site.arrays)
            inputs = draw_inputs(task, case, rng, site.arrays)
            placed = session.place(buffer_specs(task, dims))
            for name, buffer in placed.items():
                buffer.data[...] = inputs.get(name, 0)
            report = await session.call(call_arguments(task, dims), call_options(task, dims))
            size = ", ".join(f"{name} = {extent:,}" for name, extent in dims.items())
            if not isinstance(report, CallReport):
                return f"{report.code} at {size}"
            got = {name: one.data for name, one in placed.items() if one.spec.is_output}
            async for name, expected, part in _expected_parts(task, site, oracle, inputs, dims):
                numbers = wide_numbers(part.of(got)[name], types[name], site.arrays.xp)
                if beyond(numbers, expected, tolerance, site.arrays):
                    return f"{name} is off by more than {tolerance:g} at {size}"
    return ""


async def _expected_parts(
    task: Task, site: Site, oracle: Oracle, inputs: Inputs, dims: Dims
) -> AsyncIterator[tuple[str, Array, OutputPart]]:
    """Yield name, expected values and part of each output, in parts that memory holds."""
    arrays = site.arrays
    if task.reference is None:
        expected = await oracle(inputs, dims)
        values = expected.values if isinstance(expected, Expectation) else {}
        for name, one in values.items():
            yield name, one.value, OutputPart(dims=dims, axes={})
        return
    reference = load_reference(task)
    for part in parts(task, dims, reference, arrays.part_bytes):
        with one_blas_thread():
            computed = reference.compute(arrays.xp, part.of(inputs), part.dims)
        for name, value in computed.items():
            yield name, value, part


def beyond(got: Array, expected: Array, tolerance: float, arrays: Arrays = HOST) -> bool:
    """Return whether an element differs from its expected value by more than `tolerance`; a NaN
    does not count."""
    xp = arrays.xp
    with np.errstate(invalid="ignore", over="ignore"):
        far = xp.abs(got.astype(xp.float64) - expected) > tolerance
    return bool(arrays.number(far.any()))
