"""Structures of kernels by kind of task: the field's known algorithms, and ways to cut a problem
into threads, with the publications that they come from.

Of each kind what is surest to gain comes first.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cuda_llm.agents.techniques.task_kind import TaskKind
from cuda_llm.agents.techniques.technique import CHANGE, STRUCTURE, Technique

BEST_PRACTICES = "NVIDIA, CUDA C++ Best Practices Guide, 2025"
PROGRAMMING_GUIDE = "NVIDIA, CUDA C++ Programming Guide, 2025"
HOPPER_GUIDE = "NVIDIA, Hopper Tuning Guide, 2022"
VECTORS = "Luitjens 2013, vectorized memory access"
IN_FLIGHT = "Volkov 2010, better performance at lower occupancy"
GRID_STRIDE = "Harris 2013, grid-stride loops"
RESIDENT = "Gupta, Stuart & Owens 2012, persistent threads"
CUB = "Merrill 2015, CUB"
CUTLASS = "Kerr et al. 2017, CUTLASS"


def _for(kinds: frozenset[TaskKind], *found: Technique) -> tuple[Technique, ...]:
    """Return the structures of tasks of these kinds."""
    return tuple(replace(one, tasks=kinds) for one in found)


AIMS_OF_SIGNS: Mapping[str, str] = {
    "async_copy": "prefetching",
    "bulk_copy": "prefetching",
    "double_buffering": "prefetching",
    "grid_stride": "fewer_blocks",
    "loads_first": "more_in_flight",
    "padding": "padding",
    "register_blocking": "more_registers",
    "split_inner": "more_blocks",
    "swizzle": "padding",
    "unrolling": "unrolling",
}
"""What a structure brings more of, by its sign."""


def _way(text: str, source: str, *, shown_by: str = "", **traits: Any) -> Technique:
    """Return a structure of any task; `traits` are further fields of a Technique."""
    aims = frozenset(AIMS_OF_SIGNS.get(shown_by, "").split())
    named = {"kinds": STRUCTURE, "aims": aims} | traits
    return Technique(text=text, source=source, shown_by=shown_by, **named)


STRUCTURES = (
    *_for(
        frozenset({TaskKind.ELEMENTWISE}),
        _way(
            "16-byte vector loads and stores (float4 or the like), the last few elements one by "
            "one, as many blocks as that takes",
            VECTORS,
            shown_by="global_vectors",
        ),
        _way(
            "two to four vectors a thread, a block's width apart, all loads issued before the "
            "first value is used",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "a grid that just fills the chip and walks with a grid stride, each thread loading its "
            "next vector before it stores this one",
            RESIDENT,
            shown_by="grid_stride",
        ),
        _way(
            "vector loads and stores marked as streaming, so that what is not read again pushes "
            "nothing out of L2",
            BEST_PRACTICES,
            shown_by="cache_hints",
        ),
        _way(
            "one thread an element behind a bounds check, neighbouring threads on neighbouring "
            "elements; nothing else",
            BEST_PRACTICES,
        ),
    ),
    *_for(
        frozenset({TaskKind.COPY}),
        _way(
            "16-byte vector loads and stores over the flat array, several vectors a thread a "
            "block's width apart, all loaded before the first is stored",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "one 16-byte vector a thread and as many blocks as that takes, the last few elements "
            "one by one",
            VECTORS,
            shown_by="global_vectors",
        ),
        _way(
            "a ring of shared buffers that bulk copies fill and empty, one thread issuing, so that "
            "no register holds data",
            HOPPER_GUIDE,
            needs=(9, 0),
            shown_by="bulk_copy",
        ),
        _way(
            "a grid that just fills the chip and walks with a grid stride, two vectors in flight "
            "for each thread",
            RESIDENT,
            shown_by="grid_stride",
        ),
        _way(
            "vector loads and stores marked as streaming, since nothing is read again",
            BEST_PRACTICES,
            shown_by="cache_hints",
        ),
        _way("one thread an element behind a bounds check; nothing else", BEST_PRACTICES),
    ),
    *_for(
        frozenset({TaskKind.TRANSPOSE}),
        _way(
            "square tiles through shared memory with one column of padding, so that both reads and "
            "writes of global memory are coalesced; each thread moves several rows of its tile",
            "Ruetsch & Micikevicius 2009, matrix transpose",
            shown_by="padding",
        ),
        _way(
            "tiles through shared memory whose column index is swizzled (XOR with the row) instead "
            "of padded, moved as 16-byte vectors on both sides",
            CUTLASS,
            shown_by="swizzle",
        ),
        _way(
            "small square pieces turned around in registers, read and written as 16-byte vectors "
            "where the extents allow, element by element elsewhere",
            "Catanzaro, Keller & Garland 2014, in-place transposition",
            shown_by="register_blocking",
        ),
        _way(
            "pieces exchanged within a warp by shuffles, without shared memory",
            "Catanzaro, Keller & Garland 2014, in-place transposition",
            shown_by="warp_shuffle",
        ),
        _way(
            "tiles wide enough that each row of them is whole cache lines on both sides, all loads "
            "of a thread issued before its first store to shared memory",
            "Hynninen & Lyakh 2017, cuTT",
            shown_by="loads_first",
        ),
        _way(
            "no staging at all: write coalesced and let the read side rely on the caches",
            "Harris 2013, matrix transpose",
        ),
    ),
    *_for(
        frozenset({TaskKind.PERMUTATION}),
        _way(
            "each thread loads one 16-byte vector from the front and its mirror from the back, "
            "turns both around in registers and stores them swapped; where the mirror is not "
            "aligned, narrower accesses on that side; the middle element by element",
            VECTORS,
            shown_by="global_vectors",
        ),
        _way(
            "several pairs a thread, a block's width apart, all loads from both ends issued before "
            "the first store",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "a block owns a tile at either end: both are staged in shared memory, and after a "
            "barrier each is written to the other's place in aligned vectors",
            "Catanzaro, Keller & Garland 2014, in-place transposition",
        ),
        _way(
            "a grid that just fills the chip and walks over the pairs with a grid stride",
            GRID_STRIDE,
            shown_by="grid_stride",
        ),
        _way("one thread a pair, both sides coalesced; nothing else", BEST_PRACTICES),
    ),
    *_for(
        frozenset({TaskKind.SORTING}),
        _way(
            "a bitonic network in one block: several keys a thread in registers, steps within a "
            "thread and a warp's shuffles without barriers, only the widest through shared memory; "
            "more than fits in a block by merging such runs",
            "Batcher 1968, sorting networks",
            shown_by="bitonic",
            lengths=(1, 1 << 15),
        ),
        _way(
            "rank sort over many blocks: a thread counts the keys that come before its own (ties "
            "by place), reading tiles of all keys from shared memory, and writes its key there; "
            "quadratic, but one dependent step",
            "Knuth 1973, comparison counting",
            lengths=(1, 1 << 14),
        ),
        _way(
            "radix sort in one block, a few bits a pass from the lowest up: ranks from ballots and "
            "a scan of the digit counts, keys exchanged through shared memory, floats as integers "
            "of the same order",
            "Merrill & Grimshaw 2011, radix sorting",
            shown_by="radix_digits",
            lengths=(1, 1 << 15),
        ),
        _way(
            "runs sorted in registers, then merged pairwise: each thread finds its part of the "
            "merged run by a binary search along the diagonal, so that all work alike",
            "Green, McColl & Bader 2012, merge path",
            shown_by="merge_path",
        ),
        _way(
            "cub::BlockRadixSort inside a kernel of our own, or several such blocks and a merge",
            CUB,
            library="cub",
            lengths=(1, 1 << 15),
        ),
        _way(
            "the array spread over the shared memory of a cluster's blocks, so that steps wider "
            "than a block are exchanged there and need no launch",
            HOPPER_GUIDE,
            needs=(9, 0),
            lengths=(1 << 11, 1 << 17),
            shown_by="cluster",
        ),
        _way(
            "radix sort with one pass over memory a digit: blocks rank and scatter their tile at "
            "once, the offsets of tiles before it found by decoupled look-back, all digits counted "
            "in one kernel beforehand",
            "Adinets & Merrill 2022, onesweep",
            launches=5,
            shown_by="look_back",
            lengths=(1 << 16, 1 << 40),
        ),
        _way(
            "sample sort: splitters from a sorted sample, keys scattered into buckets that fit a "
            "block, each sorted in shared memory",
            "Leischner, Osipov & Sanders 2010, sample sort",
            launches=3,
            lengths=(1 << 18, 1 << 40),
        ),
    ),
    *_for(
        frozenset({TaskKind.SELECTION}),
        _way(
            "radix select: the k-th key found digit by digit from the highest bits (histogram of "
            "a digit, then only the keys of the bin that holds rank k go on), then what lies above "
            "it is gathered and sorted; floats as integers of the same order",
            "Alabi et al. 2012, k-selection",
            shown_by="radix_digits",
        ),
        _way(
            "many blocks keep the k best of their share in a sorted queue behind a threshold, so "
            "that most elements are rejected by one comparison; the block that finishes last "
            "merges the queues",
            "Johnson, Douze & Jégou 2017, WarpSelect",
            shown_by="last_block",
        ),
        _way(
            "bitonic top-k: runs of k sorted in registers and shared memory, then pairs of runs "
            "merged, of which only the upper half is kept, until one run is left",
            "Shanbhag, Pirk & Madden 2018, bitonic top-k",
            shown_by="bitonic",
        ),
        _way(
            "a threshold from a sorted sample that somewhat more than k elements exceed: those are "
            "compacted in one pass (one atomic a warp) and sorted; too few of them, and the "
            "threshold is lowered",
            "Ribizel & Anzt 2020, sample selection",
            shown_by="warp_aggregated",
        ),
        _way(
            "delegates first: the largest of each small group; the k-th of the delegates bounds "
            "the answer, so that only groups whose delegate reaches it are looked at again",
            "Gaihre et al. 2021, Dr. Top-k",
            lengths=(1 << 14, 1 << 40),
        ),
        _way(
            "radix select in one kernel: keys stay in the registers or shared memory of blocks "
            "that are all resident, counts of a digit meet in the memory of a cluster or behind a "
            "grid-wide barrier, and no key is read from memory twice",
            "Zhang et al. 2023, parallel top-k algorithms",
            needs=(9, 0),
            shown_by="cluster",
        ),
        _way(
            "one block sorts everything in registers and shared memory and writes the first k",
            "Batcher 1968, sorting networks",
            lengths=(1, 1 << 13),
        ),
    ),
    *_for(
        frozenset({TaskKind.SCAN}),
        _way(
            "one pass with decoupled look-back: a block scans its tile, publishes the tile's sum "
            "and then its inclusive prefix, each value with its flag in one word, and a warp looks "
            "back over predecessors until it meets a prefix; tiles are handed out by a counter",
            "Merrill & Garland 2016, decoupled look-back",
            shown_by="look_back",
        ),
        _way(
            "one block for all of a short array: each thread scans several elements in registers "
            "(16-byte loads), warps by shuffles, their totals by one warp",
            "Harris, Sengupta & Owens 2007, parallel prefix sum",
            lengths=(1, 1 << 14),
        ),
        _way(
            "reduce, then scan: blocks add up their tiles, and each then scans its tile behind the "
            "sum of all totals before it, which it adds up itself from the few totals in L2",
            "Sengupta, Harris & Garland 2008, scan",
            launches=2,
        ),
        _way(
            "all tiles in the registers of blocks that are resident at once: sums exchanged over "
            "the shared memory of a cluster or a grid-wide barrier, so that each element is read "
            "and written once",
            PROGRAMMING_GUIDE,
            needs=(7, 0),
            shown_by="grid_sync",
        ),
        _way(
            "a chain: blocks take tiles in the order in which they start, add up their tile while "
            "the one before is at work, and hand the running sum on",
            "Yan, Long & Zhang 2013, StreamScan",
            shown_by="look_back",
        ),
        _way(
            "16-byte loads turned from striped to blocked order through shared memory, each thread "
            "scanning 8 to 16 elements of its own in registers before any exchange",
            CUB,
            shown_by="global_vectors",
        ),
        _way(
            "cub::BlockScan inside a kernel of our own, tiles joined by decoupled look-back",
            CUB,
            library="cub",
        ),
    ),
    *_for(
        frozenset({TaskKind.HISTOGRAM}),
        _way(
            "a private copy of the outputs for each block in shared memory, 16-byte loads of the "
            "keys, copies merged by global atomics; global atomics alone where they do not fit",
            "Podlozhnyuk 2007, histogram calculation",
            shown_by="global_vectors",
        ),
        _way(
            "several copies a block, by warp or lane, the copies of a bin in different banks, "
            "added up before the block touches global memory",
            "Gómez-Luna et al. 2013, histogram computation",
            shown_by="private_copies",
        ),
        _way(
            "a grid that just fills the chip: each block counts a long stretch into its own copy, "
            "so that few copies are merged",
            CUB,
            shown_by="grid_stride",
        ),
        _way(
            "runs of equal keys counted in a register first: one atomic when the key changes",
            CUB,
        ),
        _way(
            "lanes of a warp with equal keys found by __match_any_sync; one of them adds for all",
            "Adinets 2014, warp-aggregated atomics",
            kinds=STRUCTURE | CHANGE,
            against=("atomic_contention",),
            needs=(7, 0),
            shown_by="match_any",
        ),
        _way(
            "blocks of a cluster share one set of outputs over their shared memory, each holding a "
            "part of the bins",
            HOPPER_GUIDE,
            needs=(9, 0),
            shown_by="cluster",
        ),
        _way(
            "partial results of each block written to scratch memory without atomics, a second "
            "kernel adds them up column by column",
            "Nugteren et al. 2011, predictable histogramming",
            launches=2,
        ),
    ),
    *_for(
        frozenset({TaskKind.REDUCTION}),
        _way(
            "16-byte loads, four accumulators a thread, warp shuffles, one value a warp through "
            "shared memory, one atomicAdd a block",
            "Luitjens 2014, faster parallel reductions",
            shown_by="warp_shuffle",
        ),
        _way(
            "one launch: blocks leave partial sums in scratch memory, and the block that finishes "
            "last (a counter behind __threadfence) adds them up",
            PROGRAMMING_GUIDE,
            shown_by="last_block",
        ),
        _way(
            "one block of many threads for short arrays, unrolled vector loads in each, so that "
            "nothing is left to combine; more blocks only beyond a length",
            "Harris 2007, optimizing parallel reduction",
            lengths=(1, 1 << 14),
        ),
        _way(
            "as few blocks as keep memory busy, all loads of a thread's next few vectors issued "
            "before they are added",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "a cluster of blocks whose partial sums meet in one block's shared memory, one atomic "
            "or store a cluster",
            HOPPER_GUIDE,
            needs=(9, 0),
            shown_by="cluster",
        ),
        _way(
            "cub::BlockReduce inside a kernel of our own, one partial sum a block",
            CUB,
            library="cub",
        ),
        _way(
            "two kernels: each block leaves a partial sum in scratch memory, a second small kernel "
            "adds those up",
            "Harris 2007, optimizing parallel reduction",
            launches=2,
        ),
        _way(
            "a tree in shared memory over a block's tile, halved until one warp is left, the rest "
            "by shuffles",
            "Harris 2007, optimizing parallel reduction",
        ),
    ),
    *_for(
        frozenset({TaskKind.ROWS}),
        _way(
            "a warp a row: the row stays in registers as 16-byte vectors between the reduction by "
            "shuffles and the write, so that memory is read once; several rows a block",
            "Luitjens 2014, faster parallel reductions",
            lengths=(33, 1 << 11),
            shown_by="warp_shuffle",
        ),
        _way(
            "a block a row, each thread holding its part of the row in registers as 16-byte "
            "vectors (length by template) until the row's statistics are known: one read, one "
            "write",
            IN_FLIGHT,
            lengths=(513, 1 << 14),
            shown_by="register_blocking",
        ),
        _way(
            "one pass that keeps running statistics (a maximum with a sum that is rescaled, or "
            "sums that are merged), then one that writes, whose reads hit the cache",
            "Milakov & Gimelshein 2018, online softmax",
            lengths=(257, 1 << 40),
            shown_by="online_softmax",
        ),
        _way(
            "warp, block or several blocks a row, chosen on the host by row length and number of "
            "rows, each by its own template",
            "Milakov & Gimelshein 2018, online softmax",
        ),
        _way(
            "a long row kept in shared memory, brought there by asynchronous copies while the "
            "statistics of what has arrived are taken: one read of global memory however the row "
            "exceeds the registers",
            HOPPER_GUIDE,
            needs=(8, 0),
            lengths=(4097, 1 << 17),
            shown_by="async_copy",
        ),
        _way(
            "a cluster of blocks a long row: each holds its part, and statistics are exchanged "
            "over the cluster's shared memory",
            HOPPER_GUIDE,
            needs=(9, 0),
            lengths=(8193, 1 << 40),
            shown_by="cluster",
        ),
        _way(
            "few, long rows split among blocks: partial statistics of each part in scratch memory, "
            "a second kernel combines them and writes",
            "Milakov & Gimelshein 2018, online softmax",
            lengths=(1 << 15, 1 << 40),
            launches=2,
        ),
        _way(
            "blocks that stay and walk over rows, the loads of the next row issued before this "
            "row's reduction ends",
            RESIDENT,
            shown_by="grid_stride",
        ),
        _way(
            "a thread a short row, held in registers, neighbouring rows brought in coalesced "
            "through shared memory",
            BEST_PRACTICES,
            lengths=(1, 32),
        ),
    ),
    *_for(
        frozenset({TaskKind.COLUMNS}),
        _way(
            "a thread a position: it walks the reduced axis with all values in registers (length "
            "by template, a loop beyond), so that statistics need no exchange and memory is read "
            "once; neighbouring threads on neighbouring positions",
            IN_FLIGHT,
            lengths=(1, 32),
            shown_by="register_blocking",
        ),
        _way(
            "four neighbouring positions a thread as 16-byte vectors along the contiguous axis, "
            "the values of all of them in registers; a scalar path where the extent is no multiple "
            "of four",
            VECTORS,
            shown_by="global_vectors",
        ),
        _way(
            "all loads along the reduced axis issued before the first value is used, two groups of "
            "positions a thread",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "vector loads and stores marked as streaming: every element is read once and written "
            "once",
            BEST_PRACTICES,
            shown_by="cache_hints",
        ),
        _way(
            "positions across the lanes of a warp, the reduced axis split among the warps of a "
            "block, mean and squared deviations of the parts merged through shared memory",
            "Chan, Golub & LeVeque 1983, variance",
            lengths=(33, 1 << 40),
        ),
        _way(
            "a grid that just fills the chip and walks over positions with a grid stride, the "
            "next position's loads before this one's stores",
            RESIDENT,
            shown_by="grid_stride",
        ),
        _way(
            "one pass with a running mean and squared deviation, a second that reads again and "
            "writes, for axes too long for registers",
            "Welford 1962, corrected sums of squares",
            lengths=(65, 1 << 40),
        ),
    ),
    *_for(
        frozenset({TaskKind.ROW_LOSS}),
        _way(
            "a thread a row, the whole row in registers by the widest loads that its alignment "
            "allows, losses added in a register over a grid stride, then shuffles and one partial "
            "sum a block",
            "Luitjens 2014, faster parallel reductions",
            lengths=(1, 64),
            shown_by="register_blocking",
        ),
        _way(
            "a block brings a contiguous stretch of rows into shared memory by 16-byte loads, then "
            "each thread works on a row of its own, rows padded where their stride would meet one "
            "bank",
            BEST_PRACTICES,
            lengths=(1, 128),
            shown_by="global_vectors",
        ),
        _way(
            "so many neighbouring rows a thread that they begin and end on 16-byte boundaries: "
            "vector loads of all of them first, then the rows one after the other from registers",
            VECTORS,
            lengths=(1, 64),
            shown_by="loads_first",
        ),
        _way(
            "a grid that just fills the chip, tiles of rows brought into two shared buffers by "
            "asynchronous copies, the next while this one is worked on",
            RESIDENT,
            needs=(8, 0),
            shown_by="async_copy",
        ),
        _way(
            "one launch: blocks leave the sum of their rows' results in scratch memory, and the "
            "block that finishes last (a counter behind __threadfence) adds those up",
            PROGRAMMING_GUIDE,
            shown_by="last_block",
        ),
        _way(
            "a power of two of lanes shares a row: maximum and sum by shuffles among them, several "
            "rows a warp",
            "Luitjens 2014, faster parallel reductions",
            lengths=(8, 1 << 10),
            shown_by="warp_shuffle",
        ),
        _way(
            "a block a row with one pass that keeps maximum and rescaled sum together",
            "Milakov & Gimelshein 2018, online softmax",
            lengths=(513, 1 << 40),
            shown_by="online_softmax",
        ),
    ),
    *_for(
        frozenset({TaskKind.PRODUCT}),
        _way(
            "tensor cores by wgmma: 64 rows or more a group of four warps, operands in swizzled "
            "shared tiles that bulk tensor copies fill several stages ahead, one warp issuing",
            "Thakkar et al. 2023, CUTLASS 3",
            needs=(9, 0),
            newest=(9, 0),
            tensor=True,
            shown_by="tensor_mma",
        ),
        _way(
            "tensor cores by mma.sync with fragments from ldmatrix, fp32 accumulators, 128 x 128 "
            "tiles a block, three or four stages of cp.async",
            CUTLASS,
            needs=(8, 0),
            tensor=True,
            shown_by="async_copy",
        ),
        _way(
            "register blocking: 8 x 8 outputs a thread from shallow shared tiles, the left one "
            "stored transposed, both read as 16-byte vectors",
            "Volkov & Demmel 2008, dense linear algebra",
            shown_by="register_blocking",
            cores_only=True,
        ),
        _way(
            "tiles of outputs for each warp within the block's: lanes hold fragments of both "
            "operands in registers and walk the shared tile together",
            CUTLASS,
            shown_by="shared_vectors",
            cores_only=True,
        ),
        _way(
            "two shared buffers: the next tile is loaded into registers while this one is "
            "multiplied, one barrier a step",
            "Nath, Tomov & Dongarra 2010, MAGMA",
            shown_by="double_buffering",
            cores_only=True,
        ),
        _way(
            "blocks ordered so that those at work together share rows and columns of tiles in L2",
            "Tillet, Kung & Cox 2019, Triton",
            shown_by="tile_order",
        ),
        _way(
            "stream-K: as many blocks as fit at once, each an equal share of all steps of all "
            "tiles, partial tiles added up by the block that owns the tile",
            "Osama et al. 2023, Stream-K",
            shown_by="split_inner",
        ),
        _way(
            "the inner dimension split among blocks, partial results in scratch memory, added up "
            "by a second kernel",
            CUTLASS,
            launches=2,
            shown_by="split_inner",
        ),
        _way(
            "square tiles of both inputs in shared memory, one output a thread",
            PROGRAMMING_GUIDE,
            words_per_fma=2.0,
        ),
    ),
    *_for(
        frozenset({TaskKind.PRODUCT_CHAIN}),
        _way(
            "one kernel for the products that share an input: both accumulated from the same "
            "staged rows on tensor cores, the pointwise step between them applied in registers "
            "before the write; another kernel for the next product",
            CUTLASS,
            launches=2,
            needs=(8, 0),
            tensor=True,
            shown_by="tensor_mma",
        ),
        _way(
            "two paths: for few rows each warp streams rows of the weights once by 16-byte loads "
            "and keeps all its sums in registers, for many rows tensor-core tiles",
            "Abdelfattah, Keyes & Ltaief 2016, KBLAS",
            needs=(8, 0),
            tensor=True,
        ),
        _way(
            "tensor cores by wgmma, weights brought into swizzled shared tiles by bulk tensor "
            "copies several stages ahead",
            "Thakkar et al. 2023, CUTLASS 3",
            needs=(9, 0),
            newest=(9, 0),
            tensor=True,
            shown_by="bulk_copy",
        ),
        _way(
            "the inner dimension of the product with few tiles split among blocks, their sums in "
            "scratch memory added by the block that finishes last",
            "Osama et al. 2023, Stream-K",
            shown_by="split_inner",
        ),
        _way(
            "128 x 128 tiles on mma.sync with cp.async in stages, the normalisation or other step "
            "before the product folded into the epilogue as a factor of the row",
            CUTLASS,
            needs=(8, 0),
            tensor=True,
            shown_by="async_copy",
        ),
        _way(
            "register blocking: 8 x 8 outputs a thread from shared tiles, both read as 16-byte "
            "vectors, a kernel for each product",
            "Volkov & Demmel 2008, dense linear algebra",
            shown_by="register_blocking",
        ),
        _way(
            "all products in one resident grid: blocks take tiles of the next product as soon as "
            "the rows that they need are counted as done",
            RESIDENT,
            shown_by="grid_sync",
        ),
        _way(
            "two shared buffers: the next tile is loaded while this one is multiplied",
            "Nath, Tomov & Dongarra 2010, MAGMA",
            shown_by="double_buffering",
        ),
    ),
    *_for(
        frozenset({TaskKind.MATVEC}),
        _way(
            "a warp a row: 16-byte loads of the row, several in flight, a shuffle reduction; the "
            "vector from the caches",
            "Bell & Garland 2009, matrix-vector products",
            shown_by="warp_shuffle",
        ),
        _way(
            "several rows a warp at once, so that each piece of the vector serves all of them from "
            "registers",
            "Abdelfattah, Keyes & Ltaief 2016, KBLAS",
            shown_by="register_blocking",
        ),
        _way(
            "columns split among blocks where rows are few, partial sums added by atomics",
            "Abdelfattah, Keyes & Ltaief 2016, KBLAS",
            shown_by="split_inner",
        ),
        _way(
            "the vector staged in shared memory once a block, blocks that stay and walk over rows",
            RESIDENT,
            shown_by="grid_stride",
        ),
        _way(
            "a block a row for long rows, each thread adding in four accumulators",
            "Harris 2007, optimizing parallel reduction",
            shown_by="accumulators",
        ),
    ),
    *_for(
        frozenset({TaskKind.SPARSE}),
        _way(
            "a power of two of lanes a row, near the mean number of its elements, sums by shuffles",
            "Bell & Garland 2009, matrix-vector products",
            shown_by="warp_shuffle",
        ),
        _way(
            "equal shares of rows and elements together for each thread, found by a search along "
            "the merge path; sums of rows that cross shares are completed afterwards",
            "Merrill & Garland 2016, merge-based SpMV",
            shown_by="merge_path",
        ),
        _way(
            "rows grouped so that a block's elements fit shared memory: products staged there "
            "coalesced, then added up by row; long rows by a block of their own",
            "Greathouse & Daga 2014, CSR-Adaptive",
        ),
        _way(
            "with a dense matrix on the right: a warp a row, lanes across the columns of the "
            "output, elements of the row by broadcast",
            "Yang, Buluç & Owens 2018, sparse matrix products",
        ),
        _way(
            "a thread a row, neighbouring rows to neighbouring threads; right for very short rows",
            "Bell & Garland 2009, matrix-vector products",
        ),
    ),
    *_for(
        frozenset({TaskKind.ATTENTION}),
        _way(
            "one kernel over tiles of keys on tensor cores: scores and output as mma.sync "
            "fragments with fp32 accumulators and a running softmax, each warp its own rows of "
            "queries, keys and values by cp.async in two stages, tiles wholly behind the mask "
            "skipped",
            "Dao 2023, FlashAttention-2",
            needs=(8, 0),
            tensor=True,
            shown_by="tensor_mma",
        ),
        _way(
            "tiles of keys by wgmma, one group of warps copying (bulk tensor copies) and two "
            "multiplying in turn, so that one's exponentials hide behind the other's products",
            "Shah et al. 2024, FlashAttention-3",
            needs=(9, 0),
            newest=(9, 0),
            tensor=True,
            shown_by="bulk_copy",
        ),
        _way(
            "one kernel over tiles of keys: a tile of queries stays on chip, scores are never "
            "written, the softmax is kept by a running maximum and sum with the output rescaled",
            "Dao et al. 2022, FlashAttention",
            shown_by="online_softmax",
        ),
        _way(
            "a register tile of scores a thread (several queries by several keys) from shared "
            "tiles read as 16-byte vectors, the same threads holding a tile of the output",
            "Volkov & Demmel 2008, dense linear algebra",
            shown_by="register_blocking",
            cores_only=True,
        ),
        _way(
            "short sequences: all keys and values of a head in shared memory, a few queries a "
            "warp, lanes over keys for the scores and over columns for the output",
            "Dao et al. 2022, FlashAttention",
            lengths=(1, 1 << 9),
            shown_by="warp_shuffle",
            cores_only=True,
        ),
        _way(
            "keys split among blocks where queries and heads are too few to fill the chip: each "
            "keeps its maximum, sum and output, which the block that finishes last combines",
            "Dao et al. 2023, Flash-Decoding",
            lengths=(1, 1 << 12),
            shown_by="split_inner",
        ),
        _way(
            "keys and values in two shared buffers filled by asynchronous copies, the next tile "
            "under way while this one is worked on",
            "Dao 2023, FlashAttention-2",
            needs=(8, 0),
            shown_by="async_copy",
        ),
        _way(
            "softmax in base two with the scale folded into the queries, the rescaling skipped "
            "where a tile raises no maximum",
            "Shah et al. 2024, FlashAttention-3",
            shown_by="base_two",
        ),
        _way(
            "three kernels: scores, softmax by rows, product with the values, each tiled in "
            "shared memory",
            "Vaswani et al. 2017, attention",
            launches=3,
        ),
    ),
    *_for(
        frozenset({TaskKind.CONVOLUTION}),
        _way(
            "several neighbouring outputs a thread along a row: a strip of the input slides "
            "through registers, so that each value loaded serves several windows",
            "Iandola et al. 2013, convolution in registers",
            shown_by="register_blocking",
        ),
        _way(
            "an input tile with its halo in shared memory, a small square of outputs a thread, "
            "weights in __constant__ memory (copied device to device)",
            "Podlozhnyuk 2007, image convolution",
            shown_by="constant_memory",
        ),
        _way(
            "a window that slides down in registers: each thread owns columns of outputs and loads "
            "every input row once, several output rows in flight as accumulators",
            "Micikevicius 2009, finite differences",
            shown_by="accumulators",
        ),
        _way(
            "as a product: windows gathered tile by tile into shared memory against the weights, "
            "with the register blocking of a matrix product",
            "Chetlur et al. 2014, cuDNN",
            shown_by="shared_vectors",
        ),
        _way(
            "no shared memory: loads through the read-only path, many outputs a thread, the loop "
            "over the window unrolled",
            "Volkov 2010, better performance at lower occupancy",
            shown_by="unrolling",
        ),
        _way(
            "rows of the input held by a warp, neighbours' values fetched by shuffles as the "
            "window slides",
            "Chen et al. 2019, SSAM",
            shown_by="warp_shuffle",
        ),
        _way(
            "minimal filtering for 3 x 3 windows over many channels: tiles of 4 x 4 or 6 x 6 "
            "transformed, multiplied channel by channel, transformed back",
            "Lavin & Gray 2016, Winograd convolution",
            least_rank=4,
        ),
        _way(
            "an input tile with its halo in shared memory, the small operand there as well, one "
            "output a thread",
            "Podlozhnyuk 2007, image convolution",
            words_per_fma=2.0,
        ),
    ),
    *_for(
        frozenset({TaskKind.WINDOW}),
        _way(
            "extent, stride and dilation of the window as template parameters for the usual ones, "
            "taps unrolled; the first and last valid tap of each axis computed once a thread "
            "instead of a check a tap",
            BEST_PRACTICES,
            shown_by="unrolling",
        ),
        _way(
            "axis by axis: combine along the contiguous axis first, keep that in registers, and "
            "combine rows and planes of partial results, which neighbouring outputs share",
            "van Herk 1992, maximum filters",
        ),
        _way(
            "blocks walk along the slowest axis with the planes that the window needs kept in "
            "shared memory or registers, so that each plane is loaded once",
            "Micikevicius 2009, finite differences",
        ),
        _way(
            "several outputs a thread along the contiguous axis, input rows read as 16-byte "
            "vectors where alignment allows, all loads of a row issued before they are combined",
            IN_FLIGHT,
            shown_by="loads_first",
        ),
        _way(
            "the input tile with its halo staged in shared memory by coalesced loads, windows read "
            "from there, borders filled with the neutral value",
            "Podlozhnyuk 2007, image convolution",
        ),
        _way(
            "blocks of outputs wholly inside without any check, those at the border by a path of "
            "their own; indices split into axes once by block and thread, no division an output",
            "Nguyen et al. 2010, 3.5-D blocking",
        ),
    ),
    *_for(
        frozenset({TaskKind.SOLVER}),
        _way(
            "one pass sets up the small system: each thread adds the products of its rows into "
            "registers (the triangle alone, number of columns by template), shuffles, partial "
            "systems in scratch memory; the block that finishes last adds them and solves by "
            "Cholesky in one warp",
            "Golub & Van Loan 2013, normal equations",
            shown_by="last_block",
        ),
        _way(
            "rows come into shared memory by 16-byte loads over the flat array, then each thread "
            "owns one product of columns, or a small square of them, over the tile's rows",
            "Volkov & Demmel 2008, dense linear algebra",
            shown_by="global_vectors",
        ),
        _way(
            "a warp takes rows in turn, its lanes each a few of the column products, operands by "
            "broadcast from shared memory or shuffles; accumulators never leave registers",
            "Haidar et al. 2015, batched computations",
            shown_by="warp_shuffle",
        ),
        _way(
            "blocks that stay and keep their sums in registers, while tiles of rows come into two "
            "shared buffers by asynchronous copies, the next under way as this one is used",
            RESIDENT,
            needs=(8, 0),
            shown_by="async_copy",
        ),
        _way(
            "two kernels: partial systems by all blocks, then one block that adds them up pairwise "
            "and solves",
            "Golub & Van Loan 2013, normal equations",
            launches=2,
        ),
        _way(
            "triangular factors of blocks of rows, combined pairwise to the factor of all rows, "
            "then one substitution",
            "Demmel et al. 2012, communication-optimal QR",
        ),
    ),
    *_for(
        frozenset({TaskKind.GENERATOR}),
        _way(
            "a counter-based generator (Philox): the thread's place is the counter, four numbers a "
            "call, stored as one 16-byte vector; no state in memory",
            "Salmon et al. 2011, counter-based generators",
            shown_by="global_vectors",
        ),
        _way(
            "a grid that just fills the chip, each thread stepping its counter by the whole grid",
            GRID_STRIDE,
            shown_by="grid_stride",
        ),
        _way(
            "several independent counters a thread, so that their rounds overlap",
            IN_FLIGHT,
            shown_by="accumulators",
        ),
        _way(
            "what all outputs share computed once a block in shared memory, the rest in registers",
            BEST_PRACTICES,
        ),
        _way("one thread an element behind a bounds check; nothing is kept", BEST_PRACTICES),
    ),
)
