"""Kernels that are compared, and the batches and blocks in which they are timed."""

import asyncio
import secrets
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import OutOfMemory, Verdict
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Batch, ClockReading, Session, TimedSession
from cuda_llm.tools.timing.clocks import ReadClocks, read_nothing, was_throttled
from cuda_llm.tools.timing.failures import FailedCase, baseline_refused
from cuda_llm.tools.timing.options import L2
from cuda_llm.tools.timing.slope import (
    BatchBlock,
    BatchLengths,
    BatchPair,
    PairLengths,
    draw_lengths,
)
from cuda_llm.tools.timing.slots import (
    SEED_BITS,
    InputPlan,
    PreparedKernel,
    prepare_kernel,
    stage_batch,
)
from cuda_llm.tools.timing.verify import verify_batch
from cuda_llm.tools.validator.budget import buffer_bytes
from cuda_llm.tools.validator.cases import distribution_rows, timed_checks
from cuda_llm.tools.validator.oracle import Oracle


@dataclass(frozen=True, kw_only=True)
class ComparedSessions:
    """The sessions of a candidate and of the baseline that it is compared with."""

    candidate: TimedSession
    baseline: TimedSession
    idle: TimedSession | None = None
    """Session whose batches without calls are timed, in which no candidate's code runs; None: the
    baseline's session."""


@dataclass(frozen=True, kw_only=True)
class MeasurementFault:
    """The verdict on one of two kernels."""

    which: str
    """`first` or `second` kernel."""
    verdict: Verdict
    failed: FailedCase | None = None
    """The case, where a GPU said no more of it than an error code."""
    at_small_case: bool = False
    """Whether the fault was found at a small case, not at a timed call."""


@dataclass(frozen=True, kw_only=True)
class ComparedKernels:
    """A candidate and the baseline in slots of one size."""

    first: PreparedKernel
    """The candidate's slots."""
    baseline: PreparedKernel
    ground: PreparedKernel
    """The kernel whose batches without calls are timed: the baseline, or a program that does
    nothing."""
    beside_baseline: bool = False
    """Whether the baseline's calls are timed beside the candidate's; otherwise only its batches
    without calls are."""

    @property
    def slots(self) -> int:
        """Slots of each kernel."""
        return len(self.first.slots)


async def prepare_kernels(
    sessions: ComparedSessions, input_plan: InputPlan, count: int, *, alone: bool = False
) -> ComparedKernels | MeasurementFault:
    """Prepare both kernels in `count` slots; `alone`: the baseline is not called.

    Raises TaskError or InfrastructureError where the baseline is refused.
    """
    first = await prepare_kernel(sessions.candidate, input_plan, count, trusted=False)
    if not isinstance(first, PreparedKernel):
        return MeasurementFault(which="first", verdict=first)
    baseline = await prepare_kernel(
        sessions.baseline, input_plan, count, trusted=True, capture=not alone
    )
    ground = baseline
    if sessions.idle is not None and isinstance(baseline, PreparedKernel):
        ground = await prepare_kernel(sessions.idle, input_plan, count, trusted=True, capture=False)
    for trusted in (baseline, ground):
        if isinstance(trusted, OutOfMemory):
            return fault_by_memory(trusted)
        if not isinstance(trusted, PreparedKernel):
            raise baseline_refused(input_plan.task, trusted)
    assert isinstance(baseline, PreparedKernel)
    assert isinstance(ground, PreparedKernel)
    return ComparedKernels(first=first, baseline=baseline, ground=ground, beside_baseline=not alone)


def fault_by_memory(verdict: OutOfMemory) -> MeasurementFault:
    """Return the fault of the one candidate beside which the baseline finds no memory.

    The memory that runners share is planned, and their own is small; but the driver may allocate
    much for a kernel, for its stacks above all, which no quota limits.
    """
    return MeasurementFault(which="first", verdict=replace(verdict, beside_baseline=True))


def require_timed(session: object) -> TimedSession:
    """Return the session; raise InfrastructureError where it cannot time."""
    if isinstance(session, TimedSession):
        return session
    raise InfrastructureError("device", "this site says it measures, but its sessions cannot")


def require_baseline(task: Task, opened: Session | Verdict) -> TimedSession:
    """Return the baseline's session. Raises TaskError, InfrastructureError where there is none."""
    if not isinstance(opened, Session):
        raise baseline_refused(task, opened)
    return require_timed(opened)


@dataclass(frozen=True, kw_only=True)
class BatchRules:
    """Limits and keys that all batches of one size share."""

    oracle: Oracle
    rng: np.random.Generator
    """Secret: lengths and orders are drawn from it."""
    l2: L2
    limit_s: float
    """Seconds that one batch may take."""
    read_clocks: ReadClocks = read_nothing
    """Reads clocks, heat and power."""
    settle_s: float = 0.0
    """Before each batch: see `settle_s_for`."""


