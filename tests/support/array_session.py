"""A session whose candidate is an ordinary function on arrays. The referee sees no difference."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer
from cuda_llm.tools.device import Argument, CallOptions, CallReport

Array = npt.NDArray[Any]
Buffers = Mapping[str, Array]
Candidate = Callable[[Buffers, CallOptions], Verdict | None]
"""Writes its outputs into the buffers; what it returns ends the call with that verdict."""

GUARD_BYTES = 256
LAUNCH = LaunchProfile(
    kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, occupancy=1.0, time_us=1.0
)


class ArraySession:
    """Runs `candidate` in this process. `launches` is what it claims to have launched."""

    def __init__(
        self, candidate: Candidate, launches: tuple[LaunchProfile, ...] = (LAUNCH,)
    ) -> None:
        self.candidate = candidate
        self.launches = launches
        self.placed: dict[str, PlacedBuffer] = {}
        self.calls: list[CallOptions] = []

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Buffers between guards, in memory of their own."""
        self.placed = {}
        for spec in buffers:
            memory = np.zeros(spec.nbytes + 2 * GUARD_BYTES, np.uint8)
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
        """Run the candidate; shapes tell it the sizes."""
        self.calls.append(options)
        arrays = {name: buffer.data for name, buffer in self.placed.items()}
        with np.errstate(all="ignore"):
            verdict = self.candidate(arrays, options)
        return verdict if verdict is not None else CallReport(wall_s=0.0, launches=self.launches)
