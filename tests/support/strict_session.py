"""A session whose buffers are strict arrays, and whose candidate is a function on plain ones."""

from collections.abc import Sequence

import numpy as np
from array_session import GUARD_BYTES, LAUNCH, Candidate
from strict_arrays import StrictModule

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer
from cuda_llm.tools.device import Argument, CallOptions, CallReport


class StrictSession:
    """What a GPU's session is to the referee."""

    def __init__(self, candidate: Candidate, xp: StrictModule) -> None:
        self.candidate = candidate
        self.xp = xp
        self.placed: dict[str, PlacedBuffer] = {}

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Buffers between guards."""
        self.placed = {}
        for spec in buffers:
            memory = self.xp.zeros(spec.nbytes + 2 * GUARD_BYTES, np.uint8)
            end = GUARD_BYTES + spec.nbytes
            self.placed[spec.name] = PlacedBuffer(
                spec,
                memory[GUARD_BYTES:end].view(spec.dtype).reshape(spec.shape),
                memory[:GUARD_BYTES],
                memory[end:],
            )
        return self.placed

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Run the candidate on what the strict arrays hide."""
        given = {name: buffer.data.hidden for name, buffer in self.placed.items()}
        with np.errstate(all="ignore"):
            verdict = self.candidate(given, options)
        return verdict if verdict is not None else CallReport(wall_s=0.0, launches=(LAUNCH,))
