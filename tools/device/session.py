"""A candidate that is loaded: what a call of it takes, what it reports, and how batches of calls
are timed.

The judge fills the session's buffers, asks for calls, and compares the buffers afterwards. Sessions
never see expected values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from cuda_llm.outcomes import DependentLaunch, LaunchFailed, OutOfMemory, Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer, Slots

SCRATCH_BYTES = 1 << 30
"""Room for what `solve` itself allocates, in every layout; a timed one can have more."""
OPENING_BYTES = SCRATCH_BYTES + (448 << 20)
"""Of a new session: most buffers fit beside what `solve` may allocate."""
MOST_OPENING_PART = 8
"""Of the GPU's memory."""


def opening_bytes(memory_bytes: int) -> int:
    """Return what a new session takes of a GPU's memory, and keeps when it needs a larger piece."""
    return min(OPENING_BYTES, memory_bytes // MOST_OPENING_PART)


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
    """`check`, and counts from every block."""
    FULL = "full"
    """`check`, and races in shared and global memory."""
    SAMPLE = "sample"
    """Counts from some blocks that stand for all: for sizes at which all are too many."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to make one call of `solve`."""

    level: Level = Level.CHECK
    schedule_seed: int = 0
    """Order of blocks and warps; 0 is ascending. Ignored where the hardware decides."""
    limit_s: float = 10.0
    most_back_edges: int | None = None
    """Iterations of loops, of all warps of a launch, after which it counts as endless whatever the
    clock says; None leaves that to the clock. Only where a device counts them."""
    scratch_bytes: int = SCRATCH_BYTES
    """Most device memory `solve` may hold at once."""
    device_to_host: bool = False
    """May `solve` copy from device to host?"""


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """One call that came back."""

    wall_s: float
    time_us: float = 0.0
    """Device time: modelled at level `account`, or measured; 0 where unknown."""
    launches: tuple[LaunchProfile, ...] = ()
    """One a launch, in order. Empty where they were not counted."""
    kernels: int | None = None
    """Number of kernels that the call launched, at any level; None where the device does not count
    them: then each of `launches` that has threads is one."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """What limits the call, dominating one first."""
    arithmetic: float | None = None
    """Floating-point operations of all threads; None where they are not counted."""
    stored_bytes: int | None = None
    """Bytes that kernels, fills and copies were seen to store; None where that is not counted."""
    refused: LaunchFailed | None = None
    """A launch that CUDA would have refused. The candidate may have found another way."""
    out_of_memory: OutOfMemory | None = None
    """An allocation that was refused. The candidate may have coped with that."""
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


@runtime_checkable
class SamplingSession(Session, Protocol):
    """A session whose calls can be counted from some of their blocks: where times are modelled."""

    def place_unfilled(
        self, buffers: Sequence[BufferSpec], pools: Mapping[str, bytes]
    ) -> dict[str, PlacedBuffer]:
        """Lay out buffers as `place` does, some of which may be larger than memory.

        The pages of those that `pools` names are filled when a kernel first touches them, each with
        a page of the pool's contents, whose length is a multiple of 4,096 bytes. They are not to be
        looked at.
        """
        ...

    async def sample(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | DependentLaunch | Verdict:
        """Call `solve` as `call` does; at level `sample` a launch may turn out to need all blocks.

        The session is over then.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Timed calls in one go: each opens its slot's inputs, flushes L2, solves, tags the outputs."""

    order: tuple[int, ...]
    """Slots in the order of the calls; none twice."""
    key: bytes
    """16 secret bytes, new for each batch: inputs are sealed and outputs tagged under it."""
    flush: bool = True
    """Write more than L2 holds before each call (`--l2 cold`)."""
    solve: bool = True
    """False leaves the call of `solve` out: what all the rest takes."""
    keys: tuple[bytes, ...] = ()
    """Of each call, instead of `key`; each is handed out when the call before is over: until then
    nothing tells the inputs."""


class TimeClass(StrEnum):
    """What a measured time contains."""

    DEVICE = "device"
    """One call in a captured graph: kernels, copies and the gaps between them."""
    HOST_INCLUSIVE = "host-inclusive"
    """`solve` decides on results it reads back, so it cannot be captured: its host part counts."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Clocks, heat and power of the hardware at one moment."""

    sm_mhz: float
    celsius: float | None
    """None where it is not known."""
    watts: float | None
    throttled: bool
    """It holds its clocks down, for heat or power."""


@runtime_checkable
class TimedSession(Session, Protocol):
    """Calls can be captured, and timed in batches by our own clock."""

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots. Replaces the previous layout, as `place` does.

        Beside them is room for `solve` to hold `scratch_bytes` at once, and never less than
        SCRATCH_BYTES, but where memory is short: then it is what is left. Waits for memory of
        sessions that close, where it is needed.
        """
        ...

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """Call `solve` once on slot 0 to warm up, then capture a call for each slot and run none.

        The slots' buffers must hold valid inputs. Call it once after each `place_slots`.
        """
        ...

    def seal(
        self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Array]
    ) -> None:
        """Encrypt the inputs of these slots into their `sealed` arrays, each under its key.

        `contents` of an input has one axis more in front, one index for each of `slots`.
        """
        ...

    @property
    def not_stepwise(self) -> str:
        """Return why keys could not be handed out for the last batch to be armed; else empty."""
        ...

    async def arm(self, batch: Batch) -> Verdict | None:
        """Have the runner put the batch together: nothing of the candidate runs until `go`.

        A batch with keys of its calls that cannot be has an InfraFailed and sets `not_stepwise`;
        the session is as it was.
        """
        ...

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch; return the seconds by our clock until all tags have been read."""
        ...

    def find_late_write(self) -> str | None:
        """Return the name of an output that is not what it was when its call was over, or None."""
        ...
