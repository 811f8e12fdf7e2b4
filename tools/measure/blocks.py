"""Who is timed against whom, batch by batch and block by block."""

import secrets
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import OutOfMemory, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Batch, ClockReading, TimedSession
from cuda_llm.tools.measure.clocks import ReadClocks, no_reading, was_throttled
from cuda_llm.tools.measure.failures import baseline_refused
from cuda_llm.tools.measure.options import L2
from cuda_llm.tools.measure.slope import BatchLengths, BatchPair, Block, PairLengths, draw_lengths
from cuda_llm.tools.measure.slots import SEED_BITS, InputPlan, PreparedKernel, lay_out, stage_batch
from cuda_llm.tools.measure.verify import verify_batch
from cuda_llm.tools.validator.oracle import Oracle


@dataclass(frozen=True, kw_only=True)
class ComparedSessions:
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
class MeasurementFault:
    """One of the two was found wrong."""

    which: str
    """`first` or `second`."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class ComparedKernels:
    """The sessions at one size. Where `second` is None, only `first` is timed."""

    first: PreparedKernel
    second: PreparedKernel | None
    baseline: PreparedKernel

    @property
    def slots(self) -> int:
        """Of each kernel."""
        return len(self.first.slots)

    @property
    def beside_baseline(self) -> bool:
        """Whether the second is the baseline, timed beside the first."""
        return self.second is not None and self.second.trusted

    def of(self, name: str) -> PreparedKernel:
        """The kernel of `first` or `second`, and the baseline's of all else."""
        kernels = {"first": self.first, "second": self.second or self.baseline}
        return kernels.get(name, self.baseline)


async def lay_out_kernels(
    sessions: ComparedSessions, recipe: InputPlan, count: int, *, alone: bool = False
) -> ComparedKernels | MeasurementFault:
    """Every entrant with `count` slots; `alone` leaves the second out. Raises TaskError."""
    first = await lay_out(sessions.first, recipe, count, trusted=False)
    if not isinstance(first, PreparedKernel):
        return MeasurementFault(which="first", verdict=first)
    second: PreparedKernel | None = None
    if not (sessions.against_baseline or alone):
        other = await lay_out(sessions.second, recipe, count, trusted=False)
        if not isinstance(other, PreparedKernel):
            return MeasurementFault(which="second", verdict=other)
        second = other
    beside = sessions.against_baseline and not alone
    baseline = await lay_out_baseline(sessions, recipe, count, capture=beside)
    if isinstance(baseline, MeasurementFault):
        return baseline
    return ComparedKernels(first=first, second=baseline if beside else second, baseline=baseline)


async def lay_out_baseline(
    sessions: ComparedSessions, recipe: InputPlan, count: int, *, capture: bool
) -> PreparedKernel | MeasurementFault:
    """The baseline's kernel. Raises TaskError or InfrastructureError where it is refused."""
    kernel = await lay_out(sessions.baseline, recipe, count, trusted=True, capture=capture)
    if isinstance(kernel, OutOfMemory) and sessions.against_baseline:
        return leaves_no_memory(kernel)
    return require_trusted(recipe.task, kernel)


def leaves_no_memory(verdict: OutOfMemory) -> MeasurementFault:
    """For the one candidate beside which the baseline finds no memory.

    What runners share is planned and their own is small; but a kernel can have the driver take
    much for it, for its stacks above all, which no quota holds down. With two candidates nobody
    can say which of them it was.
    """
    return MeasurementFault(which="first", verdict=replace(verdict, beside_baseline=True))


def require_trusted(task: Task, kernel: PreparedKernel | Verdict) -> PreparedKernel:
    """A kernel of the baseline. Raises TaskError or InfrastructureError where it is refused."""
    if isinstance(kernel, PreparedKernel):
        return kernel
    raise baseline_refused(task, kernel)


def timed_session(session: object) -> TimedSession:
    """Raises InfrastructureError where the session cannot time."""
    if isinstance(session, TimedSession):
        return session
    raise InfrastructureError("device", "this site says it measures, but its sessions cannot")


@dataclass(frozen=True, kw_only=True)
class BatchRules:
    """What holds for every batch of one size."""

    oracle: Oracle
    rng: np.random.Generator
    """Secret: lengths and orders are drawn from it."""
    l2: L2
    limit_s: float
    """For one batch."""
    read_clocks: ReadClocks = no_reading
    """Whether the chip holds its clocks down."""


