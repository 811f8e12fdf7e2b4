"""A session whose candidate is an ordinary function on arrays: the referee sees no difference."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cuda_llm.outcomes import Verdict
from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.devices.device import (
    Argument,
    BufferSpec,
    CallOptions,
    CallReport,
    PlacedBuffer,
    Scalar,
)

Array = npt.NDArray[Any]
Candidate = Callable[[Mapping[str, Array], Mapping[str, float]], Verdict | None]

GUARD_BYTES = 256
LAUNCH = LaunchProfile(
    kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, occupancy=1.0, time_us=1.0
)


class ArraySession:
    """Runs `candidate(buffers, scalars)`; scalars are numbered in the order of the signature."""

    def __init__(self, candidate: Candidate, launches: tuple[LaunchProfile, ...]) -> None:
        self.candidate = candidate
        self.launches = launches
        self.buffers: dict[str, PlacedBuffer] = {}
        self.calls: list[CallOptions] = []

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        self.buffers = {}
        for spec in buffers:
            memory = np.zeros(spec.nbytes + 2 * GUARD_BYTES, np.uint8)
            end = GUARD_BYTES + spec.nbytes
            self.buffers[spec.name] = PlacedBuffer(
                spec,
                memory[GUARD_BYTES:end].view(spec.dtype).reshape(spec.shape),
                memory[:GUARD_BYTES],
                memory[end:],
            )
        return self.buffers

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        self.calls.append(options)
        scalars = {
            str(i): a.value for i, a in enumerate(a for a in arguments if isinstance(a, Scalar))
        }
        arrays = {name: buffer.data for name, buffer in self.buffers.items()}
        verdict = self.candidate(arrays, scalars)
        return verdict if verdict is not None else CallReport(wall_s=0.0, launches=self.launches)


@pytest.fixture
def session_of() -> Callable[..., ArraySession]:
    """Make a session out of a function on arrays."""

    def make(candidate: Candidate, launches: tuple[LaunchProfile, ...] = (LAUNCH,)) -> ArraySession:
        return ArraySession(candidate, launches)

    return make
