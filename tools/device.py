"""The seam between the referee and whatever executes a candidate.

A `Device` opens a `Session`: one fresh runner process holding one compiled candidate. The referee
fills the session's shared buffers, asks for calls, and looks at the buffers afterwards. Sessions
never see expected values.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import LaunchFailed, Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile, TimeSource
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.emulator.account import LaunchAccount


class Role(StrEnum):
    """What a buffer is to the candidate."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


@dataclass(frozen=True, kw_only=True)
class BufferSpec:
    """One device buffer of a call."""

    name: str
    role: Role
    dtype: str
    """NumPy name: `float32`, `int32`, `float16`, `uint8` ..."""
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Payload size, without guards."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A by-value argument."""

    value: int | float
    ctype: str
    """`int`, `long long`, `unsigned`, `float`, `double` ..."""


Argument = str | Scalar
"""An argument of `solve`: the name of a buffer, or a scalar."""


@dataclass(frozen=True)
class PlacedBuffer:
    """A buffer in memory the runner shares. All arrays are views; writing is sharing."""

    spec: BufferSpec
    data: npt.NDArray[np.generic]
    """Shape and dtype of the spec."""
    guard_before: npt.NDArray[np.uint8]
    guard_after: npt.NDArray[np.uint8]


class Level(StrEnum):
    """How closely the emulated device watches a call. A GPU ignores it."""

    CHECK = "check"
    """Bounds, alignment, initialisation, barriers: every block."""
    ACCOUNT = "account"
    """`check`, and counts from a sample of blocks, scaled up."""
    FULL = "full"
    """`check`, shared-memory races, and counts from every block."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to make one call of `solve`."""

    level: Level = Level.CHECK
    schedule_seed: int = 0
    """Order of blocks and warps; 0 is ascending. Only the emulated device varies it."""
    limit_s: float = 10.0
    scratch_bytes: int = 1 << 30
    """Most device memory `solve` may hold at once."""
    device_to_host: bool = False
    """May `solve` copy from device to host?"""


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """One call that came back."""

    wall_s: float
    time_us: float = 0.0
    """Device time: modelled at level `account` and `full`, measured on a GPU, else 0."""
    launches: tuple[LaunchProfile, ...] = ()
    """One a launch, in order. Empty at level `check`."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """What limits the call, dominating one first."""
    accounts: tuple[LaunchAccount, ...] = ()
    """The emulated device's evidence for `launches`."""
    refused: LaunchFailed | None = None
    """A launch that CUDA would have refused. The candidate may have found another way."""
    output: str = ""
    """What device code printed, bounded."""
    notes: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Session(Protocol):
    """One candidate loaded in one fresh runner process."""

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls, each 256-byte aligned between two guards.

        Replaces the previous layout; the views handed out before must not be used any more.
        """
        ...

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Call `solve` once and wait for it and everything it launched."""
        ...


class Device(Protocol):
    """Something that runs candidates."""

    @property
    def name(self) -> str:
        """What a person should read, e.g. `emulated RTX 3090 Ti`."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU this is, or stands for."""
        ...

    @property
    def target(self) -> str:
        """nvcc architecture to compile for, e.g. `sm_86`."""
        ...

    @property
    def time_source(self) -> TimeSource:
        """How `CallReport.time_us` is obtained."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever this device could time the same kernel differently."""
        ...

    def prepare(self) -> None:
        """Build what is built at first use. Everything else works without, only later.

        Raises MissingError where the machine lacks something.
        """
        ...

    def open(self, candidate: Compiled) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load the candidate in a fresh runner; leaving the context kills the runner.

        Yields a verdict where the candidate cannot be loaded or needs what this device lacks.
        """
        ...
