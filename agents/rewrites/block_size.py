"""Other sizes of the block that a kernel is launched with."""

from cuda_llm.agents.rewrites.block_extents import (
    BlockExtent,
    Edits,
    block_extents,
    renumbered_grid,
    scaled_arrays,
)
from cuda_llm.agents.rewrites.kernel_source import KernelSource, Launch, read_kernels

THREADS = (64, 128, 256, 512, 1024)
SHAPES = (32004, 32008, 32016, 64002, 64004, 64008, 128002, 128004, 16016)
"""Blocks of two extents as `1000 * x + y`."""
TILES = (8, 16, 32)
MOST_THREADS = 1024


def block_threads(text: str, value: int) -> str | None:
    """Return the source with one-dimensional blocks of `value` threads."""
    source = read_kernels(text)
    edits: Edits = {}
    for launch in source.launches:
        extents = block_extents(source, launch)
        if len(extents) == 1 and extents[0].value != value:
            edits |= _resized(source, launch, extents[0], value)
    return source.edited(edits) if edits else None


def block_shape(text: str, value: int) -> str | None:
    """Return the source with two-dimensional blocks of `value // 1000` by `value % 1000` threads,
    where two numbers say their extents."""
    source = read_kernels(text)
    wanted = divmod(value, 1000)
    edits: Edits = {}
    for launch in source.launches:
        extents = block_extents(source, launch)
        apart = len({one.literal.start_byte for one in extents})
        if apart == len(extents) == 2 and tuple(one.value for one in extents) != wanted:
            for extent, new in zip(extents, wanted, strict=True):
                edits |= _resized(source, launch, extent, new)
    return source.edited(edits) if edits else None


def tile_edge(text: str, value: int) -> str | None:
    """Return the source with square blocks of `value` by `value` threads, where a constant names
    their edge."""
    source = read_kernels(text)
    edits: Edits = {}
    for launch in source.launches:
        extents = block_extents(source, launch)
        together = len(extents) == 2 and len({one.literal.start_byte for one in extents}) == 1
        if together and extents[0].value != value and extents[0].constant:
            edits |= _resized(source, launch, extents[0], value)
    return source.edited(edits) if edits else None


def _resized(source: KernelSource, launch: Launch, extent: BlockExtent, new: int) -> Edits:
    edits: Edits = {(extent.literal.start_byte, extent.literal.end_byte): str(new)}
    edits |= renumbered_grid(source, launch, extent, new)
    if not extent.constant:
        for kernel in source.kernels:
            if kernel.name == launch.kernel:
                edits |= scaled_arrays(source, kernel, extent.value, str(new))
    return edits
