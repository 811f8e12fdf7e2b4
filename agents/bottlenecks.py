"""Bottlenecks in words, by the code that a profiler gives them."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Words:
    """One bottleneck. Holds no fact of the hardware."""

    name: str
    """As in "limited by ..."."""
    why: str = ""
    """Why it costs time."""
    no_use: tuple[str, ...] = ()
    """What cannot help while this one dominates."""
    names_occupancy: bool = False
    """Whether more occupancy is among that."""


WORDS: Mapping[str, Words] = {
    "bank_conflicts": Words(
        "shared-memory bank conflicts",
        "lanes of a warp hit one bank in turn, so that an access takes several passes",
        ("more shared memory or larger tiles of the same layout",),
    ),
    "uncoalesced_global": Words(
        "uncoalesced global accesses",
        "lanes of a warp touch scattered addresses, and most of what is fetched is thrown away",
        ("unrolling or more occupancy before the accesses are coalesced",),
        names_occupancy=True,
    ),
    "atomic_contention": Words(
        "contended atomics",
        "updates of one address wait for each other",
        ("more threads: they only queue",),
    ),
    "divergence": Words(
        "divergence", "lanes of a warp take different ways and idle in turn", ("larger tiles",)
    ),
    "low_occupancy": Words(
        "low occupancy",
        "too few warps are resident to hide each other's waits",
        ("larger tiles or more registers a thread",),
    ),
    "tail": Words(
        "an uneven last wave", "part of the chip has no work at the end", ("larger blocks of work",)
    ),
    "dram_bandwidth": Words(
        "DRAM bandwidth",
        "the bytes moved take that long, whatever the arithmetic",
        ("more occupancy, unrolling or fewer instructions while memory is this busy",),
        names_occupancy=True,
    ),
    "l2_bandwidth": Words(
        "L2 bandwidth",
        "data go through L2 more often than they need to",
        ("more occupancy",),
        names_occupancy=True,
    ),
    "shared_bandwidth": Words(
        "shared-memory bandwidth",
        "each operand is fetched from shared memory again",
        ("more occupancy", "larger tiles with one output a thread"),
        names_occupancy=True,
    ),
    "l1_bandwidth": Words(
        "L1 bandwidth",
        "values are loaded again and again, or in narrow pieces",
        ("more occupancy",),
        names_occupancy=True,
    ),
    "latency": Words(
        "latency",
        "warps wait for memory or for each other, with nothing else to do meanwhile",
        ("fewer bytes or fewer instructions on their own",),
    ),
    "issue": Words(
        "instruction issue",
        "the instructions alone take that long to issue",
        ("more occupancy", "prefetching"),
        names_occupancy=True,
    ),
    "launch_overhead": Words(
        "the launches themselves",
        "starting kernels takes longer than their work at these sizes",
        ("tuning the inner loop",),
    ),
    "fp32": Words(
        "fp32 arithmetic", "the multiply-add units are busy", ("faster memory accesses",)
    ),
    "fp64": Words("fp64 arithmetic", "double precision runs at a fraction of single precision"),
    "fp16": Words("fp16 arithmetic", "the half-precision units are busy"),
    "int": Words(
        "integer arithmetic", "index arithmetic outweighs the work", ("faster memory accesses",)
    ),
    "sfu": Words("special functions", "exp, sin, rsqrt and the like share few units"),
    "convert": Words("conversions", "type conversions share few units"),
    "shuffle": Words("warp shuffles", "exchanges between lanes take turns"),
    "tensor": Words("tensor operations", "the tensor cores are busy"),
}
"""By code of `profile.Bottleneck`."""


def words_for(code: str) -> Words:
    """Its words; a code of somebody's own profiler explains itself by its name."""
    return WORDS.get(code, Words(code.replace("_", " ")))
