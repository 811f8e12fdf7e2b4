"""Kernels around a timed call in a runner's graph, launched on a stream of this process.

A library's call is then timed as a candidate's call is: other copies and fills before a call of few
microseconds change its time by a fourth.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from cuda_llm.tools.cuda.protocol import SealCall, SealRegion
from cuda_llm.tools.cuda.sealing import (
    TAG_BLOCKS,
    THREADS,
    GpuSealing,
    SealedColumn,
    blocks_for,
    launch,
    sealing_key,
    tagging_key,
)
from cuda_llm.tools.device.buffers import Array, Arrays

_BLOCKS_PER_SM = 8
"""Blocks per SM of every launch, as in `native/runner/seal_kernels.cpp`."""


class StepKernels:
    """The kernels of `native/seal.cu` for one step of a batch, on CuPy's current stream."""

    def __init__(self, arrays: Arrays, cubin: Path, sm_count: int, flush_bytes: int) -> None:
        """Load the kernels of `cubin`. `arrays` are CuPy's; `flush_bytes` flush L2."""
        self.sealing = GpuSealing(arrays, cubin)
        self._xp = arrays.xp
        module = arrays.xp.RawModule(path=str(cubin))
        self._open = module.get_function("open_inputs")
        self._flush = module.get_function("flush")
        self._tag = module.get_function("tag_outputs")
        self._most_blocks = _BLOCKS_PER_SM * sm_count
        self.flushed = arrays.xp.empty(max(16, flush_bytes), dtype="uint8")
        """Device memory that is written to flush L2."""

    def on_stream(self, handle: int) -> AbstractContextManager[object]:
        """Launch on this stream, which may be capturing, while the context is open."""
        stream: AbstractContextManager[object] = self._xp.cuda.ExternalStream(handle)
        return stream

    def open(
        self, sealed: Sequence[SealedColumn], opened: Sequence[Array], slot: int, key: bytes
    ) -> None:
        """Decrypt one slot, from each sealed column to the array at the same index of `opened`."""
        regions = [
            _region(column, slot, to=_address(to, slot))
            for column, to in zip(sealed, opened, strict=True)
        ]
        if regions:
            blocks = blocks_for(max(one.bytes for one in regions), 16)
            call = _call(regions, slot, sealing_key(key))
            launch(self._open, call, min(self._most_blocks, blocks))

    def flush(self, value: int) -> None:
        """Write memory for which L2 has room, and for nothing else."""
        to, blocks = self.flushed.data.ptr, self.flushed.nbytes // 16
        given = (np.uint64(to), np.uint64(blocks), np.uint32(value))
        self._flush((self._most_blocks, 1, 1), (THREADS, 1, 1), given)

    def tag(self, outputs: Sequence[SealedColumn], slot: int, key: bytes) -> None:
        """Compute the tags of one slot, and drop them."""
        regions = [_region(column, slot, to=0) for column in outputs]
        if regions:
            blocks = blocks_for(max(one.bytes for one in regions), 4)
            call = _call(regions, slot, tagging_key(key))
            launch(self._tag, call, min(TAG_BLOCKS, blocks))


def _address(rows: Any, slot: int) -> int:
    address: int = rows.data.ptr + slot * rows.strides[0]
    return address


def _region(column: SealedColumn, slot: int, *, to: int) -> SealRegion:
    rows = column.rows
    size_bytes = rows.shape[1]
    return SealRegion(to=to, from_=_address(rows, slot), bytes=size_bytes, index=column.index)


def _call(regions: Sequence[SealRegion], slot: int, key: tuple[int, int]) -> SealCall:
    call = SealCall(slot=slot, count=len(regions))
    call.regions[: len(regions)] = regions
    call.key[:] = key
    return call
