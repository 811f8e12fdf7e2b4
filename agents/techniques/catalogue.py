"""The catalogue of techniques: structures, changes by the bottleneck they relieve, and repairs."""

from typing import Any

from cuda_llm.agents.techniques.structures import (
    BEST_PRACTICES,
    CUTLASS,
    GRID_STRIDE,
    HOPPER_GUIDE,
    IN_FLIGHT,
    PROGRAMMING_GUIDE,
    STRUCTURES,
    VECTORS,
)
from cuda_llm.agents.techniques.task_kind import TaskKind
from cuda_llm.agents.techniques.technique import ANY_LENGTH, CHANGE, REPAIR, Technique

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


ANY = frozenset(TaskKind)
MULTIPLIES = frozenset(
    {TaskKind.PRODUCT, TaskKind.PRODUCT_CHAIN, TaskKind.ATTENTION, TaskKind.SOLVER}
)
WINDOWS = frozenset({TaskKind.CONVOLUTION, TaskKind.WINDOW})
MOVES = frozenset({TaskKind.TRANSPOSE, TaskKind.PERMUTATION})
ROWWISE = frozenset({TaskKind.ROWS, TaskKind.COLUMNS, TaskKind.ROW_LOSS})
EXPONENTIALS = frozenset({TaskKind.ROWS, TaskKind.ROW_LOSS, TaskKind.ATTENTION})
TOTALS = frozenset({TaskKind.REDUCTION, TaskKind.ROW_LOSS, TaskKind.SOLVER})
ORDERS = frozenset({TaskKind.SORTING, TaskKind.SELECTION})
COMPUTES = ANY - MOVES - ORDERS - {TaskKind.COPY, TaskKind.SCAN, TaskKind.HISTOGRAM}
STAGES = MULTIPLIES | WINDOWS | MOVES | ORDERS | frozenset({TaskKind.SCAN})
"""Kinds whose kernels exchange values through shared memory."""


def _change(
    text: str,
    *against: str,
    source: str,
    tasks: frozenset[TaskKind] = ANY,
    aims: str = "",
    **traits: Any,
) -> Technique:
    """Return a change; `aims` are words of `AIMS`, `traits` further fields of a Technique."""
    named = frozenset(aims.split())
    return Technique(
        text=text,
        kinds=CHANGE,
        source=source,
        tasks=tasks,
        against=against,
        aims=named,
        **traits,
    )


