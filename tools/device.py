"""The seam between the referee and whatever executes a candidate.

A `Device` is what a user names; it carries work to a `Site`, the process that holds the device. A
site opens a `Session`: one fresh runner process holding one compiled candidate. The referee fills
the session's shared buffers, asks for calls, and looks at the buffers afterwards. Sessions never
see expected values.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import LaunchFailed, Verdict
from cuda_llm.profile import Bottleneck, LaunchProfile
from cuda_llm.tools.arrays import Array, Arrays
from cuda_llm.tools.buffers import BufferSpec, PlacedBuffer, Slots
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.emulator.account import LaunchAccount

P = ParamSpec("P")
T = TypeVar("T")
SCRATCH_BYTES = 1 << 30
"""Room for what `solve` itself allocates, in every layout; a timed one can have more."""


@dataclass(frozen=True, kw_only=True)
class Scalar:
    """A by-value argument."""

    value: int | float
    ctype: str
    """`int`, `long long`, `unsigned`, `float`, `double` ..."""


Argument = str | Scalar
"""An argument of `solve`: the name of a buffer, or a scalar."""


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
    scratch_bytes: int = SCRATCH_BYTES
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


@runtime_checkable
class TimedSession(Session, Protocol):
    """A session on a real GPU: calls can be captured, and timed in batches by our own clock."""

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots. Replaces the previous layout, as `place` does.

        Beside them is room for `solve` to hold `scratch_bytes` at once, and never less than
        SCRATCH_BYTES, but where memory is short: then it is what is left. Waits for memory that
        others are giving back, where it is needed.
        """
        ...

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """One call on slot 0 as a warm-up, then one captured call for each slot, none of them run.

        The slots' buffers must hold valid inputs. Call it once after each `place_slots`.
        """
        ...

    def seal(self, slots: Sequence[int], key: bytes, contents: Mapping[str, Array]) -> None:
        """Encrypt the inputs of these slots into their `sealed` arrays.

        `contents` of an input has one axis more in front, one index for each of `slots`.
        """
        ...

    @property
    def not_stepwise(self) -> str:
        """Why keys could not be handed out for the last batch to be armed; else empty."""
        ...

    async def arm(self, batch: Batch) -> Verdict | None:
        """Have the runner put the batch together: nothing of the candidate runs until `go`.

        A batch with keys of its calls that cannot be has an InfraFailed and sets `not_stepwise`;
        the session is as it was.
        """
        ...

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch; seconds by our own clock from the order to having read all tags."""
        ...

    def find_late_write(self) -> str | None:
        """Name of an output of the batch that is not what it was when its call was over."""
        ...


class Site(Protocol):
    """The process that holds a device, seen by the work that is carried out there."""

    @property
    def name(self) -> str:
        """Which device this is, as `Device.name` of one device."""
        ...

    @property
    def hardware(self) -> Hardware:
        """Profile of the GPU this is, or stands for."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What can be done here. A site that duels opens TimedSessions."""
        ...

    @property
    def confined(self) -> str:
        """What keeps runners in here, in one line; empty where `doctor` alone tries that."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Where the buffers of sessions lie."""
        ...

    def open(self, candidate: Compiled) -> AbstractAsyncContextManager[Session | Verdict]:
        """Load the candidate in a fresh runner.

        Leaving the context ends the runner, unless nothing was timed in it and nothing went wrong:
        then it may wait for the same candidate to be opened next, for its timing after its
        validation, and ends before any other is opened in its place or timed.
        Yields a verdict where the candidate cannot be loaded or needs what this device lacks.
        Two may be open at once: each has memory of its own.
        """
        ...

    def keep(self, candidate: Compiled) -> AbstractAsyncContextManager[Session | Verdict]:
        """The same for a program of our own, whose runner may be used again: a task's baseline.

        Never for what is judged: code that has run in a process can leave something behind for
        the next use, and this one all candidates share. There is one such runner at most, with one
        user at a time: who asks for it meanwhile gets a fresh one. It ends when another program is
        to be kept, when somebody needs its memory, and after an exception or a verdict while it is
        used.
        """
        ...


class Device(Protocol):
    """Something that runs candidates."""

    @property
    def name(self) -> str:
        """What a person should read, e.g. `emulated RTX 3090 Ti` or `cuda:0 NVIDIA H200`."""
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
    def capabilities(self) -> Capabilities:
        """What it can do, by which everybody decides what to ask of it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever this device could time the same kernel differently."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before believing a time: a display, other people's work."""
        ...

    def pinned(self) -> "Device":
        """One device, always the same: where what is to be compared must be timed."""
        ...

    def prepare(self) -> None:
        """Build what is built at first use. Everything else works without, only later.

        Raises MissingError where the machine lacks something.
        """
        ...

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """Do `work(site, ...)` where the device is, alone on it, and bring back what it returns.

        `work` is a module's function; arguments and result are values that can be pickled, for on a
        GPU they travel to the referee process and back. Raises what `work` raises, and
        InfrastructureError where the device is broken and stays so.
        """
        ...
