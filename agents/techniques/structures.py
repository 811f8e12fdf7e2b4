"""Structures of kernels by kind of work: ways to cut a problem into threads."""

from dataclasses import replace

from cuda_llm.agents.techniques.technique import (
    ACCUMULATES,
    CHANGE,
    REARRANGES,
    REUSES,
    SCATTERS,
    SLIDES,
    STREAMS,
    STRUCTURE,
    Technique,
    Work,
)


def _structure(
    work: frozenset[Work], *texts: str, shown_by: str = "", words: float = 0.0, launches: int = 1
) -> tuple[Technique, ...]:
    """Return one technique a text; `shown_by` names what shows each, `-` where nothing does."""
    signs = [sign.strip("-") for sign in (shown_by.split() or ["-"] * len(texts))]
    plain = Technique(text="", kinds=STRUCTURE, work=work, words_per_fma=words, launches=launches)
    return tuple(
        replace(plain, text=text, shown_by=sign) for text, sign in zip(texts, signs, strict=True)
    )


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
        shown_by="- global_vectors grid_stride - -",
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
        shown_by="padding swizzle - - warp_shuffle -",
    ),
    *_structure(
        ACCUMULATES,
        "two kernels: each block leaves a partial sum in scratch memory, a second small kernel "
        "adds those up",
        launches=2,
    ),
    *_structure(
        ACCUMULATES,
        "grid-stride partial sums in registers, warp shuffles, one value a warp through shared "
        "memory, one atomicAdd a block on an output set to 0 beforehand",
        "16-byte loads and four independent accumulators a thread, then a shuffle reduction",
        "one launch: the block that finishes last (a counter in scratch memory behind "
        "__threadfence) adds up the partial sums",
        "a tree in shared memory over a block's tile, halved until one warp is left, the rest by "
        "shuffles",
        "as few blocks as keep memory busy, long loops in each, so that almost nothing is left to "
        "combine",
        shown_by="warp_shuffle - last_block - -",
    ),
    Technique(
        text="cub::BlockReduce inside a kernel of our own, partial sums combined by a second one",
        kinds=STRUCTURE,
        work=ACCUMULATES,
        library="cub",
        launches=2,
    ),
    *_structure(
        SCATTERS,
        "a private copy of the outputs for each block in shared memory, merged by global atomics; "
        "global atomics alone where they do not fit",
        "a private copy for each warp of a block in shared memory, the copies added up before the "
        "block touches global memory",
        "runs of equal keys counted in a register first: one atomic when the key changes",
        "16-byte loads, several keys a thread in flight, then atomics on the block's own copy",
        "outputs divided among blocks: each block counts only its range of keys and reads "
        "everything",
        shown_by="- private_copies - global_vectors -",
    ),
    *_structure(
        SCATTERS,
        "partial results of each block written to scratch memory without atomics, a second kernel "
        "adds them up column by column",
        launches=2,
    ),
    Technique(
        text="lanes of a warp with equal keys found by __match_any_sync; one of them adds for all",
        kinds=STRUCTURE | CHANGE,
        work=SCATTERS,
        against=("atomic_contention",),
        needs=(7, 0),
        shown_by="match_any",
    ),
    *_structure(
        REUSES, "square tiles of both inputs in shared memory, one output a thread", words=2.0
    ),
    *_structure(
        REUSES,
        "register blocking: each thread owns a small square of outputs (4 x 4 or 8 x 8) and feeds "
        "it from shared tiles, the left one stored transposed",
        "tiles of outputs for each warp: lanes hold fragments of both operands in registers and "
        "walk the shared tile together",
        "long strips: each thread owns a column of outputs, the other operand's values come by "
        "broadcast from shared memory",
        "two shared buffers: the next tile is loaded into registers while this one is multiplied",
        shown_by="register_blocking - - double_buffering",
    ),
    *_structure(
        REUSES,
        "the inner dimension split among blocks, partial results in scratch memory, added up by a "
        "second kernel",
        launches=2,
    ),
    *_structure(
        SLIDES,
        "an input tile with its halo in shared memory, the small operand in shared memory as well, "
        "one output a thread",
        words=2.0,
    ),
    *_structure(
        SLIDES,
        "several neighbouring outputs a thread, so that each loaded value serves several windows "
        "from registers",
        "a window that slides down in registers: each thread walks a column and loads every input "
        "row once",
        "the small operand in __constant__ memory (copied by cudaMemcpyToSymbolAsync, device to "
        "device), read by all lanes at one address",
        "no shared memory: __ldg loads and the caches, many outputs a thread, the loop over the "
        "window unrolled",
        "separate paths for blocks wholly inside, without any bounds check, and those at the edge",
        shown_by="register_blocking - constant_memory - -",
    ),
)
