"""The catalogue of techniques: structures by kind of work, changes by the bottleneck they
relieve, and repairs.
"""

from cuda_llm.agents.techniques.technique import (
    ACCUMULATES,
    ADDS_UP,
    CHANGE,
    REARRANGES,
    REPAIR,
    REUSES,
    SCATTERS,
    SLIDES,
    STREAMS,
    STRUCTURE,
    Technique,
    Work,
)


def _structure(work: frozenset[Work], *texts: str) -> tuple[Technique, ...]:
    return tuple(Technique(text=text, kinds=STRUCTURE, work=work) for text in texts)


STRUCTURES = (
    *_structure(
        STREAMS,
        "one thread an element behind a bounds check, neighbouring threads on neighbouring "
        "elements; nothing else",
        "16-byte vector loads and stores (float4 or the like), the last few elements one by one",
        "a grid-stride loop: a grid that just fills the chip, each thread walking in steps of the "
        "whole grid",
        "several independent elements a thread, a block's width apart, all loads issued before the "
        "first value is used",
        "vector loads inside a grid-stride loop, two vectors in flight for each thread",
    ),
    *_structure(
        REARRANGES,
        "square tiles through shared memory with one column of padding, so that both reads and "
        "writes of global memory are coalesced",
        "tiles through shared memory whose column index is swizzled (XOR with the row) instead of "
        "padded",
        "tall tiles with few threads: each thread moves four or eight rows of its tile",
        "small square pieces turned around in registers, read and written as 16-byte vectors where "
        "the extents allow, element by element elsewhere",
        "pieces exchanged within a warp by shuffles, without shared memory",
        "no staging at all: write coalesced and let the read side rely on the caches",
    ),
    *_structure(
        ACCUMULATES,
        "two kernels: each block leaves a partial sum in scratch memory, a second small kernel "
        "adds those up",
        "grid-stride partial sums in registers, warp shuffles, one value a warp through shared "
        "memory, one atomicAdd a block on an output set to 0 beforehand",
        "16-byte loads and four independent accumulators a thread, then a shuffle reduction",
        "one launch: the block that finishes last (a counter in scratch memory behind "
        "__threadfence) adds up the partial sums",
        "a tree in shared memory over a block's tile, halved until one warp is left, the rest by "
        "shuffles",
        "as few blocks as keep memory busy, long loops in each, so that almost nothing is left to "
        "combine",
    ),
    Technique(
        text="cub::BlockReduce inside a kernel of our own, partial sums combined by a second one",
        kinds=STRUCTURE,
        work=ACCUMULATES,
        library="cub",
    ),
    *_structure(
        SCATTERS,
        "a private copy of the outputs for each block in shared memory, merged by global atomics; "
        "global atomics alone where they do not fit",
        "a private copy for each warp of a block in shared memory, the copies added up before the "
        "block touches global memory",
        "runs of equal keys counted in a register first: one atomic when the key changes",
        "partial results of each block written to scratch memory without atomics, a second kernel "
        "adds them up column by column",
        "16-byte loads, several keys a thread in flight, then atomics on the block's own copy",
        "outputs divided among blocks: each block counts only its range of keys and reads "
        "everything",
    ),
    Technique(
        text="lanes of a warp with equal keys found by __match_any_sync; one of them adds for all",
        kinds=STRUCTURE | CHANGE,
        work=SCATTERS,
        against=("atomic_contention",),
        needs=(7, 0),
    ),
    *_structure(
        REUSES,
        "square tiles of both inputs in shared memory, one output a thread",
        "register blocking: each thread owns a small square of outputs (4 x 4 or 8 x 8) and feeds "
        "it from shared tiles, the left one stored transposed",
        "tiles of outputs for each warp: lanes hold fragments of both operands in registers and "
        "walk the shared tile together",
        "long strips: each thread owns a column of outputs, the other operand's values come by "
        "broadcast from shared memory",
        "the inner dimension split among blocks, partial results in scratch memory, added up by a "
        "second kernel",
        "two shared buffers: the next tile is loaded into registers while this one is multiplied",
    ),
    *_structure(
        SLIDES,
        "an input tile with its halo in shared memory, the small operand in shared memory as well, "
        "one output a thread",
        "several neighbouring outputs a thread, so that each loaded value serves several windows "
        "from registers",
        "a window that slides down in registers: each thread walks a column and loads every input "
        "row once",
        "the small operand in __constant__ memory (copied by cudaMemcpyToSymbolAsync, device to "
        "device), read by all lanes at one address",
        "no shared memory: __ldg loads and the caches, many outputs a thread, the loop over the "
        "window unrolled",
        "separate paths for blocks wholly inside, without any bounds check, and those at the edge",
    ),
)


def _change(
    text: str,
    *against: str,
    work: frozenset[Work] = frozenset(Work),
    needs: tuple[int, int] = (0, 0),
    emulated: bool = True,
    shown_by: str = "",
) -> Technique:
    return Technique(
        text=text,
        kinds=CHANGE,
        work=work,
        against=against,
        needs=needs,
        emulated=emulated,
        shown_by=shown_by,
    )


