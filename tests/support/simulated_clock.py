"""Batch times as a host clock sees them on a real GPU, with everything that disturbs them."""

import math
from dataclasses import dataclass, field

import numpy as np

from cuda_llm.tools.timing.block import Block, keep
from cuda_llm.tools.timing.comparison import Comparison, compare_blocks
from cuda_llm.tools.timing.lengths import Lengths, choose_lengths, draw_lengths
from cuda_llm.tools.timing.slope import Pair
from cuda_llm.tools.timing.stopping import Rule, enough

START_US = 18.0
"""From the order to the first call, and from the last tag to the answer."""


@dataclass
class SimulatedGPU:
    """One session on one machine. Relative figures unless the name says otherwise."""

    seed: int
    overhead_us: float = 45.0
    jitter_us: float = 12.0
    """Mean of the usual delay of a batch: scheduling, interrupts, the bus."""
    spikes: float = 0.03
    """Share of batches that something else holds up, by a heavy-tailed 30 us and more."""
    drift: float = 0.003
    process_bias: float = 0.001
    throttle: float = 0.02
    """Share of batches at which the chip begins to clock down by 4 to 10 per cent for a while."""
    now_us: float = 0.0
    slowed_until_us: float = 0.0
    slowed_by: float = 0.0
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.Generator(np.random.PCG64(self.seed))
        self.phase = self.rng.uniform(0, 2 * math.pi)

    def process(self, call_us: float) -> float:
        """Time of the call in one process: where its memory lies matters a little."""
        return call_us * math.exp(self.rng.normal(0, self.process_bias))

    @property
    def throttled(self) -> bool:
        """What the driver would say now."""
        return self.now_us < self.slowed_until_us

    def batch_s(self, calls: int, call_us: float) -> float:
        """One batch; `call_us` 0 for one without calls."""
        if not self.throttled and self.rng.random() < self.throttle / 100:
            self.slowed_until_us = self.now_us + self.rng.uniform(5e4, 3e5)
            self.slowed_by = self.rng.uniform(0.04, 0.10)
        speed = 1 + self.drift * math.sin(self.phase + self.now_us / 4e6)
        speed += self.slowed_by if self.throttled else 0.0
        spent = START_US + calls * (self.overhead_us + call_us) * speed
        spent += self.rng.gamma(2.0, self.jitter_us / 2)
        if self.rng.random() < self.spikes:
            spent += 30 * self.rng.pareto(1.5)
        self.now_us += spent + 300
        return spent / 1e6

    def pair(self, lengths: Lengths, call_us: float) -> Pair:
        """Two batches, the shorter one first or last."""
        short, long = draw_lengths(lengths, self.rng)
        times = {}
        for calls in self.rng.permutation([short, long]):
            times[int(calls)] = self.batch_s(int(calls), call_us)
        return Pair(short=short, short_s=times[short], long=long, long_s=times[long])

    def block(self, lengths: Lengths, first_us: float, second_us: float) -> Block:
        """One of everything, in random order."""
        before = self.throttled
        wanted = {"first": first_us, "second": second_us, "again": second_us, "empty": 0.0}
        pairs = {}
        for name in self.rng.permutation(list(wanted)):
            pairs[str(name)] = self.pair(lengths, wanted[str(name)])
        return Block(
            first=pairs["first"],
            second=pairs["second"],
            again=pairs["again"],
            empty=pairs["empty"],
            throttled=before or self.throttled,
        )


def measure(
    seed: int, first_us: float, second_us: float, rule: Rule, *, most: int = 256
) -> Comparison:
    """Blocks of two kernels in processes of their own until the rule is content."""
    gpu = SimulatedGPU(seed)
    first, second = gpu.process(first_us), gpu.process(second_us)
    lengths = choose_lengths(call_us=second_us, overhead_us=gpu.overhead_us, most=most)
    blocks: list[Block] = []
    while True:
        blocks.append(gpu.block(lengths, first, second))
        kept = keep(blocks, discard=1)
        if len(kept.blocks) >= rule.fewest and len(kept.blocks) % 4 == 0:
            so_far = compare_blocks(kept.blocks, seed=seed, resamples=200)
            if enough(rule, so_far, gpu.now_us / 1e6):
                return compare_blocks(kept.blocks, seed=seed)
