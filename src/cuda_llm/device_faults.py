"""Kernels that were stopped: faults of device code, deadlines, and where it happened."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from cuda_llm.facts import (
    Access,
    CudaError,
    RaceKind,
    Replay,
    Space,
    StopReason,
    SyncKind,
    SyncReason,
)
from cuda_llm.spots import SourceSpot, ThreadSpot

if TYPE_CHECKING:
    from cuda_llm.outcomes import Verdict


@dataclass(frozen=True, kw_only=True)
class DeviceFault:
    """What is known of a fault in device code, whatever it is."""

    code: ClassVar[str]
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    error: CudaError | None = None
    """How a GPU said it. It names neither line, thread nor address."""
    replay: Replay | None = None
    """What the emulated device made of a case for which a GPU gave an error code alone."""
    detail: str = ""
    """Words of others, or of a record made before the fields: shown, and read by nobody."""


@dataclass(frozen=True, kw_only=True)
class IllegalAccess(DeviceFault):
    """A thread touched memory that is not its own."""

    code: ClassVar[str] = "ILLEGAL_ACCESS"
    access: Access | None = None


@dataclass(frozen=True, kw_only=True)
class Misaligned(DeviceFault):
    """A thread accessed an address that is not a multiple of the access size."""

    code: ClassVar[str] = "MISALIGNED"
    access: Access | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceAssert(DeviceFault):
    """Device code called `assert` or `__trap`, or jumped to where no code is."""

    code: ClassVar[str] = "DEVICE_ASSERT"
    reason: StopReason | None = None
    assertion: str | None = None
    """The kernel's own words."""


@dataclass(frozen=True, kw_only=True)
class DataRace(DeviceFault):
    """Two threads touch one word without a barrier between them."""

    code: ClassVar[str] = "DATA_RACE"
    kind: RaceKind
    space: Space = "shared"
    offset_bytes: int | None = None
    atomic: bool = False
    """Whether the later access is an atomic update."""
    hazards: int | None = None
    """How many were counted."""
    other: SourceSpot | None = None
    """The earlier of the two accesses."""


@dataclass(frozen=True, kw_only=True)
class UninitialisedRead(DeviceFault):
    """A value was used that nobody has written."""

    code: ClassVar[str] = "UNINITIALISED_READ"
    access: Access | None = None


@dataclass(frozen=True, kw_only=True)
class InvalidSync(DeviceFault):
    """A barrier or warp collective that not all of its threads reach."""

    code: ClassVar[str] = "INVALID_SYNC"
    kind: SyncKind
    reason: SyncReason | None = None
    opcode: str | None = None
    """Of the barrier or collective, in PTX."""
    mask: int | None = None
    lane: int | None = None
    """The one that takes no part."""
    other: SourceSpot | None = None
    """Where the others wait."""


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """A stage did not finish within its limit."""

    code: ClassVar[str] = "TIMED_OUT"
    stage: str
    """`compile`, `kernel`, `host`, `validate`, `profile`."""
    limit_s: float
    spot: SourceSpot | None = None
    thread: ThreadSpot | None = None
    kernel: str | None = None
    """The one that is still running."""
    crowded: bool = False
    """It has more blocks than are resident at once: who waits for another may wait for ever."""
    processor_time: bool = False
    """The limit is one of processor time."""
    error: CudaError | None = None
    replay: Replay | None = None
    detail: str = ""


def lacks_place(verdict: object) -> bool:
    """Whether a GPU stopped the kernel without a line, thread or address, and nobody looked yet."""
    match verdict:
        case DeviceFault(error=CudaError(), spot=None, thread=None, replay=None):
            return True
        case TimedOut(stage="kernel", spot=None, thread=None, replay=None):
            return True
    return False


def with_replay(verdict: "Verdict", replay: Replay) -> "Verdict":
    """The same with what became of executing its case on the emulated device."""
    if isinstance(verdict, DeviceFault | TimedOut):
        return replace(verdict, replay=replay)
    return verdict


def with_place(verdict: "Verdict", found: "Verdict") -> "Verdict":
    """`verdict` of a GPU, with what the emulated device says of the same case.

    The more precise kind wins: "launch failed" becomes the illegal access that it was.
    """
    if not isinstance(verdict, DeviceFault | TimedOut):
        return verdict
    if isinstance(found, DeviceFault) or (isinstance(found, TimedOut) and found.spot is not None):
        return replace(found, error=verdict.error, replay=Replay(outcome="located"))
    return with_replay(verdict, Replay(outcome="other-verdict", code=found.code))
