"""Candidates that never ran, and kernels that were stopped: what was refused, faults of device
code, deadlines.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from cuda_llm.facts import (
    BuildFault,
    CompilerStop,
    CudaError,
    LoadFault,
    Location,
    MemoryAccess,
    MemorySpace,
    PolicyBreach,
    RaceKind,
    Replay,
    SourceSpot,
    StopReason,
    SyncKind,
    SyncReason,
    ThreadSpot,
)

if TYPE_CHECKING:
    from cuda_llm.outcomes import Verdict


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One message of a compiler."""

    severity: str
    """`error` or `warning`."""
    message: str
    spot: SourceSpot | None = None
    tool: str = "nvcc"
    """Which stage said it: `nvcc`, `ptxas`, `g++`, `ld`."""
    fault: BuildFault | None = None
    """What the message says about the source, where it is known."""
    subject: str | None = None
    """The name it is about."""
    names_hardware: bool = False
    """Whether the message gives away a limit or the name of the GPU."""


@dataclass(frozen=True, kw_only=True)
class NoCode:
    """A generator's answer held no kernel."""

    code: ClassVar[str] = "NO_CODE"
    kind: str = "no_code"
    """A `ReplyFault`, `call_failed`, `exhausted`, or a word of a user's generator."""
    message: str = ""
    """A user's generator's own words, shown before those that stand for `kind`."""
    said: str = ""
    """Words of the reply or of the provider."""
    call_fault: str = ""
    """Kind of the `CallFailed`, where the model did not answer."""
    most_characters: int | None = None
    """Of a kernel, where it is too long."""


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """The same kernel was judged before."""

    code: ClassVar[str] = "DUPLICATE"
    of: str


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """nvcc, ptxas or the linker refused the source, or ran out of its memory."""

    code: ClassVar[str] = "COMPILE_FAILED"
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors first, bounded."""
    omitted: int = 0
    """How many diagnostics were cut."""
    fault: BuildFault | None = None
    """Where it is not a message that says so."""
    stop: CompilerStop | None = None
    """Why there is no message."""
    declaration: str = ""
    """What `solve` must be, where its signature is another."""
    compiler_output: str = ""
    """The last line printed, where none is understood as a message."""
    detail: str = ""
    """Words of a record made before the fields: shown, and read by nobody."""


@dataclass(frozen=True, kw_only=True)
class PolicyViolation:
    """The candidate does something no kernel may do."""

    code: ClassVar[str] = "POLICY_VIOLATION"
    rule: str
    """Stable name: `include-outside`, `embed-file`, `import`, `export`, `constructor`, `syscall`,
    `host-touches-device-memory`, `no-launch`, `host-copy`, `memory-quota` ..."""
    breach: PolicyBreach | None = None
    spot: SourceSpot | None = None
    location: Location | None = None
    """The device memory that host code touches."""
    detail: str = ""
    """Words of a record made before the fields: shown, and read by nobody."""


@dataclass(frozen=True, kw_only=True)
class LoadFailed:
    """The compiled candidate could not be loaded, or has no `solve`."""

    code: ClassVar[str] = "LOAD_FAILED"
    detail: str = ""
    fault: LoadFault | None = None
    symbol: str | None = None
    """The function that is not there."""


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
    access: MemoryAccess | None = None


@dataclass(frozen=True, kw_only=True)
class Misaligned(DeviceFault):
    """A thread accessed an address that is not a multiple of the access size."""

    code: ClassVar[str] = "MISALIGNED"
    access: MemoryAccess | None = None


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
    space: MemorySpace = "shared"
    offset_bytes: int | None = None
    atomic: bool = False
    """Whether the later access is an atomic update."""
    hazards: int | None = None
    """How many were counted."""
    unfenced: bool = False
    """A bulk copy reads what was stored without `fence.proxy.async` between the two."""
    other: SourceSpot | None = None
    """The earlier of the two accesses."""


@dataclass(frozen=True, kw_only=True)
class UninitialisedRead(DeviceFault):
    """A value was used that nobody has written."""

    code: ClassVar[str] = "UNINITIALISED_READ"
    access: MemoryAccess | None = None


@dataclass(frozen=True, kw_only=True)
class InvalidSync(DeviceFault):
    """A barrier or warp collective that not all of its threads reach, or a product of a warpgroup
    that is not waited for, or not fenced, where it has to be."""

    code: ClassVar[str] = "INVALID_SYNC"
    kind: SyncKind
    reason: SyncReason | None = None
    opcode: str | None = None
    """Of the barrier or collective, in PTX."""
    mask: int | None = None
    lane: int | None = None
    """The one that takes no part."""
    missing_arrivals: int | None = None
    missing_bytes: int | None = None
    """Of a phase of an mbarrier that is waited for in vain."""
    other: SourceSpot | None = None
    """Where the others wait; the product, or what has written its registers."""


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
    """Return whether a GPU stopped the kernel without a place, and no replay was tried."""
    match verdict:
        case DeviceFault(error=CudaError(), spot=None, thread=None, replay=None):
            return True
        case TimedOut(stage="kernel", spot=None, thread=None, replay=None):
            return True
    return False


def with_replay(verdict: "Verdict", replay: Replay) -> "Verdict":
    """Return the same with what became of executing its case on the emulated device."""
    if isinstance(verdict, DeviceFault | TimedOut):
        return replace(verdict, replay=replay)
    return verdict


def with_place(verdict: "Verdict", found: "Verdict") -> "Verdict":
    """Return a GPU's `verdict` with the place that the emulated device shows for the same case.

    The more precise kind wins: "launch failed" becomes the illegal access that it was. A race or a
    read of nothing, met on the way, explains no access that a GPU refused.
    """
    if not isinstance(verdict, DeviceFault | TimedOut):
        return verdict
    is_access = isinstance(verdict, IllegalAccess | Misaligned)
    if is_access and isinstance(found, DataRace | UninitialisedRead):
        return with_replay(verdict, Replay(outcome="other-verdict", code=found.code))
    if isinstance(found, DeviceFault) or (isinstance(found, TimedOut) and found.spot is not None):
        return replace(found, error=verdict.error, replay=Replay(outcome="located"))
    return with_replay(verdict, Replay(outcome="other-verdict", code=found.code))
