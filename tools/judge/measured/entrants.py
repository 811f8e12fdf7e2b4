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
    baseline: TimedSession
    """The baseline: what is not `solve` is timed where no candidate's host code runs."""

    @property
    def against_baseline(self) -> bool:
        """Whether the second is the baseline itself."""
        return self.second is self.baseline


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One of the two was found wrong."""

    which: str
    """`first` or `second`."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """The sessions at one size. Where `second` is None, only `first` is timed."""

    first: Lane
    second: Lane | None
    baseline: Lane

    @property
    def slots(self) -> int:
        """Of each kernel."""
        return len(self.first.slots)

    @property
    def beside_baseline(self) -> bool:
        """Whether the second is the baseline, timed beside the first."""
        return self.second is not None and self.second.trusted

    def of(self, name: str) -> Lane:
        """The kernel of `first` or `second`, and the baseline's of all else."""
        kernels = {"first": self.first, "second": self.second or self.baseline}
        return kernels.get(name, self.baseline)


async def lay_out_all(
    sessions: Entrants, recipe: Recipe, count: int, *, alone: bool = False
) -> Lanes | Fault:
    """Every entrant with `count` slots; `alone` leaves the second out. Raises TaskError."""
    first = await lay_out(sessions.first, recipe, count, trusted=False)
    if not isinstance(first, Lane):
        return Fault(which="first", verdict=first)
    second: Lane | None = None
    if not (sessions.against_baseline or alone):
        other = await lay_out(sessions.second, recipe, count, trusted=False)
        if not isinstance(other, Lane):
            return Fault(which="second", verdict=other)
        second = other
    beside = sessions.against_baseline and not alone
    baseline = await lay_out_baseline(sessions, recipe, count, capture=beside)
    if isinstance(baseline, Fault):
        return baseline
    return Lanes(first=first, second=baseline if beside else second, baseline=baseline)


async def lay_out_baseline(
    sessions: Entrants, recipe: Recipe, count: int, *, capture: bool
) -> Lane | Fault:
    """The baseline's kernel. Raises TaskError or InfrastructureError where it is refused."""
    kernel = await lay_out(sessions.baseline, recipe, count, trusted=True, capture=capture)
    if isinstance(kernel, OutOfMemory) and sessions.against_baseline:
        return squeezed_out(kernel)
    return trusted(recipe.task, kernel)


def squeezed_out(verdict: OutOfMemory) -> Fault:
    """For the one candidate beside which the baseline finds no memory.

    What runners share is planned and their own is small; but a kernel can have the driver take
    much for it, for its stacks above all, which no quota holds down. With two candidates nobody
    can say which of them it was.
    """
    return Fault(which="first", verdict=replace(verdict, beside_baseline=True))


def trusted(task: Task, kernel: Lane | Verdict) -> Lane:
    """A kernel of the baseline. Raises TaskError or InfrastructureError where it is refused."""
    if isinstance(kernel, Lane):
        return kernel
    raise refusal(task, kernel)


def timed_session(session: object) -> TimedSession:
    """Raises InfrastructureError where the session cannot time."""
    if isinstance(session, TimedSession):
        return session
    raise InfrastructureError("device", "this site says it measures, but its sessions cannot")
