"""One kernel laid out and captured at one size, ready for batches."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.arrays import Array
from cuda_llm.tools.buffers import Role, Slots
from cuda_llm.tools.device import TimeClass, TimedSession
from cuda_llm.tools.judge.measured.contents import Group, Recipe, draw_group, in_groups
from cuda_llm.tools.validator.cases import POISONS
from cuda_llm.tools.validator.columns import fill
from cuda_llm.tools.validator.layout import call_arguments, call_options

KEY_BYTES = 16
SEED_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A session with its slots, and what the referee put into them."""

    session: TimedSession
    recipe: Recipe
    slots: Slots
    trusted: bool
    """The baseline's: its batches need no fresh contents and no check."""
    time_class: TimeClass
    key: bytes
    """Of the contents that a trusted kernel keeps for all of its batches."""
    guards: Mapping[str, tuple[Array, Array]]
    """What lies before and after each buffer, in every slot; none of a trusted kernel."""

    @property
    def includes_host(self) -> bool:
        """Whether its batches are no graphs: their constant is another than that of empty ones."""
        return self.time_class is TimeClass.HOST_INCLUSIVE


async def lay_out(
    session: TimedSession, recipe: Recipe, count: int, *, trusted: bool, capture: bool = True
) -> Lane | Verdict:
    """Place, fill and capture `count` slots.

    Without `capture`, only batches that leave `solve` out can be run: the call that warms a slow
    kernel up is saved.
    """
    scratch_bytes = recipe.trusted_scratch_bytes if trusted else recipe.scratch_bytes
    slots = await session.place_slots(recipe.specs, count, scratch_bytes=scratch_bytes)
    guards = {} if trusted else write_guards(recipe, slots)
    key = secrets.token_bytes(KEY_BYTES)
    # A trusted kernel keeps what is sealed now, another gets new contents before each batch;
    # nothing is called before its inputs are opened, but the first slot, to warm up.
    for numbers in in_groups(recipe, range(count if trusted else 1)):
        contents = draw_group(recipe, Group(slots=numbers, seed=secrets.randbits(SEED_BITS)))
        if numbers[0] == 0:
            for name, drawn in contents.items():
                slots.buffers[name].data[0] = drawn[0]
        if trusted:
            session.seal(numbers, key, contents)
    poison_outputs(recipe, slots, range(count), POISONS[0])
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
    )


def write_guards(recipe: Recipe, slots: Slots) -> dict[str, tuple[Array, Array]]:
    """The same random bytes around the buffers of every slot."""
    rng = recipe.arrays.generator(secrets.randbits(SEED_BITS))
    written = {}
    for name, buffer in slots.buffers.items():
        before, after = (
            rng.integers(0, 256, guard.shape[1]).astype("uint8")
            for guard in (buffer.guard_before, buffer.guard_after)
        )
        buffer.guard_before[...] = before
        buffer.guard_after[...] = after
        written[name] = (before, after)
    return written


def poison_outputs(recipe: Recipe, slots: Slots, numbers: Sequence[int], poison: int) -> None:
    """What a call does not write must be seen not to be written."""
    outputs = [one.data for one in slots.buffers.values() if one.spec.role is Role.OUT]
    fill(outputs, numbers, poison, recipe.arrays)