LARGE_BYTES = 1 << 28
SETTLE_S = 0.012


def settle_s_for(task: Task, dims: Dims) -> float:
    """Return the seconds for which memory is left alone before a batch: SETTLE_S where a call has
    LARGE_BYTES.

    An H100 moved memory 15 % slower for some 8 ms after outputs of gigabytes had been compared, and
    after a PyTorch call on as many bytes; the first call of a batch then took up to 400 us longer
    than the second (docs/evidence.md).
    """
    buffers, _, _ = buffer_bytes(task, dims)
    return SETTLE_S if buffers >= LARGE_BYTES else 0.0


def secret_rng() -> np.random.Generator:
    """Return a generator with a secret seed."""
    return np.random.Generator(np.random.PCG64(secret_seed()))


def secret_seed() -> int:
    """Return 128 secret bits."""
    return secrets.randbits(SEED_BITS)


async def run_pair(
    kernel: PreparedKernel, lengths: BatchLengths, rules: BatchRules, *, solve: bool = True
) -> BatchPair | Verdict:
    """Run a shorter and a longer batch in random order, each verified; the first fault ends it."""
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
    """Run `calls` calls on slots in a secret order, verify them, and return their seconds.

    See `stage_batch` for `stepwise`.
    """
    await asyncio.sleep(rules.settle_s)
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
    """A block, and the readings of the clocks before and after it."""

    block: BatchBlock
    readings: tuple[ClockReading | None, ...]


async def run_block(
    kernels: ComparedKernels,
    lengths: PairLengths,
    rules: BatchRules,
    *,
    compares_same: bool = False,
) -> TimedBlock | MeasurementFault:
    """Run a pair of batches of each kernel; `compares_same` runs the baseline's twice."""
    before = rules.read_clocks()
    pairs: dict[str, BatchPair] = {}
    names = ["first", "empty"]
    if kernels.beside_baseline:
        names += ["second", "again"] if compares_same else ["second"]
        names += ["second_empty"] if kernels.ground is not kernels.baseline else []
    for name in rules.rng.permutation(names):
        pair = await run_named_pair(kernels, str(name), lengths, rules)
        if not isinstance(pair, BatchPair):
            return fault_of(kernels, str(name), pair)
        pairs[str(name)] = pair
    after = rules.read_clocks()
    block = BatchBlock(
        first=pairs["first"],
        second=pairs.get("second", pairs["first"]),
        again=pairs.get("again"),
        second_empty=pairs.get("second_empty"),
        empty=pairs["empty"],
        throttled=was_throttled(before, after),
    )
    return TimedBlock(block=block, readings=(before, after))


async def run_named_pair(
    kernels: ComparedKernels, name: str, lengths: PairLengths, rules: BatchRules
) -> BatchPair | Verdict:
    """Run the pair of batches that `name` stands for in a block."""
    if name in ("empty", "second_empty"):
        trusted = kernels.ground if name == "empty" else kernels.baseline
        return await run_pair(trusted, lengths.longest, rules, solve=False)
    if name == "first":
        return await run_pair(kernels.first, lengths.first, rules)
    return await run_pair(kernels.baseline, lengths.second, rules)


def fault_of(kernels: ComparedKernels, name: str, verdict: Verdict) -> MeasurementFault:
    """Return the candidate's fault; raise TaskError or InfrastructureError for the baseline.

    Where the baseline finds no memory beside the candidate, the verdict is the candidate's.
    """
    if name == "first":
        return MeasurementFault(which="first", verdict=verdict)
    if isinstance(verdict, OutOfMemory):
        return fault_by_memory(verdict)
    raise baseline_refused(kernels.baseline.input_plan.task, verdict)


MOST_CHECKS = 2
"""Further inputs at each size but the smallest, where all distributions are tried."""


async def verify_single_calls(kernel: PreparedKernel, rules: BatchRules) -> Verdict | None:
    """Call random slots alone on fresh contents; return None where all outputs are right.

    Contents are drawn from the timed distributions first, then from distributions that count for
    their results alone.
    """
    inputs = kernel.input_plan
    smallest = inputs.dims == inputs.task.sizes.bench[0]
    most = len(distribution_rows(inputs.task)) + MOST_CHECKS if smallest else MOST_CHECKS
    checks = timed_checks(inputs.task, inputs.dims, rules.rng, "bench", most)
    for case in (None, *checks):
        other = replace(kernel, input_plan=replace(inputs, drawn=case))
        took = await run_batch(other, 1, rules)
        if not isinstance(took, float):
            return took
    return None
