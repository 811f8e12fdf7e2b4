"""Verifies timed calls: outputs of every call, inputs, guards, late writes."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_llm.outcomes import GuardOverwritten, InputMutated, LateWrite, Verdict, WrongResult
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.device.buffers import Array, Arrays, Role, Slots
from cuda_llm.tools.timing.slots import (
    SEED_BITS,
    InputPlan,
    PreparedKernel,
    SlotGroup,
    StagedBatch,
    draw_group,
)
from cuda_llm.tools.validator.buffers import (
    call_arguments,
    call_options,
    copy_outputs,
    fill,
    find_damage,
)
from cuda_llm.tools.validator.cases import POISONS
from cuda_llm.tools.validator.check_case import (
    NO_KERNEL,
    case_limits,
    ran_a_kernel,
    run_case,
    wrong_result,
)
from cuda_llm.tools.validator.check_outputs import check_batch, check_outputs
from cuda_llm.tools.validator.columns import first_changed, gather
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.fused import first_set
from cuda_llm.tools.validator.oracle import Expectation, Oracle, compare_outputs


async def verify_batch(
    kernel: PreparedKernel, staged: StagedBatch, oracle: Oracle
) -> Verdict | None:
    """Return the first fault of a batch: inputs, outputs, late writes.

    Guards are checked once all batches of a size are done, for what is written there stays, and
    before another fault is returned, which may follow from an overwritten guard.
    """
    fault = await find_fault(kernel, staged, oracle)
    return None if fault is None else find_overwritten(kernel) or fault


async def find_fault(kernel: PreparedKernel, staged: StagedBatch, oracle: Oracle) -> Verdict | None:
    """Return the first fault, whatever the guards hold."""
    for group in staged.groups:
        fault = await find_fault_of_group(kernel, group, oracle)
        if fault is not None:
            return fault
    late = kernel.session.find_late_write()
    return None if late is None else LateWrite(buffer=late)


async def find_fault_of_group(
    kernel: PreparedKernel, group: SlotGroup, oracle: Oracle
) -> Verdict | None:
    """Return the first fault of these calls; what is drawn again for it is gone afterwards."""
    contents = group.kept or draw_group(kernel.input_plan, group)
    return find_mutated(kernel, group.slots, contents) or await find_wrong(
        kernel, group.slots, contents, oracle
    )


def find_overwritten(kernel: PreparedKernel) -> GuardOverwritten | None:
    """Return the first buffer of any slot outside of which a byte changed."""
    sides = [(name, side) for name in kernel.guards for side in ("before", "after")]
    changed = [
        (guards_of(kernel.slots, name, side) != written).any(axis=0)
        for name, both in kernel.guards.items()
        for side, written in zip(("before", "after"), both, strict=True)
    ]
    arrays = kernel.input_plan.arrays
    at = first_set(arrays.xp.stack([one.any() for one in changed]), arrays) if changed else None
    if at is None:
        return None
    name, side = sides[at]
    places = np.flatnonzero(arrays.to_host(changed[at]))
    distance = int(places[0]) if side == "after" else changed[at].size - 1 - int(places[-1])
    return GuardOverwritten(buffer=name, side=side, offset_bytes=distance)


def guards_of(slots: Slots, name: str, side: str) -> Array:
    """Return the bytes on one side of a buffer, a row a slot."""
    buffer = slots.buffers[name]
    return buffer.guard_before if side == "before" else buffer.guard_after


def find_mutated(
    kernel: PreparedKernel, numbers: Sequence[int], contents: Mapping[str, Array]
) -> InputMutated | None:
    """Return an input that is not what was drawn for it."""
    inputs = [spec.name for spec in kernel.input_plan.specs if spec.role is Role.IN]
    pairs = [(kernel.slots.buffers[name].data, contents[name]) for name in inputs]
    at = first_changed(pairs, numbers, kernel.input_plan.arrays)
    return None if at is None else InputMutated(buffer=inputs[at])


async def find_wrong(
    kernel: PreparedKernel, numbers: Sequence[int], contents: Mapping[str, Array], oracle: Oracle
) -> Verdict | None:
    """Return the first call of the group with wrong outputs: all calls compared at once, then one
    by one."""
    case, dims, task = kernel.input_plan.case, kernel.input_plan.dims, kernel.input_plan.task
    outputs = outputs_of(kernel, numbers)
    if kernel.input_plan.reference is not None:
        return find_wrong_by_reference(kernel.input_plan, contents, outputs)
    expectations = []
    for position in range(len(numbers)):
        expectation = await oracle(call_part(contents, position), dims)
        if not isinstance(expectation, Expectation):
            return expectation
        expectations.append(expectation)
    arrays = kernel.input_plan.arrays
    own = case_limits(task, case, expectations[0].values, arrays)
    if len(numbers) > 1 and all_are_right(outputs, expectations, own, arrays):
        return None
    for position, expectation in enumerate(expectations):
        got = call_part(outputs, position)
        for name, comparison in compare_outputs(got, expectation, own, arrays).items():
            if not comparison.ok:
                inputs = call_part(contents, position)
                return wrong_result(case, name, got, expectation, own, inputs, arrays)
    return None


def find_wrong_by_reference(
    input_plan: InputPlan, contents: Mapping[str, Array], outputs: Mapping[str, Array]
) -> WrongResult | None:
    """Return the first call with wrong outputs, for a task whose reference takes many calls, or
    parts of a call."""
    found = check_batch(
        input_plan.task,
        input_plan.case,
        contents,
        outputs,
        input_plan.arrays,
        method=input_plan.method,
        reference=input_plan.reference,
    )
    return None if found is None else found[1]


def all_are_right(
    outputs: Mapping[str, Array],
    expectations: Sequence[Expectation],
    own: ErrorLimits,
    arrays: Arrays,
) -> bool:
    """Return whether every call is right by one comparison; if not, calls are compared alone."""
    if any(one.own_rule is not None for one in expectations):
        return False
    together = {
        name: Expected(
            arrays.xp.stack([one.values[name].value for one in expectations]),
            stacked(arrays.xp, [one.values[name].scale for one in expectations]),
            element=expectations[0].values[name].element,
        )
        for name in expectations[0].values
    }
    got = {name: outputs[name] for name in together}
    compared = compare_outputs(got, Expectation(together), own, arrays)
    return all(one.each_is_right(len(expectations), own) for one in compared.values())


def stacked(xp: Any, scales: Sequence[Array | None]) -> Array | None:
    """Stack the scales of several calls; None where they have none."""
    known = [scale for scale in scales if scale is not None]
    return xp.stack(known) if known else None


def outputs_of(kernel: PreparedKernel, numbers: Sequence[int]) -> dict[str, Array]:
    """Return the outputs of these calls, with the call as the first axis."""
    return {
        name: gather(buffer.data, numbers, kernel.input_plan.arrays)
        for name, buffer in kernel.slots.buffers.items()
        if buffer.spec.is_output
    }


def call_part(arrays: Mapping[str, Array], position: int) -> dict[str, Array]:
    """Return one call's part of arrays of many calls."""
    return {name: array[position, ...] for name, array in arrays.items()}


