"""Plans how many calls a batch may have, on how many slots, and the memory that slots take."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import SCRATCH_BYTES, TimedSession
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.validator.budget import MemoryPlan, SizePlan, buffer_bytes
from cuda_llm.tools.validator.buffers import buffer_specs

LAID_OUT_BYTES = MappingProxyType({tier: 1 << (30 if tier is Tier.SCREEN else 32) for tier in Tier})
"""Bytes of inputs in all slots together, unless four calls need more. Memory speed depends by one
or two per cent on where in memory a slot lies; more slots level that."""
STAGED_BYTES = MappingProxyType(
    {Tier.SCREEN: 1 << 30, Tier.CONFIRM: 1 << 31, Tier.PRECISE: 1 << 32}
)
"""Bytes of inputs of one batch, which are drawn and compared anew: for large calls that takes many
times as long as the calls. A batch of fewer calls than there are slots uses other slots each time.
"""
FEWEST_STAGED = 4
MOST_SLOTS = 256


@dataclass(frozen=True, kw_only=True)
class BatchRoom:
    """The number of calls that a batch of one size may have, and the number of slots."""

    calls: int
    slots: int

    def slots_for(self, calls: int) -> int:
        """Return how many slots to lay out: all where the room of a batch was what limited it."""
        return self.slots if calls >= self.calls else calls


def room_for(task: Task, size: SizePlan, tier: Tier) -> BatchRoom:
    """Return how many calls and slots of a kernel are worth the time of filling them."""
    _, inputs, _ = buffer_bytes(task, size.dims)
    calls, slots = (
        min(size.slots, max(FEWEST_STAGED, most_bytes[tier] // max(1, inputs)))
        for most_bytes in (STAGED_BYTES, LAID_OUT_BYTES)
    )
    return BatchRoom(calls=calls, slots=slots)


async def reserve(
    sessions: Sequence[TimedSession],
    task: Task,
    plan: MemoryPlan,
    tier: Tier,
    *,
    allocates: bool = True,
) -> None:
    """Lay out what needs the most memory first: getting more later starts a runner anew.

    Kernels that never allocate get no more room for it than the least.
    """
    if not plan.sizes:
        return
    planned = [(size, scratch_of_runner(size, allocates=allocates)) for size in plan.sizes]
    largest, scratch = max(planned, key=lambda one: bytes_of_runner(task, one[0], one[1], tier))
    specs, count = buffer_specs(task, largest.dims), room_for(task, largest, tier).slots
    for session in sessions:
        await session.place_slots(specs, count, scratch_bytes=scratch)


def scratch_of_runner(size: SizePlan, *, allocates: bool) -> int:
    """Return the bytes that `solve` may allocate, at least SCRATCH_BYTES."""
    return max(SCRATCH_BYTES, size.scratch_bytes if allocates else 0)


def bytes_of_runner(task: Task, size: SizePlan, scratch_bytes: int, tier: Tier) -> int:
    """Return the bytes of all slots of a session, with those that `solve` may allocate."""
    buffers, sealed, _ = buffer_bytes(task, size.dims)
    return (buffers + sealed) * room_for(task, size, tier).slots + scratch_bytes
