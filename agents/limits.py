"""What limits a kernel: bottlenecks in words, and how near it is to the least time of its task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt
from cuda_llm.tasks.sizes import least_time


@dataclass(frozen=True)
class BottleneckText:
    """One bottleneck. Holds no fact of the hardware."""

    name: str
    """As in "limited by ..."."""
    why: str = ""
    """Why it costs time."""
    no_use: tuple[str, ...] = ()
    """What cannot help while this one dominates."""
    names_occupancy: bool = False
    """Whether more occupancy is among that."""


BOTTLENECK_TEXTS: Mapping[str, BottleneckText] = {
    "bank_conflicts": BottleneckText(
        "shared-memory bank conflicts",
        "lanes of a warp hit one bank in turn, so that an access takes several passes",
        ("more shared memory or larger tiles of the same layout",),
    ),
    "uncoalesced_global": BottleneckText(
        "uncoalesced global accesses",
        "lanes of a warp touch scattered addresses, and most of what is fetched is thrown away",
        ("unrolling or more occupancy before the accesses are coalesced",),
        names_occupancy=True,
    ),
    "atomic_contention": BottleneckText(
        "contended atomics",
        "updates of one address wait for each other",
        ("more threads: they only queue",),
    ),
    "divergence": BottleneckText(
        "divergence", "lanes of a warp take different ways and idle in turn", ("larger tiles",)
    ),
    "local_memory": BottleneckText(
        "local memory",
        "an array that is indexed at run time cannot stay in registers",
        ("a smaller array that is still indexed at run time",),
    ),
    "low_occupancy": BottleneckText(
        "low occupancy",
        "too few warps are resident to hide each other's waits",
        ("larger tiles or more registers a thread",),
    ),
    "tail": BottleneckText(
        "an uneven last wave", "part of the chip has no work at the end", ("larger blocks of work",)
    ),
    "dram_bandwidth": BottleneckText(
        "DRAM bandwidth",
        "the bytes moved take that long, whatever the arithmetic",
        ("more occupancy, unrolling or fewer instructions while memory is this busy",),
        names_occupancy=True,
    ),
    "l2_bandwidth": BottleneckText(
        "L2 bandwidth",
        "data go through L2 more often than they need to",
        ("more occupancy",),
        names_occupancy=True,
    ),
    "shared_bandwidth": BottleneckText(
        "shared-memory bandwidth",
        "each operand is fetched from shared memory again",
        ("more occupancy", "larger tiles with one output a thread"),
        names_occupancy=True,
    ),
    "l1_bandwidth": BottleneckText(
        "L1 bandwidth",
        "values are loaded again and again, or in narrow pieces",
        ("more occupancy",),
        names_occupancy=True,
    ),
    "latency": BottleneckText(
        "latency",
        "warps wait for memory or for each other, with nothing else to do meanwhile",
        ("fewer bytes or fewer instructions on their own",),
    ),
    "issue": BottleneckText(
        "instruction issue",
        "the instructions alone take that long to issue",
        ("more occupancy", "prefetching"),
        names_occupancy=True,
    ),
    "launch_overhead": BottleneckText(
        "the launches themselves",
        "starting kernels takes longer than their work at these sizes",
        ("tuning the inner loop",),
    ),
    "fp32": BottleneckText(
        "fp32 arithmetic", "the multiply-add units are busy", ("faster memory accesses",)
    ),
    "fp64": BottleneckText(
        "fp64 arithmetic", "double precision runs at a fraction of single precision"
    ),
    "fp16": BottleneckText("fp16 arithmetic", "the half-precision units are busy"),
    "int": BottleneckText(
        "integer arithmetic", "index arithmetic outweighs the work", ("faster memory accesses",)
    ),
    "sfu": BottleneckText("special functions", "exp, sin, rsqrt and the like share few units"),
    "convert": BottleneckText("conversions", "type conversions share few units"),
    "shuffle": BottleneckText("warp shuffles", "exchanges between lanes take turns"),
    "tensor": BottleneckText("tensor operations", "the tensor cores are busy"),
}
"""By code of `profile.Bottleneck`."""


def bottleneck_text(code: str) -> BottleneckText:
    """Return its words; a code of somebody's own profiler explains itself by its name."""
    return BOTTLENECK_TEXTS.get(code, BottleneckText(code.replace("_", " ")))


LIMIT_SHARE = 0.9
"""From this part of the limit on, the same work has nearly nothing left to gain."""


def share_of_limit(situation: Situation, attempt: Attempt) -> float | None:
    """Return attainable time over the attempt's, 0 to about 1, as a mean over the timed sizes.

    The mean is geometric. None where there is no time to compare. Above 1 a kernel works from the
    cache.
    """
    if not attempt.times_us or len(attempt.times_us) != len(situation.sizes):
        return None
    shares = [
        least_time(situation.task, situation.hardware, dims).attainable_us / time_us
        for dims, time_us in zip(situation.sizes, attempt.times_us, strict=True)
    ]
    return math.exp(sum(map(math.log, shares)) / len(shares))
