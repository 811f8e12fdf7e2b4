"""Who is timed against whom."""

from dataclasses import dataclass, replace

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import OutOfMemory, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import TimedSession
from cuda_llm.tools.judge.measured.contents import Recipe
from cuda_llm.tools.judge.measured.lane import Lane, lay_out
from cuda_llm.tools.judge.refusal import refusal


@dataclass(frozen=True, kw_only=True)
class Entrants:
    """Three processes, two of which may be one."""

    first: TimedSession
    """The candidate."""
    second: TimedSession
    """What it is held against: the baseline, or the incumbent."""
    ground: TimedSession
    """The baseline: what is not `solve` is timed where no candidate's host code runs."""

    @property
    def against_baseline(self) -> bool:
        """Whether the second is the baseline itself."""
        return self.second is self.ground


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One of the two was found wrong."""

    which: str
    """`first` or `second`."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """The entrants at one size. Where `second` is None, only `first` is timed."""

    first: Lane
    second: Lane | None
    ground: Lane

    @property
    def slots(self) -> int:
        """Of each lane."""
        return len(self.first.slots)

    @property
    def beside_baseline(self) -> bool:
        """Whether the second is the baseline, timed beside the first."""
        return self.second is not None and self.second.trusted

    def of(self, name: str) -> Lane:
        """The lane of `first` or `second`, and the baseline's of all else."""
        lanes = {"first": self.first, "second": self.second or self.ground}
        return lanes.get(name, self.ground)


async def lay_out_all(
    entrants: Entrants, recipe: Recipe, count: int, *, alone: bool = False
) -> Lanes | Fault:
    """Every entrant with `count` slots; `alone` leaves the second out. Raises TaskError."""
    first = await lay_out(entrants.first, recipe, count, trusted=False)
    if not isinstance(first, Lane):
        return Fault(which="first", verdict=first)
    second: Lane | None = None
    if not (entrants.against_baseline or alone):
        other = await lay_out(entrants.second, recipe, count, trusted=False)
        if not isinstance(other, Lane):
            return Fault(which="second", verdict=other)
        second = other
    beside = entrants.against_baseline and not alone
    ground = await lay_out_ground(entrants, recipe, count, capture=beside)
    if isinstance(ground, Fault):
        return ground
    return Lanes(first=first, second=ground if beside else second, ground=ground)


async def lay_out_ground(
    entrants: Entrants, recipe: Recipe, count: int, *, capture: bool
) -> Lane | Fault:
    """The baseline's lane. Raises TaskError or InfrastructureError where it is refused."""
    lane = await lay_out(entrants.ground, recipe, count, trusted=True, capture=capture)
    if isinstance(lane, OutOfMemory) and entrants.against_baseline:
        return squeezed_out(lane)
    return trusted(recipe.task, lane)


def squeezed_out(verdict: OutOfMemory) -> Fault:
    """For the one candidate beside which the baseline finds no memory.

    What runners share is planned and their own is small; but a kernel can have the driver take
    much for it, for its stacks above all, which no quota holds down. With two candidates nobody
    can say which of them it was.
    """
    return Fault(which="first", verdict=replace(verdict, beside_baseline=True))


def trusted(task: Task, lane: Lane | Verdict) -> Lane:
    """A lane of the baseline. Raises TaskError or InfrastructureError where it is refused."""
    if isinstance(lane, Lane):
        return lane
    raise refusal(task, lane)


def timed_session(session: object) -> TimedSession:
    """Raises InfrastructureError where the session cannot time."""
    if isinstance(session, TimedSession):
        return session
    raise InfrastructureError("device", "this site says it measures, but its sessions cannot")
