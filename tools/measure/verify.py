"""After a batch: every output of every timed call, and everything it had to leave alone."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_llm.outcomes import GuardOverwritten, InputMutated, LateWrite, Verdict, WrongResult
from cuda_llm.tools.device.buffers import Array, Arrays, Role, Slots
from cuda_llm.tools.measure.slots import InputPlan, PreparedKernel, StagedBatch, draw_group
from cuda_llm.tools.validator.buffers import first_set
from cuda_llm.tools.validator.check_case import case_limits, compare_outputs, wrong_result
from cuda_llm.tools.validator.check_outputs import check_batch
from cuda_llm.tools.validator.columns import first_changed, gather
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.oracle import Expectation, Oracle
from cuda_llm.tools.validator.tolerances import ErrorLimits


async def verify_batch(
    kernel: PreparedKernel, staged: StagedBatch, oracle: Oracle
) -> Verdict | None:
    """The first thing that is not as it must be: inputs, outputs, late writes.

    Guards are looked at when all batches of a size are done, for what is written there stays, and
    before anything else is blamed.
    """
    fault = await find_fault(kernel, staged, oracle)
    return None if fault is None else find_overwritten(kernel) or fault


async def find_fault(kernel: PreparedKernel, staged: StagedBatch, oracle: Oracle) -> Verdict | None:
    """The same, whatever the guards hold."""
    for group in staged.groups:
        contents = draw_group(kernel.recipe, group)
        fault = find_mutated(kernel, group.slots, contents) or await find_wrong(
            kernel, group.slots, contents, oracle
        )
        if fault is not None:
            return fault
    late = kernel.session.find_late_write()
    return None if late is None else LateWrite(buffer=late)


def find_overwritten(kernel: PreparedKernel) -> GuardOverwritten | None:
    """A buffer of any slot outside of which a byte changed."""
    sides = [(name, side) for name in kernel.guards for side in ("before", "after")]
    changed = [
        (guards_of(kernel.slots, name, side) != written).any(axis=0)
        for name, both in kernel.guards.items()
        for side, written in zip(("before", "after"), both, strict=True)
    ]
    arrays = kernel.recipe.arrays
    at = first_set(arrays.xp.stack([one.any() for one in changed]), arrays) if changed else None
    if at is None:
        return None
    name, side = sides[at]
    places = np.flatnonzero(arrays.to_host(changed[at]))
    distance = int(places[0]) if side == "after" else changed[at].size - 1 - int(places[-1])
    return GuardOverwritten(buffer=name, side=side, offset_bytes=distance)


def guards_of(slots: Slots, name: str, side: str) -> Array:
    """The bytes on one side of a buffer, a row a slot."""
    buffer = slots.buffers[name]
    return buffer.guard_before if side == "before" else buffer.guard_after


def find_mutated(
    kernel: PreparedKernel, numbers: Sequence[int], contents: Mapping[str, Array]
) -> InputMutated | None:
    """An input that is not what was opened into it."""
    inputs = [spec.name for spec in kernel.recipe.specs if spec.role is Role.IN]
    pairs = [(kernel.slots.buffers[name].data, contents[name]) for name in inputs]
    at = first_changed(pairs, numbers, kernel.recipe.arrays)
    return None if at is None else InputMutated(buffer=inputs[at])


async def find_wrong(
    kernel: PreparedKernel, numbers: Sequence[int], contents: Mapping[str, Array], oracle: Oracle
) -> Verdict | None:
    """The first call of the group whose outputs are wrong: all at once, then one by one."""
    case, dims, task = kernel.recipe.case, kernel.recipe.dims, kernel.recipe.task
    outputs = outputs_of(kernel, numbers)
    if kernel.recipe.reference is not None:
        return find_wrong_by_reference(kernel.recipe, contents, outputs)
    expectations = []
    for position in range(len(numbers)):
        expectation = await oracle(call_part(contents, position), dims)
        if not isinstance(expectation, Expectation):
            return expectation
        expectations.append(expectation)
    arrays = kernel.recipe.arrays
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
    recipe: InputPlan, contents: Mapping[str, Array], outputs: Mapping[str, Array]
) -> WrongResult | None:
    """The same for a task with a reference, which may take many calls at once, or parts of one."""
    found = check_batch(
        recipe.task,
        recipe.case,
        contents,
        outputs,
        recipe.arrays,
        method=recipe.method,
        reference=recipe.reference,
    )
    return None if found is None else found[1]


def all_are_right(
    outputs: Mapping[str, Array],
    expectations: Sequence[Expectation],
    own: ErrorLimits,
    arrays: Arrays,
) -> bool:
    """Whether every call is right beyond doubt, in one comparison.

    The root mean square of one call is at most the largest error of all, and at most sqrt(n) times
    the root mean square over n calls. What fails here may still be right: it is looked at call by
    call.
    """
    if any(one.own_rule is not None for one in expectations):
        return False
    together = {
        name: Expected(
            arrays.xp.stack([one.values[name].value for one in expectations]),
            stacked(arrays.xp, [one.values[name].scale for one in expectations]),
        )
        for name in expectations[0].values
    }
    got = {name: outputs[name] for name in together}
    compared = compare_outputs(got, Expectation(together), own, arrays)
    return all(
        one.ok and min(one.max_units, math.sqrt(len(expectations)) * one.rms_units) <= own.rms_units
        for one in compared.values()
    )


def stacked(xp: Any, scales: Sequence[Array | None]) -> Array | None:
    """The scales of several calls; None where they have none."""
    known = [scale for scale in scales if scale is not None]
    return xp.stack(known) if known else None


def outputs_of(kernel: PreparedKernel, numbers: Sequence[int]) -> dict[str, Array]:
    """What these calls left, one index a call; late writes are looked for afterwards."""
    return {
        name: gather(buffer.data, numbers, kernel.recipe.arrays)
        for name, buffer in kernel.slots.buffers.items()
        if buffer.spec.role is not Role.IN
    }


def call_part(arrays: Mapping[str, Array], position: int) -> dict[str, Array]:
    """One call's part of what is there for many."""
    return {name: array[position, ...] for name, array in arrays.items()}
