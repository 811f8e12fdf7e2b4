"""A candidate that is loaded: what a call of it takes, what it reports, and where buffers lie.

Whoever judges fills the session's buffers, asks for calls, and looks at the buffers afterwards.
Sessions never see expected values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from cuda_llm.outcomes import LaunchFailed, Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer

SCRATCH_BYTES = 1 << 30
"""Room for what `solve` itself allocates, in every layout; a timed one can have more."""


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A by-value argument."""

    value: int | float
    ctype: str
    """`int`, `long long`, `unsigned`, `float`, `double` ..."""


Argument: TypeAlias = str | Scalar
"""An argument of `solve`: the name of a buffer, or a scalar."""


class Level(StrEnum):
    """How closely a device that sees every access watches a call. Others ignore it."""

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
    """Order of blocks and warps; 0 is ascending. Ignored where the hardware decides."""
    limit_s: float = 10.0
    scratch_bytes: int = SCRATCH_BYTES
    """Most device memory `solve` may hold at once."""
    device_to_host: bool = False
    """May `solve` copy from device to host?"""


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """One call that came back."""

    wall_s: float
    time_us: float = 0.0
    """Device time: modelled at level `account` and `full`, or measured; 0 where unknown."""
    launches: tuple[LaunchProfile, ...] = ()
    """One a launch, in order. Empty at level `check`."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """What limits the call, dominating one first."""
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
