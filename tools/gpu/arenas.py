"""Pieces of device memory kept from session to session."""

from collections.abc import Callable

from cuda_llm.tools.gpu.memory import ArenaFull, Memory, round_up

LEAST_BYTES = 256 << 20
"""Asking for less is asking for this: memory is kept to be used again."""
_STEPS = 4
"""Between what is wanted and what will do."""


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
        found = self._find(wanted) or self._make(_rounded(wanted)) or self._make(wanted)
        if found is None:
            # The largest kept one may do; if not, all of them make room for a new one.
            largest = max(self._free, key=lambda memory: memory.size_bytes, default=None)
            if largest is not None and largest.size_bytes >= least_bytes:
                self._free.remove(largest)
                return largest
            self.close()
            found = self._make_most(wanted, least_bytes)
        if found is None:
            raise ArenaFull(f"{least_bytes:,} bytes of device memory are not to be had")
        return found

    def has(self, wanted_bytes: int) -> bool:
        """Whether all of it is there to be lent, made where it is not; others may go for it."""
        wanted = max(LEAST_BYTES, wanted_bytes)
        found = self._find(wanted) or self._make(_rounded(wanted)) or self._make(wanted)
        if found is None:
            self.close()
            found = self._make(wanted)
        if found is not None:
            self._free.append(found)
        return found is not None

    def take_back(self, memory: Memory) -> None:
        """No runner may hold it any more."""
        memory.scrub()
        self._free.append(memory)

    def close(self) -> None:
        """Free what is not lent."""
        while self._free:
            self._free.pop().close()

    def _find(self, wanted: int) -> Memory | None:
        """The smallest kept one that is large enough, kept no more."""
        enough = [memory for memory in self._free if memory.size_bytes >= wanted]
        found = min(enough, key=lambda memory: memory.size_bytes, default=None)
        if found is not None:
            self._free.remove(found)
        return found

    def _make_most(self, wanted: int, least: int) -> Memory | None:
        """As much as there is, by steps."""
        steps = (least + (wanted - least) * step // _STEPS for step in range(_STEPS, -1, -1))
        return next((made for size in steps if (made := self._make(size)) is not None), None)

    def _make(self, size_bytes: int) -> Memory | None:
        made = self._allocate(size_bytes)
        if made is not None:
            made.scrub()
        return made


def _rounded(size_bytes: int) -> int:
    """To an eighth of the next power of two, so that the next session finds it large enough."""
    return round_up(size_bytes, max(1, 1 << (size_bytes.bit_length() - 3)))