CHANGES = (
    _change(
        "let neighbouring threads touch neighbouring addresses; where input and output disagree, "
        "turn the data around in shared memory",
        *("uncoalesced_global", "l2_bandwidth", "l1_bandwidth"),
    ),
    _change(
        "make every global access a 16-byte vector where alignment and extents allow, with a "
        "scalar path for the rest",
        *("issue", "l1_bandwidth", "latency", "uncoalesced_global", "int"),
        shown_by="vector_access",
    ),
    _change(
        "pad the shared tile by one element a row, or by whatever puts the lanes of a warp into "
        "different banks",
        "bank_conflicts",
        *("shared_bandwidth",),
        work=REARRANGES | REUSES | SLIDES | ACCUMULATES,
        shown_by="padding",
    ),
    _change(
        "swizzle the shared tile's index (XOR with the row) so that rows and columns are both free "
        "of conflicts and no space is lost",
        *("bank_conflicts", "low_occupancy"),
        work=REARRANGES | REUSES,
        shown_by="swizzle",
    ),
    _change(
        "drop shared memory where shuffles or registers can carry the exchange",
        *("bank_conflicts", "shared_bandwidth", "low_occupancy"),
        work=REARRANGES | ADDS_UP | SLIDES,
    ),
    _change(
        "block in registers: several outputs a thread, so that each value loaded is used several "
        "times",
        *("shared_bandwidth", "l1_bandwidth", "l2_bandwidth", "issue", "int"),
        work=REUSES | SLIDES,
        shown_by="register_blocking",
    ),
    _change(
        "larger tiles a block, so that each byte that comes from memory is used more often",
        *("dram_bandwidth", "l2_bandwidth"),
        work=REUSES | SLIDES,
    ),
    _change(
        "read shared memory in 16-byte vectors, operands laid out so that they lie side by side",
        *("shared_bandwidth", "issue"),
        work=REUSES | SLIDES,
    ),
    _change(
        "double buffering: load the next tile into registers while this one is worked on",
        *("latency", "dram_bandwidth"),
        work=REUSES | SLIDES,
        shown_by="double_buffering",
    ),
    _change(
        "asynchronous copies into shared memory (__pipeline_memcpy_async, or memcpy_async of "
        "cooperative groups), two or three stages deep",
        *("latency", "issue"),
        work=REUSES | SLIDES,
        needs=(8, 0),
        shown_by="async_copy",
    ),
    _change(
        "bulk copies by the tensor memory accelerator, one thread issuing, an mbarrier to wait on",
        *("latency", "issue"),
        work=REUSES,
        needs=(9, 0),
        shown_by="bulk_copy",
    ),
    _change(
        "several independent loads a thread, all issued before the first value is used",
        *("latency", "dram_bandwidth"),
    ),
    _change(
        "more work a thread and a smaller grid that loops with a grid stride",
        *("issue", "launch_overhead", "tail", "latency"),
        shown_by="grid_stride",
    ),
    _change(
        "another block size, and __launch_bounds__ to match, so that registers and shared memory "
        "let more warps be resident",
        *("low_occupancy", "latency"),
        shown_by="launch_bounds",
    ),
    _change(
        "smaller blocks or less work a block, so that the grid fills the chip and its last wave is "
        "short",
        *("tail", "low_occupancy", "latency"),
    ),
    _change(
        "split the longest dimension among more blocks and combine their partial results",
        *("tail", "latency"),
        work=REUSES | ADDS_UP,
    ),
    _change(
        "fuse launches: initialise, work and combine in one kernel where one can",
        *("launch_overhead",),
        work=ADDS_UP,
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
    ),
    _change(
        "take bounds checks out of the inner loop: a fast path for full tiles, a checked one for "
        "the edges",
        *("divergence", "issue", "int"),
    ),
    _change(
        "unroll the inner loop with known bounds, hoist the address arithmetic, count in 32 bits",
        *("issue", "int", "latency"),
        shown_by="unrolling",
    ),
    _change(
        "let whole warps take one branch: map divergent work to warps, not lanes",
        "divergence",
    ),
    _change(
        "drop work that is not needed: passes over memory, initialisation, conversions, "
        "synchronisation",
        *("dram_bandwidth", "l2_bandwidth", "convert", "sfu", "fp64", "launch_overhead"),
    ),
    _change(
        "cache hints: __ldg and const __restrict__ for what is read again, streaming loads and "
        "stores (__ldcs, __stcs) for what is not",
        *("dram_bandwidth", "l2_bandwidth", "l1_bandwidth"),
    ),
)

REPAIRS = tuple(
    Technique(text=text, kinds=REPAIR)
    for text in (
        "the smallest change that mends what failed; keep the structure",
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

CATALOGUE = (*STRUCTURES, *CHANGES, *REPAIRS)

VARIATIONS = (
    "small blocks (64 to 128 threads)",
    "large blocks (512 threads or more)",
    "one output a thread",
    "four outputs a thread",
    "eight or more outputs a thread",
    "as few registers as possible",
    "loops with bounds known when compiling, by templates",
    "a separate path for extents that are multiples of four",
)
"""Added to a direction when the catalogue is shorter than the round."""
