"""Pieces of device memory kept from session to session."""

from collections.abc import Callable

from cuda_llm.tools.gpu.layout import ArenaFull
from cuda_llm.tools.gpu.memory import Memory, round_up

LEAST_BYTES = 256 << 20
"""Asking for less is asking for this: memory is kept to be used again."""


class Arenas:
    """What is free to be lent, scrubbed of what the borrower before left there."""

    def __init__(self, allocate: Callable[[int], Memory | None]) -> None:
        """`allocate` gives None where so much is not to be had."""
        self._allocate = allocate
        self._free: list[Memory] = []

    def lend(self, wanted_bytes: int, least_bytes: int) -> Memory:
        """Memory of `wanted_bytes` or more; where that is not to be had, of `least_bytes`.

        Raises ArenaFull.
        """
        wanted = max(LEAST_BYTES, wanted_bytes)
        kept = sorted(self._free, key=lambda memory: memory.size_bytes)
        for memory in kept:
            if memory.size_bytes >= wanted:
                self._free.remove(memory)
                return memory
        made = self._allocate(_rounded(wanted)) or self._allocate(wanted)
        if made is None:
            # The largest kept one may do; if not, all of them make room for a new one.
            if kept and kept[-1].size_bytes >= least_bytes:
                self._free.remove(kept[-1])
                return kept[-1]
            self.close()
            made = self._allocate(wanted) or self._allocate(least_bytes)
        if made is None:
            raise ArenaFull(f"{least_bytes:,} bytes of device memory are not to be had")
        made.scrub()
        return made

    def take_back(self, memory: Memory) -> None:
        """No runner may hold it any more."""
        memory.scrub()
        self._free.append(memory)

    def close(self) -> None:
        """Free what is not lent."""
        while self._free:
            self._free.pop().close()


def _rounded(size_bytes: int) -> int:
    """To an eighth of the next power of two, so that the next session finds it large enough."""
    return round_up(size_bytes, max(1, 1 << (size_bytes.bit_length() - 3)))
