"""One batch: stage, arm, go, look at everything."""

import secrets
from dataclasses import dataclass

import numpy as np

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import Batch
from cuda_llm.tools.judge.measured.clocks import ReadClocks, unread
from cuda_llm.tools.judge.measured.lane import SEED_BITS, Lane
from cuda_llm.tools.judge.measured.options import L2
from cuda_llm.tools.judge.measured.stage import stage
from cuda_llm.tools.judge.measured.verify import verify
from cuda_llm.tools.timing.lengths import Lengths, draw_lengths
from cuda_llm.tools.timing.slope import Pair
from cuda_llm.tools.validator.oracle import Oracle


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What holds for every batch of one size."""

    oracle: Oracle
    rng: np.random.Generator
    """Secret: lengths and orders are drawn from it."""
    l2: L2
    limit_s: float
    """For one batch."""
    read_clocks: ReadClocks = unread
    """Whether the chip holds its clocks down."""


def secret_rng() -> np.random.Generator:
    """Nobody can say what it draws next."""
    return np.random.Generator(np.random.PCG64(secret_seed()))


def secret_seed() -> int:
    """128 bits."""
    return secrets.randbits(SEED_BITS)


async def run_pair(
    kernel: Lane, lengths: Lengths, rules: Rules, *, solve: bool = True
) -> Pair | Verdict:
    """A shorter and a longer batch in random order, each verified; the first fault ends it."""
    short, long = draw_lengths(lengths, rules.rng)
    times = {}
    for calls in rules.rng.permutation([short, long]):
        took = await run_batch(kernel, int(calls), rules, solve=solve)
        if not isinstance(took, float):
            return took
        times[int(calls)] = took
    return Pair(short=short, short_s=times[short], long=long, long_s=times[long])


async def run_batch(
    kernel: Lane, calls: int, rules: Rules, *, solve: bool = True, stepwise: bool = False
) -> float | Verdict:
    """Seconds of `calls` calls on slots in a secret order; see `stage` for `stepwise`."""
    order = [int(number) for number in rules.rng.permutation(len(kernel.slots))[:calls]]
    staged = stage(kernel, order, stepwise=stepwise)
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
    return await verify(kernel, staged, rules.oracle) or took
