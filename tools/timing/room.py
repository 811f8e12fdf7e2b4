"""Plans which sizes a measurement has memory for, and frees memory where it lacks."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from cuda_llm.errors import NoMemory, describe_error, lacks_memory
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, OutOfMemory
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Site, opening_bytes
from cuda_llm.tools.timing.batch_room import MOST_SLOTS
from cuda_llm.tools.validator.budget import MemoryPlan, plan_sizes

_log = Log(__name__)
T = TypeVar("T")

MEMORY_SHARES = (0.88, 0.7, 0.55, 0.4)
"""Shares of the GPU's memory that a measurement may plan with, in the order tried: contexts and
pools take memory too."""
SPARE_SHARE = 0.08
"""Share of the planned memory that is kept from whoever takes all that is left: scratch, and
further slots."""


def memory_bytes(site: Site) -> int:
    """Return the memory of the GPU, or of its profile; what sessions reserve counts as free."""
    cuda = getattr(site.arrays.xp, "cuda", None)
    return site.hardware.memory_bytes if cuda is None else int(cuda.runtime.memGetInfo()[1])


def planned_bytes(site: Site, task: Task) -> int:
    """Return the memory that work on this task may plan with."""
    return int(site.shares.get(task.name, MEMORY_SHARES[0]) * memory_bytes(site))


def plan_timing(site: Site, task: Task, *, runners: int = 2, libraries: int = 0) -> MemoryPlan:
    """Plan the bench sizes for which so many runners have room beside each other.

    `libraries` of them are a library's calls, whose results lie beside the outputs. Raises
    TaskError where the task's reference is broken.
    """
    return plan_sizes(
        task,
        task.sizes.bench,
        free_bytes=planned_bytes(site, task),
        spare_bytes=int(SPARE_SHARE * memory_bytes(site)),
        hardware=site.hardware,
        arrays=site.arrays,
        lanes=runners,
        libraries=libraries,
        lane_bytes=opening_bytes(memory_bytes(site)),
        most_slots=MOST_SLOTS,
    )


async def within_memory(site: Site, task: Task, work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` returns, done again where memory lacked: that is no kernel's fault.

    First all is given back that nobody uses. Then less is planned with, so that slots become fewer
    and at last the largest sizes are left out, here and in what is measured of the task from then
    on. A kernel for which the GPU is full has the verdict where it is so with less planned, too.
    Raises NoMemory where nothing helps, and what `work` raises.
    """
    known = site.shares.get(task.name, MEMORY_SHARES[0])
    less = [share for share in MEMORY_SHARES if share < known]
    tries = [known, known, *less]
    for number, share in enumerate(tries, start=1):
        if share != known:
            site.shares[task.name] = share
        outcome, lack = await _attempt(work)
        if not lack:
            assert outcome is not None
            return outcome
        _log.warning("memory lacked", task=task.name, planned=share, detail=lack)
        await site.release_unused()
        if outcome is not None and _blames_the_kernel(outcome) and share != known:
            site.shares[task.name] = known
            return outcome
        if outcome is not None and number == len(tries):
            return outcome
    raise NoMemory("device memory", lack)


async def _attempt(work: Callable[[], Awaitable[T]]) -> tuple[T | None, str]:
    """Return what it returned, and in words what lacked; empty where nothing did.

    The exception is gone afterwards, and with it the arrays that its frames hold.
    """
    try:
        outcome = await work()
    except Exception as error:
        if not lacks_memory(error):
            raise
        return None, describe_error(error)
    return outcome, _lack_of(outcome)


def _lack_of(outcome: object) -> str:
    """Return what lacked according to verdicts; a kernel's own quota is no lack of ours."""
    for one in _verdicts_of(outcome):
        match one:
            case OutOfMemory(bound="device") | OutOfMemory(beside_baseline=True):
                return "the GPU is full"
            case InfraFailed(lacked_memory=True, detail=detail):
                return detail
    return ""


def _blames_the_kernel(outcome: object) -> bool:
    return any(isinstance(one, OutOfMemory) for one in _verdicts_of(outcome))


def _verdicts_of(outcome: object) -> list[object]:
    """Return the verdict of one kernel, or the verdicts of all kernels of a contest."""
    each = getattr(outcome, "faults", {0: outcome}).values()
    return [getattr(one, "verdict", one) for one in each]
