"""Everything that can become of a candidate: one union of frozen values with stable codes.

A bad kernel is data, not an exception. Match on `Verdict` exhaustively; a type-checker then lists
every place to change when a variant is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

from cuda_llm.facts import Replay
from cuda_llm.profile import Profile
from cuda_llm.spots import SourceSpot, ThreadSpot


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One message of a compiler."""

    severity: str
    """`error` or `warning`."""
    message: str
    spot: SourceSpot | None = None
    tool: str = "nvcc"
    """Which stage said it: `nvcc`, `ptxas`, `g++`, `ld`."""


@dataclass(frozen=True, kw_only=True)
class NoCode:
    """The generator's reply held no kernel."""

    code: ClassVar[str] = "NO_CODE"
    reason: str
    kind: str = "no_code"
    """`no_code`, `empty`, `truncated`, `refused`, `several`, `call_failed` ..."""


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """The same kernel was judged before."""

    code: ClassVar[str] = "DUPLICATE"
    of: str


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """nvcc, ptxas or the linker refused the source, or ran out of its memory."""

    code: ClassVar[str] = "COMPILE_FAILED"
    reason: str
    """One line: the first error, or why there is none (out of memory, killed ...)."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors first, bounded."""
    omitted: int = 0
    """How many diagnostics were cut."""


@dataclass(frozen=True, kw_only=True)
class PolicyViolation:
    """The candidate does something no kernel may do."""

    code: ClassVar[str] = "POLICY_VIOLATION"
    rule: str
    """Stable name: `include-outside`, `embed-file`, `import`, `export`, `constructor`, `syscall`,
    `host-touches-device-memory`, `no-launch`, `host-copy`, `memory-quota` ..."""
    detail: str
    spot: SourceSpot | None = None


@dataclass(frozen=True, kw_only=True)
class LoadFailed:
    """The compiled candidate could not be loaded, or has no `solve`."""

    code: ClassVar[str] = "LOAD_FAILED"
    detail: str


@dataclass(frozen=True, kw_only=True)
class LaunchFailed:
    """A launch or runtime call was refused (too many threads, too much shared memory ...)."""

    code: ClassVar[str] = "LAUNCH_FAILED"
    kernel: str
    error: str
    """CUDA's name of the error, e.g. `cudaErrorInvalidConfiguration`."""
    detail: str


@dataclass(frozen=True, kw_only=True)
class IllegalAccess:
    """A thread touched memory that is not its own."""

    code: ClassVar[str] = "ILLEGAL_ACCESS"
    space: str
    """`global`, `shared`, `local`, `const`."""
    access: str
    """`read`, `write` or `atomic`."""
    bytes: int
    detail: str
    """Where it points: buffer or allocation, offset, size."""
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    replay: Replay | None = None


@dataclass(frozen=True, kw_only=True)
class Misaligned:
    """A thread accessed an address that is not a multiple of the access size."""

    code: ClassVar[str] = "MISALIGNED"
    space: str
    bytes: int
    detail: str
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    replay: Replay | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceAssert:
    """Device code called `assert` or `__trap` and meant it."""

    code: ClassVar[str] = "DEVICE_ASSERT"
    detail: str
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    replay: Replay | None = None


@dataclass(frozen=True, kw_only=True)
class DataRace:
    """Two threads of a block touch one shared word without a barrier between them."""

    code: ClassVar[str] = "DATA_RACE"
    kind: str
    """`write-write`, `read-write` or `write-read`."""
    detail: str
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    other: SourceSpot | None = None
    """The earlier of the two accesses."""


@dataclass(frozen=True, kw_only=True)
class UninitialisedRead:
    """A value was used that nobody has written."""

    code: ClassVar[str] = "UNINITIALISED_READ"
    space: str
    detail: str
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None


@dataclass(frozen=True, kw_only=True)
class InvalidSync:
    """A barrier or warp collective that not all of its threads reach."""

    code: ClassVar[str] = "INVALID_SYNC"
    kind: str
    """`divergent-barrier`, `partial-mask`, `deadlock`."""
    detail: str
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """A stage did not finish within its limit."""

    code: ClassVar[str] = "TIMED_OUT"
    stage: str
    """`compile`, `kernel`, `host`, `validate`, `profile`."""
    limit_s: float
    detail: str = ""
    spot: SourceSpot | None = None
    replay: Replay | None = None


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """The candidate asked for more device memory than its quota."""

    code: ClassVar[str] = "OUT_OF_MEMORY"
    detail: str


