"""After a batch: every output of every timed call, and everything it had to leave alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cuda_llm.outcomes import GuardOverwritten, InputMutated, LateWrite, Verdict, WrongResult
from cuda_llm.tools.arrays import Array
from cuda_llm.tools.device import Role, Slot
from cuda_llm.tools.judge.measured.contents import draw_group
from cuda_llm.tools.judge.measured.lane import Lane
from cuda_llm.tools.judge.measured.stage import Staged
from cuda_llm.tools.validator.check_outputs import Method, check_outputs
from cuda_llm.tools.validator.compare import Expected
from cuda_llm.tools.validator.oracle import Expectation, Oracle
from cuda_llm.tools.validator.results import case_limits, compare_outputs, wrong_result
from cuda_llm.tools.validator.tolerances import Limits


async def verify(lane: Lane, staged: Staged, oracle: Oracle) -> Verdict | None:
    """The first thing that is not as it must be: guards, inputs, outputs, late writes."""
    damage = find_overwritten(lane, staged.order)
    if damage is not None:
        return damage
    for group in staged.groups:
        contents = draw_group(lane.recipe, group)
        slots = [lane.slots[number] for number in group.slots]
        fault = find_mutated(lane, slots, contents) or await find_wrong(
            lane, slots, contents, oracle
        )
        if fault is not None:
            return fault
    late = lane.session.find_late_write()
    return None if late is None else LateWrite(buffer=late)


def find_overwritten(lane: Lane, order: Sequence[int]) -> GuardOverwritten | None:
    """The first byte outside of a buffer that changed."""
    xp = lane.recipe.arrays.xp
    slots = [lane.slots[number] for number in order]
    for name, (before, after) in lane.guards.items():
        sides = {
            "before": ([slot.buffers[name].guard_before for slot in slots], before),
            "after": ([slot.buffers[name].guard_after for slot in slots], after),
        }
        for side, (guards, written) in sides.items():
            changed = xp.stack(guards) != written
            if bool(changed.any()):
                places = lane.recipe.arrays.to_host(changed.any(axis=0)).nonzero()[0]
                first = int(places[0])
                distance = first if side == "after" else written.size - 1 - int(places[-1])
                return GuardOverwritten(buffer=name, side=side, offset_bytes=distance)
    return None


def find_mutated(
    lane: Lane, slots: Sequence[Slot], contents: Mapping[str, Array]
) -> InputMutated | None:
    """An input that is not what was opened into it."""
    xp = lane.recipe.arrays.xp
    for spec in lane.recipe.specs:
        if spec.role is not Role.IN:
            continue
        now = xp.stack([slot.buffers[spec.name].data for slot in slots])
        if bool((as_bytes(now) != as_bytes(contents[spec.name])).any()):
            return InputMutated(buffer=spec.name)
    return None


async def find_wrong(
    lane: Lane, slots: Sequence[Slot], contents: Mapping[str, Array], oracle: Oracle
) -> Verdict | None:
    """The first call of the group whose outputs are wrong: all at once, then one by one.

    A call so large that it is a group of its own is compared part by part, where its task can be.
    """
    case, dims, task = lane.recipe.case, lane.recipe.dims, lane.recipe.task
    if lane.recipe.reference is not None and (len(slots) == 1 or projected(lane)):
        return find_wrong_singly(lane, slots, contents)
    expectations = []
    for position in range(len(slots)):
        inputs = {name: drawn[position] for name, drawn in contents.items()}
        expectation = await oracle(inputs, dims)
        if not isinstance(expectation, Expectation):
            return expectation
        expectations.append((slots[position], inputs, expectation))
    first = expectations[0][2]
    arrays = lane.recipe.arrays
    own = case_limits(task, case, first.values, arrays)
    if len(slots) > 1 and all_right(lane, slots, [one for _, _, one in expectations], own):
        return None
    for slot, inputs, expectation in expectations:
        outputs = outputs_of(slot)
        for name, comparison in compare_outputs(outputs, expectation, own, arrays).items():
            if not comparison.ok:
                return wrong_result(case, name, outputs, expectation, own, inputs, arrays)
    return None


def projected(lane: Lane) -> bool:
    """Whether the float64 reference would take too long."""
    return lane.recipe.method is Method.PROJECTED


def find_wrong_singly(
    lane: Lane, slots: Sequence[Slot], contents: Mapping[str, Array]
) -> WrongResult | None:
    """The same for large calls."""
    recipe = lane.recipe
    for position, slot in enumerate(slots):
        wrong = check_outputs(
            recipe.task,
            recipe.case,
            {name: drawn[position] for name, drawn in contents.items()},
            outputs_of(slot),
            recipe.arrays,
            method=recipe.method,
            reference=recipe.reference,
        )
        if wrong is not None:
            return wrong
    return None


def all_right(
    lane: Lane, slots: Sequence[Slot], expectations: Sequence[Expectation], own: Limits
) -> bool:
    """Whether every call is right beyond doubt, in one comparison.

    The root mean square over n calls bounds that of each by sqrt(n) times itself. What fails here
    may still be right: it is looked at call by call.
    """
    xp = lane.recipe.arrays.xp
    if any(one.own_rule is not None for one in expectations):
        return False
    strict = replace(own, rms_units=own.rms_units / math.sqrt(len(slots)))
    together = {
        name: Expected(
            xp.stack([one.values[name].value for one in expectations]),
            stacked(xp, [one.values[name].scale for one in expectations]),
        )
        for name in expectations[0].values
    }
    outputs = {name: xp.stack([slot.buffers[name].data for slot in slots]) for name in together}
    compared = compare_outputs(outputs, Expectation(together), strict, lane.recipe.arrays)
    return all(comparison.ok for comparison in compared.values())


def stacked(xp: Any, scales: Sequence[Array | None]) -> Array | None:
    """The scales of several calls; None where they have none."""
    known = [scale for scale in scales if scale is not None]
    return xp.stack(known) if known else None


def outputs_of(slot: Slot) -> dict[str, Array]:
    """As they lie; nothing of the candidate's runs, and late writes are looked for afterwards."""
    return {
        name: buffer.data
        for name, buffer in slot.buffers.items()
        if buffer.spec.role is not Role.IN
    }


def as_bytes(array: Array) -> Array:
    """A flat view of a contiguous array's bytes."""
    return array.reshape(-1).view("uint8")
