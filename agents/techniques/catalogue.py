"""The catalogue of techniques: structures, changes by the bottleneck they relieve, and repairs."""

from typing import Any

from cuda_llm.agents.techniques.structures import STRUCTURES
from cuda_llm.agents.techniques.technique import (
    ACCUMULATES,
    ADDS_UP,
    CHANGE,
    REARRANGES,
    REPAIR,
    REUSES,
    SCATTERS,
    SLIDES,
    Technique,
    Work,
)

REPAIRS = tuple(
    Technique(text=text, kinds=REPAIR)
    for text in (
        "the smallest change that fixes what failed; keep the structure",
        "rewrite the part that failed in the simplest form that is surely right, keep the rest",
        "start over with the simplest correct kernel: one thread an output, a bounds check, no "
        "shared memory, no vector access",
        "keep the idea, but prove every index: guard each load and store, handle extents that are "
        "1, odd, or smaller than a tile",
        "keep the idea, but check the order of things: what is initialised before it is read, and "
        "a barrier that all threads reach between writing and reading",
        "the same result by another structure that avoids the failing construct altogether",
    )
)


def _change(
    text: str, *against: str, work: frozenset[Work] = frozenset(Work), aims: str = "", **traits: Any
) -> Technique:
    """Return a change; `aims` are words of `AIMS`, `traits` further fields of a Technique."""
    named = frozenset(aims.split())
    return Technique(text=text, kinds=CHANGE, work=work, against=against, aims=named, **traits)


CHANGES = (
    _change(
        "let neighbouring threads touch neighbouring addresses; where input and output disagree, "
        "turn the data around in shared memory",
        *("uncoalesced_global", "l2_bandwidth", "l1_bandwidth"),
        aims="coalescing faster_memory",
    ),
    _change(
        "make every global access a 16-byte vector where alignment and extents allow, with a "
        "scalar path for the rest",
        *("issue", "l1_bandwidth", "latency", "uncoalesced_global", "int"),
        shown_by="global_vectors",
    ),
    _change(
        "pad the shared tile by one element a row, or by whatever puts the lanes of a warp into "
        "different banks",
        *("bank_conflicts", "shared_bandwidth"),
        work=REARRANGES | REUSES | SLIDES | ACCUMULATES,
        shown_by="padding",
        aims="padding",
        needs_shared=True,
    ),
    _change(
        "swizzle the shared tile's index (XOR with the row) so that rows and columns are both free "
        "of conflicts and no space is lost",
        *("bank_conflicts", "low_occupancy"),
        work=REARRANGES | REUSES,
        shown_by="swizzle",
        aims="padding",
        needs_shared=True,
    ),
    _change(
        "drop shared memory where shuffles or registers can carry the exchange",
        *("bank_conflicts", "shared_bandwidth", "low_occupancy"),
        work=REARRANGES | ADDS_UP | SLIDES,
        needs_shared=True,
    ),
    _change(
        "block in registers: several outputs a thread, so that each value loaded is used several "
        "times",
        *("shared_bandwidth", "l1_bandwidth", "l2_bandwidth", "issue", "int"),
        work=REUSES | SLIDES,
        shown_by="register_blocking",
        aims="more_registers",
        work_per_thread=1,
    ),
    _change(
        "larger tiles a block, so that each byte that comes from memory is used more often",
        *("dram_bandwidth", "l2_bandwidth"),
        work=REUSES | SLIDES,
        aims="larger_tiles",
        work_per_thread=1,
    ),
    _change(
        "read shared memory in 16-byte vectors, operands laid out so that they lie side by side",
        *("shared_bandwidth", "issue"),
        work=REUSES | SLIDES,
        shown_by="shared_vectors",
        aims="faster_memory",
        needs_shared=True,
    ),
    _change(
        "double buffering: load the next tile into registers while this one is worked on",
        *("latency", "dram_bandwidth"),
        work=REUSES | SLIDES,
        shown_by="double_buffering",
        aims="prefetching",
    ),
    _change(
        "asynchronous copies into shared memory (__pipeline_memcpy_async, or memcpy_async of "
        "cooperative groups), two or three stages deep",
        "latency",
        work=REUSES | SLIDES,
        needs=(8, 0),
        shown_by="async_copy",
        aims="prefetching",
    ),
    _change(
        "bulk copies by the tensor memory accelerator, one thread issuing, an mbarrier to wait on",
        "latency",
        work=REUSES,
        needs=(9, 0),
        shown_by="bulk_copy",
        aims="prefetching",
    ),
    _change(
        "several independent loads a thread, all issued before the first value is used",
        *("latency", "dram_bandwidth"),
    ),
    _change(
        "more work a thread and a smaller grid that loops with a grid stride",
        *("issue", "launch_overhead"),
        shown_by="grid_stride",
        aims="fewer_blocks",
        work_per_thread=1,
    ),
    _change(
        "another block size, and __launch_bounds__ to match, so that registers and shared memory "
        "let more warps be resident",
        *("low_occupancy", "latency"),
        shown_by="launch_bounds",
        aims="occupancy",
    ),
    _change(
        "smaller blocks or less work a block, so that the grid fills the chip and its last wave is "
        "short",
        *("tail", "low_occupancy", "latency"),
        work_per_thread=-1,
    ),
    _change(
        "split the longest dimension among more blocks and combine their partial results",
        *("tail", "latency"),
        work=REUSES | ADDS_UP,
        launches=2,
        work_per_thread=-1,
    ),
    _change(
        "fuse launches: initialise, work and combine in one kernel where one can",
        "launch_overhead",
        work=ADDS_UP,
        needs_launches=2,
    ),
    _change(
        "several private copies a block, chosen by warp, and one merge at the end",
        *("atomic_contention", "bank_conflicts"),
        work=SCATTERS,
        shown_by="private_copies",
    ),
    _change(
        "combine in registers, then within the warp by shuffles, and only then by one atomic a "
        "block",
        *("atomic_contention", "shared_bandwidth"),
        work=ADDS_UP,
        shown_by="warp_shuffle",
    ),
    _change(
        "__reduce_add_sync for whole-number sums within a warp",
        *("shuffle", "atomic_contention"),
        work=SCATTERS,
        needs=(8, 0),
        shown_by="warp_reduce",
    ),
    _change(
        "more accumulators a thread, so that sums do not wait for each other and fewer shuffles "
        "remain",
        *("latency", "shuffle", "fp32"),
        work=ACCUMULATES | REUSES | SLIDES,
        shown_by="accumulators",
        aims="more_registers",
    ),
    _change(
        "take bounds checks out of the inner loop: a fast path for full tiles, a checked one for "
        "the edges",
        *("divergence", "issue", "int"),
        aims="fewer_instructions",
    ),
    _change(
        "unroll the inner loop with known bounds, hoist the address arithmetic, count in 32 bits",
        *("issue", "int", "latency"),
        shown_by="unrolling",
        aims="unrolling",
    ),
    _change(
        "let whole warps take one branch: map divergent work to warps, not lanes",
        "divergence",
    ),
    _change(
        "drop work that is not needed: passes over memory, initialisation, conversions, "
        "synchronisation",
        *("dram_bandwidth", "l2_bandwidth", "convert", "sfu", "fp64", "launch_overhead"),
        aims="fewer_bytes",
    ),
    _change(
        "cache hints: __ldg and const __restrict__ for what is read again, streaming loads and "
        "stores (__ldcs, __stcs) for what is not",
        *("dram_bandwidth", "l2_bandwidth", "l1_bandwidth"),
        shown_by="cache_hints",
    ),
)

CATALOGUE = (*STRUCTURES, *CHANGES, *REPAIRS)