@dataclass(frozen=True, kw_only=True)
class HostCrashed:
    """The host part of the candidate died."""

    code: ClassVar[str] = "HOST_CRASHED"
    signal: str
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class WrongResult:
    """The output differs from the float64 reference by more than the task allows."""

    code: ClassVar[str] = "WRONG_RESULT"
    size_class: str
    """`emulated`, `edge`, `hidden`, `bench`."""
    dims: Mapping[str, int]
    """Empty for hidden sizes: those are never shown to an agent."""
    distribution: str
    buffer: str
    index: tuple[int, ...]
    """First bad element."""
    got: float
    expected: float
    error: float
    """Largest normalised error, in units of the class's rounding unit."""
    limit: float
    wrong: int
    elements: int
    looks_like: str = ""
    """Pattern, where one is recognised, e.g. "the last tile is never written"."""
    failed_cases: int = 1
    cases: int = 1


@dataclass(frozen=True, kw_only=True)
class GuardOverwritten:
    """Bytes before or after a buffer changed."""

    code: ClassVar[str] = "GUARD_OVERWRITTEN"
    buffer: str
    side: str
    """`before` or `after`."""
    offset_bytes: int
    """Distance of the first changed byte from the buffer's edge."""


@dataclass(frozen=True, kw_only=True)
class InputMutated:
    """A buffer the task calls an input changed."""

    code: ClassVar[str] = "INPUT_MUTATED"
    buffer: str


@dataclass(frozen=True, kw_only=True)
class Nondeterministic:
    """The same input gave different results."""

    code: ClassVar[str] = "NONDETERMINISTIC"
    buffer: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class LateWrite:
    """An output changed after `solve` had been waited for."""

    code: ClassVar[str] = "LATE_WRITE"
    buffer: str


@dataclass(frozen=True, kw_only=True)
class ImpossibleTime:
    """Faster than the hardware can move the bytes or do the arithmetic."""

    code: ClassVar[str] = "IMPOSSIBLE_TIME"
    time_us: float
    floor_us: float
    detail: str


@dataclass(frozen=True, kw_only=True)
class EmulatorUnsupported:
    """The kernel compiles, but the launched path needs what only a GPU has."""

    code: ClassVar[str] = "EMULATOR_UNSUPPORTED"
    opcode: str
    kernel: str
    detail: str = ""
    spot: SourceSpot | None = None


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """Set aside for a person to look at."""

    code: ClassVar[str] = "QUARANTINED"
    reason: str


@dataclass(frozen=True, kw_only=True)
class Passed:
    """Correct in every check that was made."""

    code: ClassVar[str] = "PASSED"
    profile: Profile | None = None
    differential: bool = False
    """True when the oracle was the user's own kernel, not an independent reference."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class InfraFailed:
    """Our own parts broke; the candidate is not to blame, and only this is retried."""

    component: str
    """`compiler`, `runner`, `device`, `referee` ..."""
    detail: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """`INFRA_` and the component, e.g. `INFRA_RUNNER`."""
        return f"INFRA_{self.component.upper()}"


Verdict: TypeAlias = (
    NoCode
    | Duplicate
    | CompileFailed
    | PolicyViolation
    | LoadFailed
    | LaunchFailed
    | IllegalAccess
    | Misaligned
    | DeviceAssert
    | DataRace
    | UninitialisedRead
    | InvalidSync
    | TimedOut
    | OutOfMemory
    | HostCrashed
    | WrongResult
    | GuardOverwritten
    | InputMutated
    | Nondeterministic
    | LateWrite
    | ImpossibleTime
    | EmulatorUnsupported
    | Quarantined
    | Passed
    | InfraFailed
)


def lacks_place(verdict: Verdict) -> bool:
    """Whether a GPU stopped the kernel without a line, thread or address, and nobody looked yet."""
    match verdict:
        case IllegalAccess() | Misaligned() | DeviceAssert() | TimedOut(stage="kernel"):
            return verdict.spot is None and verdict.replay is None
    return False


def with_replay(verdict: Verdict, replay: Replay) -> Verdict:
    """The same with what became of executing its case on the emulated device."""
    if isinstance(verdict, IllegalAccess | Misaligned | DeviceAssert | TimedOut):
        return replace(verdict, replay=replay)
    return verdict


def with_place(verdict: Verdict, found: Verdict) -> Verdict:
    """`verdict` of a GPU, with what the emulated device says of the same case."""
    if isinstance(found, IllegalAccess | Misaligned | DeviceAssert | TimedOut):
        return replace(found, replay=Replay(outcome="located"))
    return with_replay(verdict, Replay(outcome="other-verdict", code=found.code))
