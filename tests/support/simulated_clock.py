"""Batch times as a host clock sees them on a real GPU, with everything that disturbs them."""

import math
import random
from dataclasses import dataclass, field

import numpy as np

from cuda_llm.tools.timing.comparison import (
    FLOOR_FACTOR,
    SMALLEST_FLOOR,
    Comparison,
    compare_blocks,
)
from cuda_llm.tools.timing.slope import (
    BatchBlock,
    BatchLengths,
    BatchPair,
    choose_lengths,
    counted_blocks,
    draw_lengths,
)
from cuda_llm.tools.timing.stopping import StoppingRule, is_enough

START_US = 18.0
"""From the order to the first call, and from the last tag to the answer."""
OVERHEAD_US = 45.0
"""Of one call: inputs, flush, tag."""


@dataclass
class SimulatedGPU:
    """One session on one machine. Relative figures unless the name says otherwise."""

    seed: int
    overhead_us: float = OVERHEAD_US
    jitter_us: float = 12.0
    """Mean of the usual delay of a batch: scheduling, interrupts, the bus."""
    spikes: float = 0.03
    """Share of batches that something else holds up, by `spike_us` and, heavy-tailed, more."""
    spike_us: float = 30.0
    drift: float = 0.0015
    process_bias: float = 0.001
    throttle: float = 0.02
    """Share of batches at which the chip begins to clock down by 4 to 10 per cent for a while."""
    now_us: float = 0.0
    slowed_until_us: float = 0.0
    slowed_by: float = 0.0
    rng: np.random.Generator = field(init=False)
    chance: random.Random = field(init=False)
    """Faster than `rng` at one number at a time."""

    def __post_init__(self) -> None:
        self.rng = np.random.Generator(np.random.PCG64(self.seed))
        self.chance = random.Random(self.seed)
        self.phase = self.chance.uniform(0, 2 * math.pi)

    def process(self, call_us: float) -> float:
        """Time of the call in one process: where its memory lies matters a little."""
        return call_us * math.exp(self.chance.gauss(0, self.process_bias))

    @property
    def throttled(self) -> bool:
        """What the driver would say now."""
        return self.now_us < self.slowed_until_us

    def batch_s(self, calls: int, call_us: float) -> float:
        """One batch; `call_us` 0 for one without calls."""
        if not self.throttled and self.chance.random() < self.throttle / 100:
            self.slowed_until_us = self.now_us + self.chance.uniform(5e4, 3e5)
            self.slowed_by = self.chance.uniform(0.04, 0.10)
        speed = 1 + self.drift * math.sin(self.phase + self.now_us / 4e6)
        speed += self.slowed_by if self.throttled else 0.0
        spent = START_US + calls * (self.overhead_us + call_us) * speed
        spent += self.chance.gammavariate(2.0, self.jitter_us / 2)
        if self.chance.random() < self.spikes:
            spent += self.spike_us * self.chance.paretovariate(1.5)
        self.now_us += spent + 300
        return spent / 1e6

    def pair(self, lengths: BatchLengths, call_us: float) -> BatchPair:
        """Two batches, the shorter one first or last."""
        short, long = draw_lengths(lengths, self.rng)
        order = [short, long] if self.chance.random() < 0.5 else [long, short]
        times = {calls: self.batch_s(calls, call_us) for calls in order}
        return BatchPair(short=short, short_s=times[short], long=long, long_s=times[long])

    def block(
        self, lengths: BatchLengths, first_us: float, second_us: float, *, again: bool = True
    ) -> BatchBlock:
        """One of everything, in random order."""
        before = self.throttled
        wanted = {"first": first_us, "second": second_us, "empty": 0.0}
        wanted |= {"again": second_us} if again else {}
        names = self.chance.sample(list(wanted), len(wanted))
        pairs = {name: self.pair(lengths, wanted[name]) for name in names}
        return BatchBlock(
            first=pairs["first"],
            second=pairs["second"],
            again=pairs.get("again"),
            empty=pairs["empty"],
            throttled=before or self.throttled,
        )


def measure(
    seed: int,
    first_us: float,
    second_us: float,
    rule: StoppingRule,
    *,
    gpu: SimulatedGPU | None = None,
) -> Comparison:
    """Blocks of two kernels in processes of their own until the rule is content."""
    gpu = gpu or SimulatedGPU(seed)
    first, second = gpu.process(first_us), gpu.process(second_us)
    lengths = choose_lengths(
        call_us=second_us, overhead_us=gpu.overhead_us, aim=rule.aim, most=rule.slots
    )
    least_floor = SMALLEST_FLOOR
    if not rule.compares_same:
        alone = [gpu.block(lengths, second, second, again=False) for _ in range(5)]
        spread = compare_blocks(alone, seed=seed).second_us
        least_floor = max(SMALLEST_FLOOR, FLOOR_FACTOR * spread.half_width / spread.value)
    blocks: list[BatchBlock] = []
    while True:
        blocks.append(gpu.block(lengths, first, second, again=rule.compares_same))
        kept = counted_blocks(blocks[rule.discard :])
        if len(kept) >= rule.fewest and len(kept) % 8 == 4:
            so_far = compare_blocks(kept, seed=seed, resamples=200)
            if is_enough(rule, so_far, gpu.now_us / 1e6):
                return compare_blocks(kept, least_floor=least_floor, seed=seed)


def pair_without_noise(call_us: float, *, start_us: float = START_US) -> BatchPair:
    """Batches of four and forty calls on a machine where nothing disturbs."""
    each = OVERHEAD_US + call_us
    return BatchPair(
        short=4,
        short_s=(start_us + 4 * each) / 1e6,
        long=40,
        long_s=(start_us + 40 * each) / 1e6,
    )
