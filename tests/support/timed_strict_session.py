"""A timed session whose buffers are strict arrays: what the referee does to them, CuPy could do."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from strict_arrays import StrictModule
from timed_array_session import TimedArraySession, TimedArraySite

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer, Slots
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import SCRATCH_BYTES


class TimedStrictSession(TimedArraySession):
    """Hands out strict views of the same memory."""

    xp: StrictModule

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """See `Session.place`."""
        return {name: self.strict(one) for name, one in super().place(buffers).items()}

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """See `TimedSession.place_slots`."""
        plain = await super().place_slots(buffers, count, scratch_bytes=scratch_bytes)
        return Slots(
            buffers={name: self.strict(one) for name, one in plain.buffers.items()},
            sealed={name: self.xp.wrap(one) for name, one in plain.sealed.items()},
            count=count,
        )

    def seal(self, slots: Sequence[int], key: bytes, contents: Mapping[str, Any]) -> None:
        """See `TimedSession.seal`."""
        super().seal(slots, key, {name: np.asarray(one.hidden) for name, one in contents.items()})

    def strict(self, buffer: PlacedBuffer) -> PlacedBuffer:
        """The same memory, out of reach."""
        wrap = self.xp.wrap
        return PlacedBuffer(
            buffer.spec, wrap(buffer.data), wrap(buffer.guard_before), wrap(buffer.guard_after)
        )


class TimedStrictSite(TimedArraySite):
    """Opens those."""

    @asynccontextmanager
    async def open(self, candidate: Compiled) -> AsyncIterator[TimedStrictSession | Verdict]:
        """See `Site.open`."""
        session = TimedStrictSession(self.scripts[candidate.name], seed=len(self.opened))
        session.xp = self.arrays.xp
        self.opened.append((candidate.name, session))
        yield session