async def explain_call_once(
    session: Session, input_plan: InputPlan, oracle: Oracle
) -> CallReport | Verdict:
    """Call `solve` on fresh inputs, uncaptured; a report comes back only of a call that is right.

    Without a reference, the oracle judges. The launches are those that the runner claims: they
    explain a time, and no kernel is ranked by them.
    """
    task, dims, arrays = input_plan.task, input_plan.dims, input_plan.arrays
    if input_plan.reference is None:
        return await run_case(
            task, session, dims, level=Level.ACCOUNT, group="bench", oracle=oracle, arrays=arrays
        )
    drawn = draw_group(input_plan, SlotGroup(slots=(0,), seed=secrets.randbits(SEED_BITS)))
    inputs = {name: values[0] for name, values in drawn.items()}
    rng = arrays.generator(secrets.randbits(SEED_BITS))
    filled = fill(session.place(input_plan.specs), inputs, POISONS[0], rng)
    options = call_options(task, dims, level=Level.ACCOUNT)
    report = await session.call(call_arguments(task, dims), options)
    if not isinstance(report, CallReport):
        return report
    fault = find_damage(filled, arrays) or check_outputs(
        task,
        input_plan.case,
        inputs,
        copy_outputs(filled),
        arrays,
        method=input_plan.method,
        reference=input_plan.reference,
    )
    if fault is not None:
        return fault
    if not ran_a_kernel(report):
        return NO_KERNEL
    return report
