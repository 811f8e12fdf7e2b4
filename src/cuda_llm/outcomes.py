"""Everything that can become of a candidate: one union of frozen values with stable codes.

A bad kernel is data, not an exception. First come the facts that a verdict may hold (threads,
accesses, limits, errors of a driver), then the patterns of wrong elements and of wrong cases, then
each verdict, their union `Verdict`, and what makes two failures the same. What is not known is
None, never 0 and never an empty text. Match on `Verdict` exhaustively: a type-checker then lists
every place to change when a verdict is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Literal, TypeAlias, assert_never

from cuda_llm.errors import InfrastructureError, machinery_error
from cuda_llm.profile import Profile
from cuda_llm.source_file import SourceSpot


@dataclass(frozen=True, kw_only=True)
class ThreadSpot:
    """One thread of one launch."""

    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kernel} block {self.block} thread {self.thread}"


MemorySpace = Literal["global", "shared", "local", "const", "param", "generic"]
"""A memory space; `generic` where an instruction was given another space's address."""

AccessKind = Literal["read", "write", "atomic"]

Relation = Literal["inside", "past-end", "before-start", "nowhere"]
"""Where an address lies against the memory nearest to it; `nowhere`: it is near nobody's."""

Owner = Literal[
    "buffer", "scratch", "variable", "constant", "shared", "local", "param", "allocation"
]
"""Whose memory it is; `scratch` came from cudaMalloc, `allocation` is one that nobody named."""

RaceKind = Literal["write-write", "read-write", "write-read"]
"""The earlier access, then the later one; an atomic update counts as a write."""

DescriptorFlaw = Literal["reserved-bits", "no-pattern", "negative-start"]
"""What is wrong with the matrix descriptor, or the tile, that an access follows; `no-pattern`: no
pattern of its swizzle begins where it says; `negative-start`: a tile is written from there on."""

SyncKind = Literal["divergent-barrier", "partial-mask", "deadlock", "unwaited", "unfenced"]
"""`unwaited`: a register of an asynchronous product was touched before the wait; `unfenced`: one
was written without a fence before the product."""

SyncReason = Literal[
    "different-barriers",
    "different-thread-counts",
    "no-such-barrier",
    "not-a-member",
    "missing-lanes",
    "absent-lane",
    "phase-incomplete",
    "cluster-incomplete",
    "too-many-arrivals",
    "no-such-count",
    "unpaired-cluster-barrier",
    "missing-warps",
    "different-operands",
]
"""What exactly is wrong with a barrier or a warp collective."""

StopReason = Literal["assert", "trap", "illegal-instruction", "invalid-pc", "launch-failure"]
"""What stopped a kernel; `launch-failure`: a GPU says no more than that one failed."""

LimitName = Literal[
    "grid-extent",
    "block-extent",
    "threads-per-block",
    "launch-bounds",
    "shared-memory",
    "registers",
    "resident-blocks",
    "cluster",
]
"""What a launch asks too much of."""

ReplayOutcome = Literal["located", "nothing-found", "other-verdict", "not-finished", "not-run"]

LoadFault = Literal["no-solve", "undefined-function", "linker", "driver"]
"""Why a compiled candidate cannot be loaded."""

Instability = Literal["order-of-execution", "spread"]
"""`order-of-execution`: right with one order of blocks and warps, wrong with another."""

MemoryRequest = Literal["cudaMalloc", "variables", "to-load", "to-run"]
"""What found no memory: an allocation of `solve`, its module's variables, its code, or a call."""

MemoryBound = Literal["quota", "device"]

BuildFault = Literal[
    "signature",
    "undefined-name",
    "no-member",
    "unknown-namespace",
    "no-vector-operator",
    "collective-without-mask",
    "missing-header",
    "static-shared-memory",
    "unsupported-instruction",
    "host-call-in-device-code",
    "device-call-in-host-code",
    "redefinition",
    "not-a-constant",
    "types",
    "syntax",
    "undefined-reference",
    "too-large",
    "empty",
]
"""What a message of a compiler says about the source."""

ReplyFault = Literal[
    "empty",
    "only_reasoning",
    "truncated",
    "content_filter",
    "refused",
    "no_code",
    "no_solve",
    "diff",
    "other_language",
    "too_long",
]
"""What is wrong with a model's reply that holds no kernel."""

