"""Batches of calls of one kernel, each timed as a whole and verified."""

import asyncio
import secrets
from dataclasses import dataclass, replace

import numpy as np

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Batch
from cuda_llm.tools.timing.clocks import ReadClocks, read_nothing
from cuda_llm.tools.timing.options import L2
from cuda_llm.tools.timing.slope import BatchLengths, BatchPair, draw_lengths
from cuda_llm.tools.timing.slots import SEED_BITS, PreparedKernel, stage_batch
from cuda_llm.tools.timing.verify import verify_batch
from cuda_llm.tools.validator.budget import buffer_bytes
from cuda_llm.tools.validator.cases import distribution_rows, timed_checks
from cuda_llm.tools.validator.oracle import Oracle

CANDIDATE = 0
"""Number of a candidate that is timed beside the baseline; contenders count from it."""
INCUMBENT = -1
"""Number of what the others are compared with: a contest's incumbent, or the baseline."""
EMPTY = -2
"""Number of batches without calls, in a trusted session: inputs, flush and tags alone."""
AGAIN = -3
"""Number of the baseline's second pair of batches in a block: how much equal kernels differ."""
INCUMBENT_EMPTY = -4
"""Number of batches without calls of a baseline whose session is of another kind than others."""
WITHOUT_CALLS = frozenset({EMPTY, INCUMBENT_EMPTY})

LARGE_BYTES = 1 << 28
SETTLE_S = 0.012
MOST_CHECKS = 2
"""Further inputs at each size but the smallest, where all distributions are tried."""


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
