"""Which sizes are timed here, in how many slots, and how their outputs are compared."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import SCRATCH_BYTES, Site, TimedSession
from cuda_llm.tools.timing.tier import Tier
from cuda_llm.tools.validator.budget import Plan, SizePlan, buffer_bytes, plan_sizes
from cuda_llm.tools.validator.layout import buffer_specs

MEMORY_SHARE = 0.8
"""Of the GPU's memory that a measurement may plan with: contexts and pools take some too."""
STAGED_BYTES: Mapping[Tier, int] = MappingProxyType({Tier.SCREEN: 1 << 30, Tier.CONFIRM: 4 << 30})
"""Fresh inputs drawn for one batch, unless four calls need more: drawing takes time too. But how
fast memory is depends on where in it a slot lies, by a per cent or two, and more slots level that.
"""
FEWEST_STAGED = 4
MOST_SLOTS = 256


def plan_timing(site: Site, task: Task, *, runners: int = 2) -> Plan:
    """The bench sizes for which so many runners have room beside each other.

    Raises TaskError where the task's reference is broken.
    """
    return plan_sizes(
        task,
        task.sizes.bench,
        free_bytes=int(MEMORY_SHARE * memory_bytes(site)),
        hardware=site.hardware,
        arrays=site.arrays,
        lanes=runners,
        most_slots=MOST_SLOTS,
    )


def memory_bytes(site: Site) -> int:
    """Of the GPU that is there, or of its profile: what sessions keep for later counts as free."""
    cuda = getattr(site.arrays.xp, "cuda", None)
    return site.hardware.memory_bytes if cuda is None else int(cuda.runtime.memGetInfo()[1])


def most_slots(task: Task, size: SizePlan, tier: Tier) -> int:
    """Slots of a kernel that are worth the time of filling them."""
    _, inputs, _ = buffer_bytes(task, size.dims)
    return min(size.slots, max(FEWEST_STAGED, STAGED_BYTES[tier] // max(1, inputs)))


async def reserve(
    sessions: Sequence[TimedSession],
    task: Task,
    plan: Plan,
    tier: Tier,
    *,
    allocates: bool = True,
) -> None:
    """Lay out what needs the most memory first: getting more later starts a runner anew.

    What never `allocates` needs no more room for that than everyone has.
    """
    if not plan.sizes:
        return
    planned = [(size, scratch_of_lane(size, allocates=allocates)) for size in plan.sizes]
    largest, scratch = max(planned, key=lambda one: bytes_of_lane(task, one[0], one[1], tier))
    specs, count = buffer_specs(task, largest.dims), most_slots(task, largest, tier)
    for session in sessions:
        await session.place_slots(specs, count, scratch_bytes=scratch)


def scratch_of_lane(size: SizePlan, *, allocates: bool) -> int:
    """Room for what `solve` allocates: what the plan says, and never less than is usual."""
    return max(SCRATCH_BYTES, size.scratch_bytes if allocates else 0)


def bytes_of_lane(task: Task, size: SizePlan, scratch_bytes: int, tier: Tier) -> int:
    """All slots of a session, and the room for `solve`."""
    buffers, sealed, _ = buffer_bytes(task, size.dims)
    return (buffers + sealed) * most_slots(task, size, tier) + scratch_bytes