CompilerStopKind = Literal[
    "empty-source",
    "too-many-processes",
    "file-size",
    "memory",
    "processor-time",
    "device-code",
    "crash",
    "exit-code",
]
"""Why a source has no message of a compiler."""

BreachKind = Literal[
    "outside-file",
    "forbidden-call",
    "forbidden-library",
    "dynamic-entry",
    "visible-name",
    "reserved-name",
    "static-initialiser",
    "load-function",
    "load-section",
    "indirect-function",
    "no-function",
    "system-call",
    "large-copy",
    "large-copies",
]
"""How exactly a rule is broken, where it can be in several ways or about several things."""

DoubtOutcome = Literal["odd-process", "stale-reference", "unsettled"]
"""What a second process says of a baseline that took another time than it is known to take:
`odd-process`: that time was one process's own. `stale-reference`: every process takes it now."""

Suspicion = Literal[
    "slow-start", "merged-calls", "uncounted-launches", "unseen-stores", "less-work"
]
"""Why a kernel's time is not believed."""


@dataclass(frozen=True, kw_only=True)
class DependentLaunch:
    """A launch of which some blocks cannot stand for all: what they do follows from what others
    did."""

    kernel: str
    spot: SourceSpot | None = None
    """What reads that, where it is one instruction."""


@dataclass(frozen=True, kw_only=True)
class BaselineDoubt:
    """The size at which a baseline beside a candidate was farthest from its reference time, and
    what came of timing both once more."""

    outcome: DoubtOutcome
    dims: Mapping[str, int]
    beside_us: float
    """Beside the candidate at first."""
    reference_us: float
    """Alone, measured earlier in another process."""
    again_us: float
    """Beside the candidate once more, in a new process."""
    alone_us: float | None = None
    """Alone in another new process; None where that was not asked."""


@dataclass(frozen=True, kw_only=True)
class CompilerStop:
    """What ended a compilation without a message about the source."""

    kind: CompilerStopKind
    program: str | None = None
    """The one of the toolkit that ran into it; `cpp` is the preprocessor."""
    limit_bytes: int | None = None
    """Of a file, or of memory."""
    limit_s: float | None = None
    """Of processor time."""
    signal: int | None = None
    exit_code: int | None = None
    file: str | None = None
    """The one that is empty."""


@dataclass(frozen=True, kw_only=True)
class PolicyBreach:
    """What exactly a candidate does that it may not."""

    kind: BreachKind
    names: tuple[str, ...] = ()
    """Of files, functions, libraries or sections, as `kind` says."""
    number: int | None = None
    """Of a system call whose name is not known."""
    limit_bytes: int | None = None
    """That may be copied from the host."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where an access points."""

    relation: Relation | None = None
    owner: Owner | None = None
    name: str | None = None
    """Of a buffer."""
    number: int | None = None
    """Of an allocation by cudaMalloc, from 0."""
    offset_bytes: int | None = None
    """From the owner's start; negative before it."""
    size_bytes: int | None = None
    """Of the owner."""
    freed: bool = False
    address: int | None = None
    """Where nobody owns it."""


@dataclass(frozen=True, kw_only=True)
class MemoryAccess:
    """One access of memory by one thread."""

    space: MemorySpace | None = None
    kind: AccessKind | None = None
    bytes: int | None = None
    location: Location | None = None
    descriptor: DescriptorFlaw | None = None


@dataclass(frozen=True, kw_only=True)
class CudaError:
    """All that a GPU says of a kernel that it stopped."""

    number: int
    """A CUresult; cudaError_t has the same numbers."""
    name: str
    """As a CUDA programmer knows it, e.g. `cudaErrorIllegalAddress`."""
    kernel: str | None = None
    """The one launched last."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came of executing a case on the emulated device that a GPU gave an error code for."""

    outcome: ReplayOutcome
    """`located`: the place in this verdict is what the emulated device shows."""
    limit_s: float | None = None
    code: str | None = None
    """Of the other verdict that it came to."""
    detail: str = ""
    """Why it was not run."""


