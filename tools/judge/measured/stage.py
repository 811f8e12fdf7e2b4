"""Before a batch: contents that nobody has seen, sealed until their call begins."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_llm.tools.judge.measured.contents import Group, draw_group, in_groups
from cuda_llm.tools.judge.measured.lane import KEY_BYTES, SEED_BITS, Lane, poison_outputs
from cuda_llm.tools.validator.cases import POISONS


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A batch that can be run, and how to draw its inputs once more."""

    order: tuple[int, ...]
    key: bytes
    groups: tuple[Group, ...] = ()
    """None where the contents are not the candidate's to answer for."""


def stage(lane: Lane, order: Sequence[int], *, alike: bool = False) -> Staged:
    """Seal fresh contents into the slots of `order`; a trusted lane keeps what it has.

    `alike` gives a trusted lane fresh contents too, so that the referee has done the same before
    every batch, where their constants are compared.

    Outputs are poisoned in either: a batch begins later where the GPU has just worked for the
    referee, and that must be the same for all that are compared. The plain contents are not kept,
    for the memory they would take: they are drawn again from the groups' seeds when the outputs
    are looked at.
    """
    poison_outputs(lane.recipe, lane.slots, order, secrets.choice(POISONS))
    if lane.trusted and not alike:
        return Staged(order=tuple(order), key=lane.key)
    key = lane.key if lane.trusted else secrets.token_bytes(KEY_BYTES)
    groups = []
    for numbers in in_groups(lane.recipe, order):
        group = Group(slots=numbers, seed=secrets.randbits(SEED_BITS))
        lane.session.seal(numbers, key, draw_group(lane.recipe, group))
        groups.append(group)
    return Staged(order=tuple(order), key=key, groups=tuple(groups))
