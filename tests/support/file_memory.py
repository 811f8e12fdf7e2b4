"""Memory that stands in for a GPU's: files that runners open by their paths, and a limit to it."""

import mmap
import os
import tempfile

import numpy as np

from cuda_llm.tools.cuda.memory import column_strides
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.device.buffers import HOST, Array

HANDLE_BYTES = 64


class FileMemory:
    """A `Memory`. Only pages that are written exist."""

    shared_by = SharedBy.IPC
    arrays = HOST

    def __init__(self, supply: "Supply", size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._supply = supply
        # A test's own folder has a longer path than there is room for in a handle.
        self._file = tempfile.NamedTemporaryFile(dir="/tmp")  # noqa: SIM115
        self._file.truncate(size_bytes)
        self._map = mmap.mmap(self._file.fileno(), size_bytes)
        self.handle = self._file.name.encode().ljust(HANDLE_BYTES, b"\0")

    def view(self, begin: int, end: int) -> Array:
        """See `Memory.view`."""
        return np.frombuffer(self._map, np.uint8, end - begin, begin)

    def column(self, begin: int, dtype: str, shape: tuple[int, ...], stride: int) -> Array:
        """See `Memory.column`."""
        strides = column_strides(dtype, shape, stride)
        return np.ndarray(shape, np.dtype(dtype), self._map, begin, strides)

    def scrub(self) -> None:
        """See `Memory.scrub`: it reads as zeros afterwards."""
        os.ftruncate(self._file.fileno(), 0)
        os.ftruncate(self._file.fileno(), self.size_bytes)

    def finish(self) -> None:
        """See `Memory.finish`: nothing is under way."""

    def close(self) -> None:
        """See `Memory.close`."""
        self._supply.lent_bytes -= self.size_bytes
        self._file.close()


class Supply:
    """So much memory, and no more."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.lent_bytes = 0

    def __call__(self, size_bytes: int) -> FileMemory | None:
        """What `Arenas` asks."""
        if self.lent_bytes + size_bytes > self.most_bytes:
            return None
        self.lent_bytes += size_bytes
        return FileMemory(self, size_bytes)
