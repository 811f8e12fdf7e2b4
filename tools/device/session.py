"""A session of a loaded candidate: what a call takes, what a call reports, and how batches of calls
are timed.

The judge fills the session's buffers, asks for calls, and compares the buffers afterwards. Sessions
never see expected values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

from cuda_llm.outcomes import (
    DataRace,
    DependentLaunch,
    FailedCall,
    LaunchFailed,
    OutOfMemory,
    Verdict,
)
from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer, Slots
from cuda_llm.tools.device.inspection import KernelCounters

SAMPLE_COST = 8_000_000
"""Instructions and memory requests of warps that a sampled launch may take: about 0.3 s."""
SCRATCH_BYTES = 1 << 30
"""Bytes for allocations of `solve` in every layout; a layout that is timed can have more."""
OPENING_BYTES = SCRATCH_BYTES + (448 << 20)
"""Bytes of a new session: most buffers fit beside what `solve` may allocate."""
MOST_OPENING_PART = 8
"""A new session takes at most this fraction (an eighth) of the GPU's memory."""


def opening_bytes(memory_bytes: int) -> int:
    """Return the bytes that a new session takes of a GPU's memory, and keeps when it takes more."""
    return min(OPENING_BYTES, memory_bytes // MOST_OPENING_PART)


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A by-value argument."""

    value: int | float
    ctype: str
    """Type in C: `int`, `long long`, `unsigned`, `float`, `double` ..."""


Argument: TypeAlias = str | Scalar
"""An argument of `solve`: the name of a buffer, or a scalar."""


class Level(StrEnum):
    """How closely a device that sees every access watches a call. Other devices ignore the
    level."""

    CHECK = "check"
    """Bounds, alignment, initialisation, barriers: every block."""
    ACCOUNT = "account"
    """What `check` watches, and counts from every block."""
    FULL = "full"
    """What `check` watches, and races in shared and global memory."""
    SAMPLE = "sample"
    """Counts from some blocks that stand for all: for sizes at which all blocks take too long."""


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How to make one call of `solve`."""

    level: Level = Level.CHECK
    tracks: bool = False
    """Look for undefined values that decide something, from the first instruction on. Only where a
    device can; the emulated device does so by itself where memory is read that nobody wrote."""
    schedule_seed: int = 0
    """Order of blocks and warps; 0 is ascending. Ignored where the hardware decides the order."""
    limit_s: float = 10.0
    most_back_edges: int | None = None
    """Iterations of loops, of all warps of a launch, after which the launch counts as endless
    whatever the clock says; None leaves that to `limit_s`. Only where a device counts
    iterations."""
    sample_cost: int = SAMPLE_COST
    """Instructions and memory requests of warps that a launch may take at level `sample`, more than
    which some blocks stand for all. Only where a device samples."""
    scratch_bytes: int = SCRATCH_BYTES
    """Most device memory `solve` may hold at once."""
    device_to_host: bool = False
    """May `solve` copy from device to host?"""


FLOATING = ("fp32", "fp64", "fp16")
"""Kinds of floating-point operations on CUDA cores; a multiply-add is two of them."""
TENSOR = "tensor "
"""What kinds of operations on tensor cores begin with, before their type."""
ATOMIC = "atomic"
"""Kind of operations that the memory executes."""


def floating_operations(operations: Mapping[str, float]) -> float:
    """Return the operations that a task's `flops` are made of, whatever unit executes them."""
    return sum(
        count
        for kind, count in operations.items()
        if kind in (*FLOATING, ATOMIC) or kind.startswith(TENSOR)
    )


@dataclass(frozen=True, kw_only=True)
class CallReport:
    """The report of a call of `solve` that has returned."""

    wall_s: float
    time_us: float = 0.0
    """Microseconds on the device, modelled at level `account`, or measured; 0 where not known."""
    launches: tuple[LaunchProfile, ...] = ()
    """One profile a launch, in order; empty where launches were not counted."""
    kernels: int | None = None
    """Number of kernels that the call launched, at any level; None where the device does not count
    them: then each of `launches` that has threads is one."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """All causes of the time that were found; `profiler.bottlenecks.list_bottlenecks` chooses."""
    counters: tuple[KernelCounters, ...] = ()
    """Counters of each kernel launch, in order, as if it took its modelled time; empty where the
    device counts nothing."""
    operations: Mapping[str, float] | None = None
    """Operations of all threads by kind: those of `FLOATING`, with the type behind `TENSOR`, and
    `int` and `sfu`; None where operations are not counted."""
    stored_bytes: int | None = None
    """Bytes that kernels, fills and copies were seen to store; None where stores are not
    counted."""
    refused: LaunchFailed | None = None
    """A launch that CUDA would have refused; None where there was none. The candidate may have
    found another way."""
    out_of_memory: OutOfMemory | None = None
    """An allocation that was refused; None where there was none. The candidate may have coped."""
    failed_calls: tuple[FailedCall, ...] = ()
    """Functions of CUDA's runtime that returned an error to `solve`. Only where a device tells."""
    unlaunched: tuple[str, ...] = ()
    """Kernels of the source that the call did not launch. Only where a device tells."""
    held_bytes: int = 0
    """Bytes that `solve` and its kernels allocated and did not free; 0 where allocations are not
    watched."""
    held_allocations: int = 0
    """Number of allocations that hold `held_bytes`."""
    guarded_races: tuple[DataRace, ...] = ()
    """Races of plain reads that only decide whether an atomic update is made: no result depends on
    them. Only where a device looks for races."""
    output: str = ""
    """Text that device code printed, cut to a bounded length."""
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
        """Call `solve` once, and wait until everything that it launched is over."""
        ...


@runtime_checkable
class SamplingSession(Session, Protocol):
    """A session of a device that models times, whose calls can be counted from some of their
    blocks."""

    def place_unfilled(
        self, buffers: Sequence[BufferSpec], pools: Mapping[str, bytes]
    ) -> dict[str, PlacedBuffer]:
        """Lay out buffers as `place` does, some of which may be larger than memory.

        The pages of those that `pools` names are filled when a kernel first touches them, each with
        a page of the pool's contents, whose length is a multiple of 4,096 bytes. Nothing may read
        such buffers here.
        """
        ...

    async def sample(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | DependentLaunch | Verdict:
        """Call `solve` as `call` does; a DependentLaunch where a launch at level `sample` turns out
        to need all blocks, which ends the session."""
        ...

    def certain_ranges(self, name: str) -> Array:
        """Return which bytes of an output the last sampled call is sure of, as rows of begin and
        end: what they hold is what a call of all blocks would leave there."""
        ...

    def unfilled_elements(self, name: str, indices: Array) -> Array:
        """Return what a kernel finds in a buffer that a pool fills, at these flat indices."""
        ...


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Calls that are timed together: each decrypts its slot's inputs, flushes L2, calls `solve`,
    and tags the outputs."""

    order: tuple[int, ...]
    """Numbers of the slots in the order of the calls; none stands twice."""
    key: bytes
    """16 secret bytes, new for each batch: inputs are sealed and outputs tagged under it."""
    flush: bool = True
    """Write more than L2 holds before each call (`--l2 cold`)."""
    solve: bool = True
    """False leaves the call of `solve` out, to time everything beside it."""
    keys: tuple[bytes, ...] = ()
    """Keys of the calls, instead of `key`; each is handed out when the call before is over: until
    then the inputs cannot be read."""


class TimeClass(StrEnum):
    """Which parts of a call a measured time contains."""

    DEVICE = "device"
    """One call in a captured graph: kernels, copies and the gaps between them."""
    HOST_INCLUSIVE = "host-inclusive"
    """`solve` decides on results it reads back, so it cannot be captured: its host part counts."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """Clocks, heat and power of the hardware at one moment."""

    sm_mhz: float
    celsius: float | None
    """Temperature of the GPU; None where it is not known."""
    watts: float | None
    """Power that the GPU draws; None where it is not known."""
    throttled: bool
    """The GPU holds its clocks down, for heat or power."""


@runtime_checkable
class TimedSession(Session, Protocol):
    """A session whose calls can be captured, and timed in batches by the judge's own clock."""

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots. Replaces the previous layout, as `place` does.

        Beside the slots `solve` may hold `scratch_bytes` at once, and at least SCRATCH_BYTES; where
        memory is short, what is left. Waits for memory of sessions that close, where memory lacks.
        """
        ...

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """Call `solve` once on slot 0 to warm up, then capture a call for each slot and run none.

        The slots' buffers must hold valid inputs. To be called once after each `place_slots`.
        """
        ...

    def seal(
        self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Array]
    ) -> None:
        """Encrypt the inputs of these slots into the slots' `sealed` arrays, each under its key.

        `contents` of an input has one axis more in front, with one index for each of `slots`.
        """
        ...

    @property
    def not_stepwise(self) -> str:
        """Return why keys could not be handed out call by call in the last armed batch; else
        empty."""
        ...

    async def arm(self, batch: Batch) -> Verdict | None:
        """Have the runner put the batch together: no code of the candidate runs until `go`.

        Where keys cannot be handed out call by call, returns an InfraFailed and sets
        `not_stepwise`; the session can be used on.
        """
        ...

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch; return the seconds by the judge's clock until all tags are read."""
        ...

    def find_late_write(self) -> str | None:
        """Return the name of an output that has changed since its call was over; None where none
        has."""
        ...
