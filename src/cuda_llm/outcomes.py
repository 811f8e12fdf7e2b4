"""Everything that can become of a candidate: one union of frozen values with stable codes.

A bad kernel is data, not an exception. Match on `Verdict` exhaustively; a type-checker then lists
every place to change when a variant is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from cuda_llm.case_patterns import CasePattern
from cuda_llm.element_patterns import ElementPattern
from cuda_llm.errors import InfrastructureError, machinery_error
from cuda_llm.facts import (
    CudaError,
    ExceededLimit,
    Instability,
    LaunchShape,
    MemoryBound,
    MemoryRequest,
    SourceSpot,
    Suspicion,
)
from cuda_llm.failures import (
    CompileFailed,
    DataRace,
    DeviceAssert,
    DeviceFault,
    Diagnostic,
    Duplicate,
    IllegalAccess,
    InvalidSync,
    LoadFailed,
    Misaligned,
    NoCode,
    PolicyViolation,
    TimedOut,
    UninitialisedRead,
    lacks_place,
    with_place,
    with_replay,
)
from cuda_llm.profile import Profile

__all__ = [
    "CompileFailed",
    "DataRace",
    "DeviceAssert",
    "DeviceFault",
    "Diagnostic",
    "Duplicate",
    "EmulatorUnsupported",
    "GuardOverwritten",
    "HostCrashed",
    "IllegalAccess",
    "ImpossibleTime",
    "InfraFailed",
    "InputMutated",
    "InvalidSync",
    "LateWrite",
    "LaunchFailed",
    "LoadFailed",
    "Misaligned",
    "NoCode",
    "Nondeterministic",
    "OutOfMemory",
    "Passed",
    "PolicyViolation",
    "Quarantined",
    "TimedOut",
    "UninitialisedRead",
    "Verdict",
    "WrongResult",
    "component_of",
    "infrastructure_error",
    "lacks_place",
    "with_place",
    "with_replay",
]


@dataclass(frozen=True, kw_only=True)
class LaunchFailed:
    """A launch or runtime call was refused (too many threads, too much shared memory ...)."""

    code: ClassVar[str] = "LAUNCH_FAILED"
    kernel: str
    error: str
    """CUDA's name of the error, e.g. `cudaErrorInvalidConfiguration`."""
    limit: ExceededLimit | None = None
    launch: LaunchShape | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """The candidate asked for more device memory than its quota, or than there is."""

    code: ClassVar[str] = "OUT_OF_MEMORY"
    request: MemoryRequest | None = None
    bytes: int | None = None
    """Asked for."""
    allowed_bytes: int | None = None
    """That the task lets a call of `solve` hold at once."""
    bound: MemoryBound | None = None
    """Whose end was reached."""
    then: str | None = None
    """How the candidate ended that did not cope with it: a signal, or `exit`."""
    error: CudaError | None = None
    beside_baseline: bool = False
    """What it takes leaves none to the baseline beside it."""
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class HostCrashed:
    """The host part of the candidate died."""

    code: ClassVar[str] = "HOST_CRASHED"
    signal: str
    """`exit` where it ended the process; CUDA's name of an error that only host code can cause."""
    address: int | None = None
    """What it touched."""
    status: int | None = None
    """Of an exit."""
    killed: bool = False
    """From outside; perhaps memory ran out."""
    error: CudaError | None = None
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
    """First bad element; empty for hidden sizes."""
    got: float
    expected: float
    error: float
    """Largest normalised error, in units of the class's rounding unit."""
    limit: float
    wrong: int | None
    """Elements; None for hidden sizes, and `elements` too."""
    elements: int | None
    looks_like: ElementPattern | None = None
    """What the wrong elements look like, where that is recognised."""
    case_pattern: CasePattern | None = None
    """What the wrong cases have in common, where that is recognised."""
    failed_cases: int = 1
    cases: int = 1
    repeat: str = ""
    """`one-changed`, `fresh` or `extra` where a call was right and the next, in the same place, was
    not: after one element changed, with other contents, with the same ones."""
    detail: str = ""


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
    kind: Instability | None = None
    units: float | None = None
    """By which two calls differ, in rounding units."""
    limit: float | None = None
    detail: str = ""


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
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class EmulatorUnsupported:
    """The kernel compiles, but the launched path needs what only a GPU has."""

    code: ClassVar[str] = "EMULATOR_UNSUPPORTED"
    opcode: str
    kernel: str
    others: int = 0
    """Operations beside it that it does not execute either."""
    spot: SourceSpot | None = None
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """Set aside for a person to look at."""

    code: ClassVar[str] = "QUARANTINED"
    kind: Suspicion | None = None
    beyond_us: float | None = None
    """By so much its times differ from those of honest kernels, beyond noise."""
    launches: int | None = None
    """More than can be counted."""
    detail: str = ""
    """Words of a record made before the fields: shown, and read by nobody."""


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
    lacked_memory: bool = False
    """What broke found no memory: with less in use another try may find some."""
    traceback: str = ""
    """Whole, where code of a user's own raised."""

    @property
    def code(self) -> str:
        """`INFRA_` and the component, e.g. `INFRA_RUNNER`."""
        return f"{_INFRA}{self.component.upper()}"


_INFRA = "INFRA_"


def component_of(code: str) -> str | None:
    """Return the component whose failure has that code; None where a kernel has it."""
    return code.removeprefix(_INFRA).lower() if code.startswith(_INFRA) else None


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """Return the same as an error, where no candidate has the verdict."""
    return machinery_error(verdict.component, verdict.detail, lacked_memory=verdict.lacked_memory)


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