def secret_rng() -> np.random.Generator:
    """Nobody can say what it draws next."""
    return np.random.Generator(np.random.PCG64(secret_seed()))


def secret_seed() -> int:
    """128 bits."""
    return secrets.randbits(SEED_BITS)


async def run_pair(
    kernel: PreparedKernel, lengths: BatchLengths, rules: BatchRules, *, solve: bool = True
) -> BatchPair | Verdict:
    """A shorter and a longer batch in random order, each verified; the first fault ends it."""
    short, long = draw_lengths(lengths, rules.rng)
    times = {}
    for calls in rules.rng.permutation([short, long]):
        took = await run_batch(kernel, int(calls), rules, solve=solve)
        if not isinstance(took, float):
            return took
        times[int(calls)] = took
    return BatchPair(short=short, short_s=times[short], long=long, long_s=times[long])


async def run_batch(
    kernel: PreparedKernel,
    calls: int,
    rules: BatchRules,
    *,
    solve: bool = True,
    stepwise: bool = False,
) -> float | Verdict:
    """Seconds of `calls` calls on slots in a secret order; see `stage` for `stepwise`."""
    order = [int(number) for number in rules.rng.permutation(len(kernel.slots))[:calls]]
    staged = stage_batch(kernel, order, stepwise=stepwise)
    batch = Batch(
        order=staged.order,
        key=staged.key,
        keys=staged.keys,
        flush=rules.l2 is L2.COLD,
        solve=solve,
    )
    fault = await kernel.session.arm(batch)
    if fault is not None:
        return fault
    took = await kernel.session.go(rules.limit_s)
    if not isinstance(took, float) or kernel.trusted:
        return took
    return await verify_batch(kernel, staged, rules.oracle) or took


@dataclass(frozen=True, kw_only=True)
class TimedBlock:
    """A block and the looks at the clocks before and after it."""

    block: Block
    readings: tuple[ClockReading | None, ...]


async def run_block(
    kernels: ComparedKernels,
    lengths: PairLengths,
    rules: BatchRules,
    *,
    compares_same: bool = False,
) -> TimedBlock | MeasurementFault:
    """Each entrant's pair of batches; `compares_same` has the second's run twice."""
    before = rules.read_clocks()
    pairs: dict[str, BatchPair] = {}
    names = ["first", "empty"]
    if kernels.second is not None:
        names += ["second", "again"] if compares_same else ["second"]
    for name in rules.rng.permutation(names):
        pair = await run_side(kernels, str(name), lengths, rules)
        if not isinstance(pair, BatchPair):
            return fault_of(kernels, str(name), pair)
        pairs[str(name)] = pair
    after = rules.read_clocks()
    block = Block(
        first=pairs["first"],
        second=pairs.get("second", pairs["first"]),
        again=pairs.get("again"),
        empty=pairs["empty"],
        throttled=was_throttled(before, after),
    )
    return TimedBlock(block=block, readings=(before, after))


async def run_side(
    kernels: ComparedKernels, name: str, lengths: PairLengths, rules: BatchRules
) -> BatchPair | Verdict:
    """The pair of batches that `name` stands for in a block."""
    if name == "empty":
        return await run_pair(kernels.baseline, lengths.longest, rules, solve=False)
    if name == "first" or kernels.second is None:
        return await run_pair(kernels.first, lengths.first, rules)
    return await run_pair(kernels.second, lengths.second, rules)


def fault_of(kernels: ComparedKernels, name: str, verdict: Verdict) -> MeasurementFault:
    """Whose verdict it is. Raises TaskError or InfrastructureError where it is the baseline's.

    Where it finds no memory beside one candidate, that one has it.
    """
    if name == "first":
        return MeasurementFault(which="first", verdict=verdict)
    single = kernels.second is None or kernels.second.trusted
    if not single and name != "empty":
        return MeasurementFault(which="second", verdict=verdict)
    if single and isinstance(verdict, OutOfMemory):
        return leaves_no_memory(verdict)
    raise baseline_refused(kernels.baseline.recipe.task, verdict)


async def call_alone(kernel: PreparedKernel, rules: BatchRules) -> Verdict | None:
    """Fresh contents in a random slot, one call of it: None where it is right."""
    took = await run_batch(kernel, 1, rules)
    return None if isinstance(took, float) else took