CHANGES = (
    _change(
        "let neighbouring threads touch neighbouring addresses; where input and output disagree, "
        "turn the data around in shared memory",
        *("uncoalesced_global", "l2_bandwidth", "l1_bandwidth"),
        source=BEST_PRACTICES,
        aims="coalescing faster_memory",
    ),
    _change(
        "make every global access a 16-byte vector where alignment and extents allow",
        *("issue", "l1_bandwidth", "latency", "uncoalesced_global", "int"),
        source=VECTORS,
        shown_by="global_vectors",
        aims="wide_accesses",
    ),
    _change(
        "pad the shared tile by one element a row, or by whatever puts the lanes of a warp into "
        "different banks",
        *("bank_conflicts", "shared_bandwidth"),
        source="Ruetsch & Micikevicius 2009, matrix transpose",
        shown_by="padding",
        aims="padding",
        needs_shared=True,
    ),
    _change(
        "swizzle the shared tile's index (XOR with the row) so that rows and columns are both free "
        "of conflicts and no space is lost",
        *("bank_conflicts", "low_occupancy"),
        source=CUTLASS,
        tasks=MULTIPLIES | MOVES,
        shown_by="swizzle",
        aims="padding",
        needs_shared=True,
    ),
    _change(
        "drop shared memory where shuffles or registers can carry the exchange",
        *("bank_conflicts", "shared_bandwidth", "low_occupancy"),
        source="Luitjens 2014, faster parallel reductions",
        tasks=ANY - MULTIPLIES,
        needs_shared=True,
    ),
    _change(
        "block in registers: several outputs a thread, so that each value loaded is used several "
        "times",
        *("shared_bandwidth", "l1_bandwidth", "l2_bandwidth", "issue", "int"),
        source="Volkov & Demmel 2008, dense linear algebra",
        tasks=MULTIPLIES | WINDOWS | {TaskKind.MATVEC},
        shown_by="register_blocking",
        aims="more_registers",
        work_per_thread=1,
    ),
    _change(
        "a larger square of outputs a thread, the next step's operands read while this step's "
        "products issue",
        *("shared_bandwidth", "latency"),
        source=CUTLASS,
        tasks=MULTIPLIES,
        aims="more_registers",
        needs_shared=True,
        work_per_thread=1,
    ),
    _change(
        "a warp's lanes over a compact rectangle of outputs, so that most shared reads are "
        "broadcasts",
        *("shared_bandwidth", "bank_conflicts"),
        source=CUTLASS,
        tasks=MULTIPLIES,
        needs_shared=True,
    ),
    _change(
        "larger tiles a block, so that each byte that comes from memory is used more often",
        *("dram_bandwidth", "l2_bandwidth"),
        source=CUTLASS,
        tasks=MULTIPLIES | WINDOWS,
        aims="larger_tiles",
        work_per_thread=1,
    ),
    _change(
        "tensor cores: mma.sync on fragments from ldmatrix, sums in fp32 registers",
        *("fp32", "fp16", "shared_bandwidth", "issue", "convert"),
        source=CUTLASS,
        tasks=MULTIPLIES,
        needs=(8, 0),
        tensor=True,
        shown_by="tensor_mma",
    ),
    _change(
        "scores handed from the first product to the second in registers, never through shared "
        "memory",
        *("shared_bandwidth", "bank_conflicts", "latency"),
        source="Dao 2023, FlashAttention-2",
        tasks=frozenset({TaskKind.ATTENTION}),
        needs_shared=True,
    ),
    _change(
        "order blocks so that those at work together share rows and columns of tiles in L2",
        *("dram_bandwidth", "l2_bandwidth"),
        source="Tillet, Kung & Cox 2019, Triton",
        tasks=frozenset({TaskKind.PRODUCT, TaskKind.PRODUCT_CHAIN}),
        shown_by="tile_order",
    ),
    _change(
        "read shared memory in 16-byte vectors, operands laid out so that they lie side by side",
        *("shared_bandwidth", "issue"),
        source=CUTLASS,
        tasks=STAGES,
        shown_by="shared_vectors",
        aims="faster_memory",
        needs_shared=True,
    ),
    _change(
        "double buffering: load the next tile into registers while this one is worked on",
        *("latency", "dram_bandwidth"),
        source="Nath, Tomov & Dongarra 2010, MAGMA",
        tasks=MULTIPLIES | WINDOWS,
        shown_by="double_buffering",
        aims="prefetching",
    ),
    _change(
        "asynchronous copies into shared memory (__pipeline_memcpy_async, or memcpy_async of "
        "cooperative groups), two or three stages deep",
        "latency",
        source=PROGRAMMING_GUIDE,
        tasks=MULTIPLIES | WINDOWS | {TaskKind.ROW_LOSS},
        needs=(8, 0),
        shown_by="async_copy",
        aims="prefetching",
    ),
    _change(
        "bulk copies by the tensor memory accelerator, one thread issuing, an mbarrier to wait on",
        "latency",
        source=HOPPER_GUIDE,
        tasks=MULTIPLIES,
        needs=(9, 0),
        shown_by="bulk_copy",
        aims="prefetching",
    ),
    _change(
        "several independent loads a thread, all issued before the first value is used",
        *("latency", "dram_bandwidth"),
        source=IN_FLIGHT,
        shown_by="loads_first",
        aims="more_in_flight",
    ),
    _change(
        "more work a thread and a smaller grid that loops with a grid stride",
        *("issue", "launch_overhead", "blocks"),
        source=GRID_STRIDE,
        tasks=ANY - ORDERS - {TaskKind.ATTENTION, TaskKind.PRODUCT},
        shown_by="grid_stride",
        aims="fewer_blocks",
        work_per_thread=1,
    ),
    _change(
        "another block size with __launch_bounds__, so that more warps are resident",
        *("low_occupancy", "latency"),
        source=BEST_PRACTICES,
        shown_by="launch_bounds",
        aims="occupancy residency",
    ),
    _change(
        "smaller blocks or less work a block, so that the grid fills the chip and its last wave is "
        "short",
        *("tail", "low_occupancy", "latency"),
        source=BEST_PRACTICES,
        aims="more_blocks",
        work_per_thread=-1,
    ),
    _change(
        "split the longest dimension among more blocks and combine their partial results in a "
        "second kernel",
        *("tail", "latency"),
        source="Osama et al. 2023, Stream-K",
        tasks=MULTIPLIES | {TaskKind.MATVEC, TaskKind.ROWS},
        launches=2,
        output_passes=2,
        shown_by="split_inner",
        aims="more_blocks",
        work_per_thread=-1,
    ),
    _change(
        "fuse launches: what needs all blocks is done by the block that finishes last (a counter "
        "behind __threadfence)",
        "launch_overhead",
        source=PROGRAMMING_GUIDE,
        tasks=TOTALS | {TaskKind.SELECTION, TaskKind.HISTOGRAM, TaskKind.ATTENTION},
        shown_by="last_block",
        needs_launches=2,
    ),
    _change(
        "fuse launches: the tile that one kernel writes is what the next reads, kept on chip",
        *("launch_overhead", "dram_bandwidth", "l2_bandwidth"),
        source="Dao et al. 2022, FlashAttention",
        tasks=ANY - TOTALS - {TaskKind.SELECTION, TaskKind.SCAN, TaskKind.HISTOGRAM},
        needs_launches=2,
    ),
    _change(
        "several private copies a block, chosen by warp or lane, and one merge at the end",
        *("atomic_contention", "bank_conflicts"),
        source="Gómez-Luna et al. 2013, histogram computation",
        tasks=frozenset({TaskKind.HISTOGRAM}),
        shown_by="private_copies",
    ),
    _change(
        "combine in registers, then within the warp by shuffles, and only then by one atomic a "
        "block",
        *("atomic_contention", "atomics", "shared_bandwidth"),
        source="Luitjens 2014, faster parallel reductions",
        tasks=TOTALS | {TaskKind.MATVEC},
        shown_by="warp_shuffle",
    ),
    _change(
        "one atomic a warp: lanes that append count themselves by a ballot, and one of them adds",
        *("atomic_contention", "atomics"),
        source="Adinets 2014, warp-aggregated atomics",
        tasks=frozenset({TaskKind.SELECTION}),
        shown_by="warp_aggregated",
    ),
    _change(
        "__reduce_add_sync for whole-number sums within a warp",
        *("shuffle", "atomic_contention"),
        source=PROGRAMMING_GUIDE,
        tasks=frozenset({TaskKind.HISTOGRAM, TaskKind.SELECTION}),
        needs=(8, 0),
        shown_by="warp_reduce",
    ),
    _change(
        "reject earlier: a threshold known before most elements are looked at (the k-th of the "
        "maxima of groups, or of a sample), shared by all blocks",
        *("issue", "int", "latency", "shared_bandwidth", "divergence"),
        source="Gaihre et al. 2021, Dr. Top-k",
        tasks=frozenset({TaskKind.SELECTION}),
        lengths=(1 << 12, ANY_LENGTH[1]),
    ),
    _change(
        "fewer dependent rounds: wider digits, or a histogram of the next digit taken while this "
        "one filters",
        *("latency", "launch_overhead"),
        source="Zhang et al. 2023, parallel top-k algorithms",
        tasks=ORDERS,
        needs_signs=frozenset({"radix_digits"}),
    ),
    _change(
        "more keys a thread, so that more steps of the network or merge stay within a thread or a "
        "warp, without shared memory and barriers",
        *("latency", "shared_bandwidth", "bank_conflicts"),
        source="Batcher 1968, sorting networks",
        tasks=ORDERS,
        needs_signs=frozenset({"bitonic", "merge_path"}),
        aims="more_registers",
        work_per_thread=1,
    ),
    _change(
        "one launch: tiles joined by decoupled look-back, or by sums exchanged within a cluster, "
        "instead of further kernels",
        *("launch_overhead", "latency"),
        source="Merrill & Garland 2016, decoupled look-back",
        tasks=frozenset({TaskKind.SCAN}),
        shown_by="look_back",
        needs_launches=2,
    ),
    _change(
        "look back with a whole warp: its lanes read as many predecessors at once and add up to "
        "the nearest finished prefix",
        "latency",
        source="Merrill & Garland 2016, decoupled look-back",
        tasks=frozenset({TaskKind.SCAN}),
        needs_signs=frozenset({"look_back"}),
    ),
    _change(
        "more elements a thread, so that tiles are fewer and the chain between them shorter",
        *("latency", "issue"),
        source="Merrill & Garland 2016, decoupled look-back",
        tasks=frozenset({TaskKind.SCAN}),
        needs_signs=frozenset({"look_back"}),
        aims="fewer_blocks more_registers",
        work_per_thread=1,
    ),
    _change(
        "several values at once through each exchange, interleaved or packed, so that a block "
        "waits at fewer barriers",
        *("latency", "shuffle"),
        source="Harris 2007, optimizing parallel reduction",
        tasks=ROWWISE | TOTALS | {TaskKind.SCAN},
    ),
    _change(
        "more accumulators a thread, so that sums do not wait for each other and fewer shuffles "
        "remain",
        *("latency", "shuffle", "fp32"),
        source=IN_FLIGHT,
        tasks=MULTIPLIES | WINDOWS | TOTALS | {TaskKind.ROWS, TaskKind.MATVEC},
        shown_by="accumulators",
        aims="more_registers",
    ),
    _change(
        "maximum and sum in one pass, the sum rescaled when the maximum rises",
        *("dram_bandwidth", "l2_bandwidth", "latency", "l1_bandwidth"),
        source="Milakov & Gimelshein 2018, online softmax",
        tasks=EXPONENTIALS,
        lengths=(257, ANY_LENGTH[1]),
        shown_by="online_softmax",
    ),
    _change(
        "exponentials in base two with the factor folded into what they are taken of, each taken "
        "once and kept",
        *("sfu", "issue", "fp32"),
        source="Shah et al. 2024, FlashAttention-3",
        tasks=EXPONENTIALS,
        shown_by="base_two",
    ),
    _change(
        "what a second pass reads again kept in registers or shared memory since the first",
        *("dram_bandwidth", "l2_bandwidth"),
        source="Dao et al. 2022, FlashAttention",
        tasks=ROWWISE | {TaskKind.SCAN, TaskKind.SELECTION, TaskKind.SORTING, TaskKind.SOLVER},
        aims="fewer_bytes",
    ),
    _change(
        "take bounds checks out of the inner loop: a fast path for full tiles, a checked one for "
        "the edges",
        *("divergence", "issue", "int"),
        source=BEST_PRACTICES,
        aims="fewer_instructions",
    ),
    _change(
        "unroll the inner loop with known bounds, hoist the address arithmetic, count in 32 bits",
        *("issue", "int", "latency"),
        source=BEST_PRACTICES,
        shown_by="unrolling",
        aims="unrolling",
    ),
    _change(
        "let whole warps take one branch: map divergent work to warps, not lanes",
        "divergence",
        source=BEST_PRACTICES,
        aims="less_divergence",
    ),
    _change(
        "conversions and special functions out of the inner loop, or fewer of them by another form "
        "of the same formula",
        *("convert", "sfu", "fp64"),
        source=BEST_PRACTICES,
        tasks=COMPUTES,
    ),
    _change(
        "no fill beforehand: let the block that finishes last store the totals, or a kernel that "
        "runs anyway set them to 0",
        *("copies", "launch_overhead"),
        source=PROGRAMMING_GUIDE,
        tasks=TOTALS | {TaskKind.HISTOGRAM, TaskKind.MATVEC},
        needs_fill=True,
    ),
    _change(
        "cache hints: __ldg for what is read again, streaming loads and stores (__ldcs, __stcs) "
        "for what is not",
        *("dram_bandwidth", "l2_bandwidth", "l1_bandwidth"),
        source=BEST_PRACTICES,
        shown_by="cache_hints",
    ),
)

CATALOGUE = (*STRUCTURES, *CHANGES, *REPAIRS)