@dataclass(frozen=True, kw_only=True)
class LaunchShape:
    """A launch as it was asked for."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class ExceededLimit:
    """A limit of the device that a launch goes beyond, in the unit of what it limits."""

    name: LimitName
    asked: int | None = None
    allowed: int | None = None
    axis: Literal["x", "y", "z"] | None = None
    """Of an extent."""
    static_bytes: int | None = None
    """Shared memory that the kernel declares, beside the dynamic one asked for."""
    most_bytes: int | None = None
    """Shared memory a block may have once the attribute is raised."""


class RegionKind(StrEnum):
    """Where in an output wrong elements lie, if that is one place or a regular one."""

    FIRST_ELEMENT = "first-element"
    LAST_ELEMENT = "last-element"
    LAST_ROWS = "last-rows"
    LAST_COLUMNS = "last-columns"
    LAST_ELEMENTS = "last-elements"
    LAST_CORNER = "last-corner"
    EVERY_NTH = "every-nth"


@dataclass(frozen=True, kw_only=True)
class Region:
    """A part of an output."""

    kind: RegionKind
    share: float | None = None
    """Of the rows, columns or elements, 0 to 1. A ratio: the size may be hidden."""
    period: int | None = None
    """Of `EVERY_NTH`."""


class ElementKind(StrEnum):
    """What the wrong elements of an output look like."""

    UNWRITTEN = "unwritten"
    NAN = "nan"
    INFINITE = "infinite"
    ZEROS = "zeros"
    CONSTANT = "constant"
    COPIED = "copied"
    TRANSPOSED = "transposed"
    SHIFTED = "shifted"
    REVERSED = "reversed"
    MULTIPLE = "multiple"
    FRACTION = "fraction"
    NEGATED = "negated"
    ONE_TOO_MANY = "one-too-many"
    ONE_TOO_FEW = "one-too-few"
    TOO_MANY = "too-many"
    TOO_FEW = "too-few"
    ROUNDED_TO_TF32 = "rounded-to-tf32"
    """Or to half precision: both keep as many bits."""
    ROUNDED_TO_BF16 = "rounded-to-bf16"
    LOCATED = "located"
    """Nothing but where they are."""
    ROW_SUMS = "row-sums"
    """Random sums over a row are off; which element it is was not told apart."""


@dataclass(frozen=True, kw_only=True)
class ElementPattern:
    """What wrong elements look like, with what belongs to the kind."""

    kind: ElementKind
    region: Region | None = None
    """Of `LOCATED`, and of `UNWRITTEN` where these elements and no others are wrong."""
    share: float | None = None
    """Of the elements that are so, of counts that are lost; 0 to 1."""
    factor: int | None = None
    """How many times too much of `MULTIPLE`, too little of `FRACTION`."""
    buffer: str | None = None
    """The input of `COPIED`."""


LONGEST_VECTOR = 8
"""Elements of one vector access, at most: what fails at other multiples is a tile."""


class CaseKind(StrEnum):
    """A rule that splits right cases from wrong ones exactly."""

    EXACTNESS_PROBE = "exactness-probe"
    """Wrong where sums of whole numbers have to be exact."""
    MULTIPLE_OF = "multiple-of"
    """Right where the dimensions are multiples of `step`."""
    EQUAL_DIMS = "equal-dims"
    """Right where two dimensions are equal."""
    ABOVE = "above"
    """Wrong from `wrong_at` on."""
    BELOW = "below"
    """Wrong up to `wrong_at`."""
    DISTRIBUTION = "distribution"
    """Wrong on inputs drawn from some distributions."""


@dataclass(frozen=True, kw_only=True)
class CasePattern:
    """What the wrong cases have in common that the right ones have not."""

    kind: CaseKind
    dims: tuple[str, ...] = ()
    """Names of the dimensions it is about."""
    step: int | None = None
    right_at: int | None = None
    """Nearest extent, of those that may be told, at which all is right."""
    wrong_at: int | None = None
    distributions: tuple[str, ...] = ()

    @property
    def is_vector(self) -> bool:
        """Whether the step is that of a vector rather than of a tile."""
        return len(self.dims) == 1 and self.step is not None and self.step <= LONGEST_VECTOR


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


_INFRA = "INFRA_"


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

Basis = Literal["executed", "passed ours", "never ended"]
"""How it is known: by making that check, or because our own verdict leaves no other answer."""


@dataclass(frozen=True, kw_only=True)
class PublishedCheck:
    """The answer of the check of arXiv 2506.09092: each output element within an absolute
    tolerance of the reference, on one fixed draw of the first distribution at each size.

    It refuses an element only where its distance is greater than the tolerance, so a NaN passes;
    it calls `solve` once on outputs that hold zeros, and looks at nothing else.
    """

    accepts: bool
    basis: Basis
    sizes: str = ""
    """Group of sizes that it was made at: `bench` as published, or `emulated`, smaller ones, where
    the device shows no whole results at the others. Empty where nothing was executed."""
    left_out: int = 0
    """How many of these sizes were not looked at, for they would have taken too long."""
    absolute_tolerance: float
    detail: str = ""
    """Why it refuses."""


def component_of(code: str) -> str | None:
    """Return the component whose failure has that code; None where a kernel has it."""
    return code.removeprefix(_INFRA).lower() if code.startswith(_INFRA) else None


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """Return the same as an error, where no candidate has the verdict."""
    return machinery_error(verdict.component, verdict.detail, lacked_memory=verdict.lacked_memory)


def lacks_place(verdict: object) -> bool:
    """Return whether a GPU stopped the kernel without a place, and no replay was tried."""
    match verdict:
        case DeviceFault(error=CudaError(), spot=None, thread=None, replay=None):
            return True
        case TimedOut(stage="kernel", spot=None, thread=None, replay=None):
            return True
    return False


def with_replay(verdict: Verdict, replay: Replay) -> Verdict:
    """Return the same with what became of executing its case on the emulated device."""
    if isinstance(verdict, DeviceFault | TimedOut):
        return replace(verdict, replay=replay)
    return verdict


def with_place(verdict: Verdict, found: Verdict) -> Verdict:
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


def failure_key(verdict: Verdict) -> str:
    """Return the verdict's code and what it knows of the cause, without figures and places.

    Two kernels with one key failed in the same way. Of a passed kernel it is the code alone.
    """
    return "/".join([verdict.code, *(str(fact) for fact in _cause_facts(verdict) if fact)])


def _cause_facts(verdict: Verdict) -> tuple[str | None, ...]:
    match verdict:
        case NoCode(kind=kind):
            return (kind,)
        case CompileFailed(fault=fault, diagnostics=diagnostics):
            first = next((one for one in diagnostics if one.severity == "error"), None)
            if first is None:
                return (fault,)
            # An error that nobody has classified is its own kind.
            return (fault or first.fault or first.message, first.subject)
        case PolicyViolation(rule=rule):
            return (rule,)
        case LoadFailed(fault=fault, symbol=symbol):
            return (fault, symbol)
        case LaunchFailed(error=error, limit=limit):
            return (error, limit.name if limit else None)
        case IllegalAccess(access=access) | Misaligned(access=access):
            return _access_facts(access, verdict.error)
        case UninitialisedRead(access=access):
            return _access_facts(access, verdict.error)
        case DeviceAssert(reason=reason, assertion=assertion):
            return (reason, assertion)
        case DataRace(kind=kind, space=space):
            return (kind, space)
        case InvalidSync(kind=kind, reason=reason):
            return (kind, reason)
        case TimedOut(stage=stage):
            return (stage,)
        case OutOfMemory(request=request, bound=bound):
            return (request, bound)
        case HostCrashed(signal=signal):
            return (signal,)
        case WrongResult(buffer=buffer, looks_like=elements, case_pattern=cases):
            region = elements.region if elements else None
            kinds = (one.kind if one else None for one in (elements, region, cases))
            return (buffer, *kinds)
        case GuardOverwritten(buffer=buffer, side=side):
            return (buffer, side)
        case Nondeterministic(buffer=buffer, kind=kind):
            return (buffer, kind)
        case InputMutated(buffer=buffer) | LateWrite(buffer=buffer):
            return (buffer,)
        case EmulatorUnsupported(opcode=opcode):
            return (opcode,)
        case Duplicate() | ImpossibleTime() | Quarantined() | Passed() | InfraFailed():
            return ()
        case _:
            assert_never(verdict)


def _access_facts(access: MemoryAccess | None, error: CudaError | None) -> tuple[str | None, ...]:
    if access is None:
        return (error.name if error else None,)
    location = access.location or Location()
    return (access.space, access.kind, location.relation, location.owner, location.name)
