"""Host memory that is shared with a runner."""

import mmap
import os


class SharedMemory:
    """An anonymous memory file, mapped here and inherited by a runner as a descriptor."""

    def __init__(self, name: str, size: int) -> None:
        self.size = size
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, size)
        self.map = mmap.mmap(self.descriptor, size)

    def discard(self, begin: int, end: int) -> None:
        """Give the pages of a page-aligned range back; they read as zero from now on."""
        if end > begin:
            self.map.madvise(mmap.MADV_REMOVE, begin, end - begin)

    def close(self) -> None:
        """Give back all pages and the descriptor. Views handed out stay valid and read zero."""
        self.discard(0, self.size)
        os.close(self.descriptor)
