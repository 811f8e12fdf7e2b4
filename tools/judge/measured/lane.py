"""One kernel laid out and captured at one size, ready for batches."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.arrays import Array
from cuda_llm.tools.device import Role, Slot, TimeClass, TimedSession
from cuda_llm.tools.judge.measured.contents import Group, Recipe, draw_group, in_groups
from cuda_llm.tools.validator.cases import POISONS
from cuda_llm.tools.validator.layout import call_arguments, call_options

KEY_BYTES = 16
SEED_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A session with its slots, and what the referee put into them."""

    session: TimedSession
    recipe: Recipe
    slots: tuple[Slot, ...]
    trusted: bool
    """The baseline's: its batches need no fresh contents and no check."""
    time_class: TimeClass
    key: bytes
    """Of the contents that a trusted lane keeps for all of its batches."""
    guards: Mapping[str, tuple[Array, Array]]
    """What lies before and after each buffer, in every slot; none are watched of a trusted lane."""
    outputs: tuple[tuple[Array, ...], ...]
    """Bytes of what each slot's call writes alone: views are made once, for making them costs as
    much as filling them."""


async def lay_out(
    session: TimedSession, recipe: Recipe, count: int, *, trusted: bool, capture: bool = True
) -> Lane | Verdict:
    """Place, fill and capture `count` slots.

    Without `capture`, only batches that leave `solve` out can be run: the call that warms a slow
    kernel up is saved.
    """
    slots = session.place_slots(recipe.specs, count)
    guards = {} if trusted else write_guards(recipe, slots)
    key = secrets.token_bytes(KEY_BYTES)
    for numbers in in_groups(recipe, range(count)):
        contents = draw_group(recipe, Group(slots=numbers, seed=secrets.randbits(SEED_BITS)))
        for position, number in enumerate(numbers):
            own = {name: drawn[position] for name, drawn in contents.items()}
            for name, values in own.items():
                slots[number].buffers[name].data[...] = values
            session.seal(number, key, own)
    outputs = tuple(output_bytes(slot) for slot in slots)
    poison_outputs(outputs, POISONS[0])
    time_class: TimeClass | Verdict = TimeClass.DEVICE
    if capture:
        options = call_options(recipe.task, recipe.dims)
        time_class = await session.capture(call_arguments(recipe.task, recipe.dims), options)
    if not isinstance(time_class, TimeClass):
        return time_class
    return Lane(
        session=session,
        recipe=recipe,
        slots=slots,
        trusted=trusted,
        time_class=time_class,
        key=key,
        guards=guards,
        outputs=outputs,
    )


def write_guards(recipe: Recipe, slots: Sequence[Slot]) -> dict[str, tuple[Array, Array]]:
    """The same random bytes around the buffers of every slot."""
    rng = recipe.arrays.generator(secrets.randbits(SEED_BITS))
    written = {}
    for name, buffer in slots[0].buffers.items():
        before, after = (
            rng.integers(0, 256, guard.size).astype("uint8")
            for guard in (buffer.guard_before, buffer.guard_after)
        )
        for slot in slots:
            slot.buffers[name].guard_before[...] = before
            slot.buffers[name].guard_after[...] = after
        written[name] = (before, after)
    return written


def output_bytes(slot: Slot) -> tuple[Array, ...]:
    """Views of the buffers that hold nothing before the call."""
    return tuple(
        buffer.data.reshape(-1).view("uint8")
        for buffer in slot.buffers.values()
        if buffer.spec.role is Role.OUT
    )


def poison_outputs(outputs: Sequence[Sequence[Array]], poison: int) -> None:
    """What a call does not write must be seen not to be written."""
    for of_slot in outputs:
        for written in of_slot:
            written[...] = poison
