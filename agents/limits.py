"""What limits a kernel: bottlenecks in words, and how near it is to the least time of its task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuda_llm.agents.situation import Situation
from cuda_llm.profile import Profile
from cuda_llm.search import Attempt
from cuda_llm.tasks.sizes import least_time, weights_of


@dataclass(frozen=True)
class BottleneckText:
    """One bottleneck. Holds no fact of the hardware."""

    name: str
    """As in "limited by ..."."""
    why: str = ""
    """Why it costs time."""
    no_use: tuple[str, ...] = ()
    """What cannot help while this one dominates."""
    refuses: str = ""
    """The aims of techniques that this speaks against, words of `techniques.technique.AIMS`."""


BOTTLENECK_TEXTS: Mapping[str, BottleneckText] = {
    "bank_conflicts": BottleneckText(
        "shared-memory bank conflicts",
        "lanes of a warp hit one bank in turn, so that an access takes several passes",
        ("more shared memory or larger tiles of the same layout",),
        refuses="larger_tiles",
    ),
    "uncoalesced_global": BottleneckText(
        "uncoalesced global accesses",
        "lanes of a warp touch scattered addresses, and most of what is fetched is thrown away",
        ("unrolling or more occupancy before the accesses are coalesced",),
        refuses="unrolling occupancy",
    ),
    "atomic_contention": BottleneckText(
        "contended atomics",
        "updates of one address wait for each other",
        ("more threads: they only queue",),
        refuses="occupancy",
    ),
    "divergence": BottleneckText(
        "divergence",
        "lanes of a warp take different ways and idle in turn",
        ("larger tiles",),
        refuses="larger_tiles",
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
        refuses="larger_tiles more_registers",
    ),
    "tail": BottleneckText(
        "an uneven last wave",
        "part of the chip has no work at the end",
        ("larger blocks of work",),
        refuses="larger_tiles fewer_blocks",
    ),
    "dram_bandwidth": BottleneckText(
        "DRAM bandwidth",
        "the bytes moved take that long, whatever the arithmetic",
        ("more occupancy, unrolling or fewer instructions while memory is this busy",),
        refuses="occupancy unrolling fewer_instructions",
    ),
    "l2_bandwidth": BottleneckText(
        "L2 bandwidth",
        "data go through L2 more often than they need to",
        ("more occupancy",),
        refuses="occupancy",
    ),
    "shared_bandwidth": BottleneckText(
        "shared-memory bandwidth",
        "each operand is fetched from shared memory again",
        ("more occupancy", "larger tiles with one output a thread"),
        refuses="occupancy larger_tiles",
    ),
    "l1_bandwidth": BottleneckText(
        "L1 bandwidth",
        "values are loaded again and again, or in narrow pieces",
        ("more occupancy",),
        refuses="occupancy",
    ),
    "latency": BottleneckText(
        "latency",
        "warps wait for memory or for each other, with nothing else to do meanwhile",
        ("fewer bytes or fewer instructions on their own",),
        refuses="fewer_bytes fewer_instructions",
    ),
    "issue": BottleneckText(
        "instruction issue",
        "the instructions alone take that long to issue",
        ("more occupancy", "prefetching"),
        refuses="occupancy prefetching",
    ),
    "launch_overhead": BottleneckText(
        "the launches themselves",
        "starting kernels takes longer than their work at these sizes",
        ("tuning the inner loop",),
        refuses="unrolling fewer_instructions",
    ),
    "fp32": BottleneckText(
        "fp32 arithmetic",
        "the multiply-add units are busy",
        ("faster memory accesses",),
        refuses="faster_memory fewer_bytes",
    ),
    "fp64": BottleneckText(
        "fp64 arithmetic", "double precision runs at a fraction of single precision"
    ),
    "fp16": BottleneckText("fp16 arithmetic", "the half-precision units are busy"),
    "int": BottleneckText(
        "integer arithmetic",
        "index arithmetic outweighs the work",
        ("faster memory accesses",),
        refuses="faster_memory fewer_bytes",
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


def shares_of_limit(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return attainable time over the attempt's at each timed size; empty where times are missing.

    Above 1 a kernel works from the cache.
    """
    if len(attempt.times_us) != len(situation.sizes):
        return ()
    return tuple(
        least_time(situation.task, situation.hardware, dims).attainable_us / time_us
        for dims, time_us in zip(situation.sizes, attempt.times_us, strict=True)
    )


def share_of_limit(situation: Situation, attempt: Attempt) -> float | None:
    """Return attainable time over the attempt's, 0 to about 1, as a mean over the timed sizes.

    The mean is geometric. None where there is no time to compare. Above 1 a kernel works from the
    cache.
    """
    shares = shares_of_limit(situation, attempt)
    return math.exp(sum(map(math.log, shares)) / len(shares)) if shares else None


def possible_gains(situation: Situation, attempt: Attempt) -> tuple[float, ...]:
    """Return by how much each size could still raise the logarithm of the score, weighted."""
    shares = shares_of_limit(situation, attempt)
    weights = weights_of(situation.task, situation.sizes)
    if len(weights) != len(shares):
        weights = (1.0,) * len(shares)
    return tuple(-weight * math.log(share) for weight, share in zip(weights, shares, strict=True))


def most_to_gain(situation: Situation, attempt: Attempt) -> int | None:
    """Return the index of the timed size where most is to be gained; None without times."""
    gains = possible_gains(situation, attempt)
    return max(range(len(gains)), key=lambda index: gains[index]) if gains else None


def deciding_profile(
    situation: Situation, attempt: Attempt, profile: Profile
) -> tuple[Profile, int]:
    """Return the profile of the size where most is to be gained, and the index of that size.

    Among those of which something is known: a measured kernel's is the largest.
    """
    last = len(situation.sizes) - 1
    gains = possible_gains(situation, attempt)
    known = {one.size: one for one in profile.smaller if one.bottlenecks and one.size < len(gains)}
    best = max((*known, last), key=lambda index: gains[index]) if gains else last
    if best == last:
        return profile, last
    chosen = known[best]
    return replace(profile, launches=chosen.launches, bottlenecks=chosen.bottlenecks), best
