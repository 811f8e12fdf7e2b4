"""Before a batch: contents that nobody has seen, sealed until their call begins."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.tools.arrays import Array
from cuda_llm.tools.judge.measured.contents import Group, draw_group, in_groups
from cuda_llm.tools.judge.measured.lane import KEY_BYTES, SEED_BITS, Lane, poison_outputs
from cuda_llm.tools.validator.cases import POISONS


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A batch that can be run, and how to draw its inputs once more."""

    order: tuple[int, ...]
    key: bytes
    keys: tuple[bytes, ...] = ()
    """One for each call, where they are handed out step by step."""
    groups: tuple[Group, ...] = ()
    """None where the contents are not the candidate's to answer for."""


def stage(kernel: Lane, order: Sequence[int], *, stepwise: bool = False) -> Staged:
    """Seal fresh contents into the slots of `order`; a trusted kernel keeps what it has.

    `stepwise`: each call under a key of its own. Then a trusted kernel gets fresh contents too, so
    that the referee has done the same before every batch: their constants are compared.

    Outputs are poisoned in either: a batch begins later where the GPU has just worked for the
    referee, and that must be the same for all that are compared. The plain contents are not kept,
    for the memory they would take: they are drawn again from the groups' seeds when the outputs
    are looked at.
    """
    poison_outputs(kernel.recipe, kernel.slots, order, secrets.choice(POISONS))
    if kernel.trusted and not stepwise:
        return Staged(order=tuple(order), key=kernel.key)
    key = new_key(kernel)
    keys = {slot: new_key(kernel) for slot in order} if stepwise else {}
    groups = []
    for numbers in in_groups(kernel.recipe, order):
        group = Group(slots=numbers, seed=secrets.randbits(SEED_BITS))
        contents = draw_group(kernel.recipe, group)
        if stepwise:
            seal_apart(kernel, numbers, keys, contents)
        else:
            kernel.session.seal(numbers, key, contents)
        groups.append(group)
    return Staged(order=tuple(order), key=key, keys=tuple(keys.values()), groups=tuple(groups))


def seal_apart(
    kernel: Lane, slots: Sequence[int], keys: Mapping[int, bytes], contents: Mapping[str, Array]
) -> None:
    """Each slot under its own key."""
    for row, slot in enumerate(slots):
        own = {name: drawn[row : row + 1] for name, drawn in contents.items()}
        kernel.session.seal([slot], keys[slot], own)


def new_key(kernel: Lane) -> bytes:
    """A trusted kernel's stays: all of its contents are sealed under that."""
    return kernel.key if kernel.trusted else secrets.token_bytes(KEY_BYTES)
