"""Everything that can become of a candidate: one union of frozen values with stable codes.

A bad kernel is data, not an exception. First come the facts that several verdicts hold (threads,
errors of a GPU, memory accesses), then each verdict after the facts that it alone holds, the union
`Verdict`, and what makes two failures the same. What is not known is None, never 0 and never an
empty text. The words are in `verdict_wording`. Match on `Verdict` exhaustively: a type-checker then
lists every place to change when a verdict is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, TypeAlias, assert_never

from cuda_llm.codec import SPARSE, ByCode
from cuda_llm.errors import InfrastructureError, machinery_error
from cuda_llm.profile import Profile
from cuda_llm.source_file import SourceSpot

LONGEST_VECTOR = 8
"""Most elements of one vector access: a longer step is that of a tile."""
_INFRA = "INFRA_"


@dataclass(frozen=True, kw_only=True)
class ThreadSpot:
    """One thread of one launch."""

    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]

    def __str__(self) -> str:
        return f"{self.kernel} block {self.block} thread {self.thread}"


@dataclass(frozen=True, kw_only=True)
class CudaError:
    """All that a GPU says of a kernel that it stopped."""

    number: int
    """A CUresult; cudaError_t has the same numbers."""
    name: str
    """CUDA's name of the error, e.g. `cudaErrorIllegalAddress`."""
    kernel: str | None = None
    """The kernel launched last."""


ReplayOutcome = Literal["located", "nothing-found", "other-verdict", "not-finished", "not-run"]


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The result of running a case on the emulated device that a GPU stopped with an error code."""

    outcome: ReplayOutcome
    """`located`: the emulated device showed the place that this verdict names."""
    limit_s: float | None = None
    code: str | None = None
    """Code of the other verdict, of `other-verdict`."""
    detail: str = ""
    """Why the case was not run, of `not-run`."""


MemorySpace = Literal["global", "shared", "local", "const", "param", "generic"]
"""A memory space; `generic` where an instruction was given another space's address."""

AccessKind = Literal["read", "write", "atomic"]

Relation = Literal["inside", "past-end", "before-start", "nowhere"]
"""Where an address lies relative to the nearest allocation; `nowhere`: no allocation is near."""

Owner = Literal[
    "buffer", "scratch", "heap", "variable", "constant", "shared", "local", "param", "allocation"
]
"""What owns memory; `scratch` came from cudaMalloc, `heap` from malloc in a kernel, `allocation` is
memory without a name."""


@dataclass(frozen=True, kw_only=True)
class SharedArray:
    """The array of shared memory that an access points into, or that ends before it."""

    name: str
    offset_bytes: int
    """Distance from the start of the array."""
    size_bytes: int | None = None
    """Size of the array; None where the launch says how large it is."""
    index: tuple[int, ...] = ()
    """The element, where the extents of the array are known."""


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where an access points, relative to the memory that owns the address or is nearest."""

    relation: Relation | None = None
    owner: Owner | None = None
    name: str | None = None
    """Name of the buffer."""
    number: int | None = None
    """Number of the cudaMalloc allocation, from 0."""
    offset_bytes: int | None = None
    """Distance from the owner's start; negative before the start."""
    size_bytes: int | None = None
    """Size of the owner."""
    freed: bool = False
    """Whether the owner was freed before the access."""
    address: int | None = None
    """The address itself, of `nowhere`."""
    array: SharedArray | None = field(default=None, metadata=SPARSE)
    """The array, of shared memory."""


CopyLack = Literal["commit", "commit-before-wait", "wait"]
"""What a copy lacks: its group was not committed, or after the last wait, or no wait covers it."""


@dataclass(frozen=True, kw_only=True)
class CopyUnderWay:
    """A `cp.async` that has yet to bring the bytes that are accessed."""

    spot: SourceSpot | None = None
    lacks: CopyLack


@dataclass(frozen=True, kw_only=True)
class FailedCall:
    """A function of CUDA's runtime that returned an error to `solve`, which went on."""

    call: str
    """Name of the function, e.g. `cudaMemcpyAsync`; a launch by `<<<>>>` is `cudaLaunchKernel`."""
    error: str
    """CUDA's name of the error."""
    kernel: str | None = None
    """The kernel that the call is about."""
    times: int = 1
    """How often the call of `solve` got this error from this function."""
    spot: SourceSpot | None = None
    """The call, where the source spells only one such call."""


DescriptorFlaw = Literal["reserved-bits", "no-pattern", "negative-start"]
"""What is wrong with the matrix descriptor, or the tile, of an access. `no-pattern`: no pattern of
the swizzle begins at the address of the descriptor. `negative-start`: a written tile begins at a
negative coordinate."""


@dataclass(frozen=True, kw_only=True)
class MemoryAccess:
    """One access of memory by one thread."""

    space: MemorySpace | None = None
    kind: AccessKind | None = None
    bytes: int | None = None
    location: Location | None = None
    descriptor: DescriptorFlaw | None = None


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


@dataclass(frozen=True, kw_only=True)
class NoCode:
    """A generator's answer held no kernel."""

    code: ClassVar[str] = "NO_CODE"
    kind: str = "no_code"
    """A `ReplyFault`, `call_failed`, `exhausted`, or a word of a user's generator."""
    message: str = ""
    """Words of a user's generator, shown instead of the words for `kind`."""
    said: str = ""
    """Words of the reply or of the provider."""
    call_fault: str = ""
    """Kind of the `CallFailed`, where the model did not answer."""
    most_characters: int | None = None
    """Most characters allowed in a kernel, of `too_long`."""


@dataclass(frozen=True, kw_only=True)
class Duplicate:
    """The kernel repeats a kernel that was judged before."""

    code: ClassVar[str] = "DUPLICATE"
    of: str
    """Id of the earlier attempt."""


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


@dataclass(frozen=True, kw_only=True)
class Diagnostic:
    """One message of a compiler."""

    severity: str
    """`error` or `warning`."""
    message: str
    spot: SourceSpot | None = None
    tool: str = "nvcc"
    """The stage that printed the message: `nvcc`, `ptxas`, `g++`, `ld`."""
    fault: BuildFault | None = None
    """What the message says about the source, where recognised."""
    subject: str | None = None
    """The name that the message is about."""
    names_hardware: bool = False
    """Whether the message holds a limit or the name of the GPU."""


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
"""What ends a compilation without a message about the source."""


@dataclass(frozen=True, kw_only=True)
class CompilerStop:
    """What ended a compilation without a message about the source."""

    kind: CompilerStopKind
    program: str | None = None
    """The program of the toolkit that stopped; `cpp` is the preprocessor."""
    limit_bytes: int | None = None
    """Limit of a file's size, or of memory."""
    limit_s: float | None = None
    """Limit of processor time."""
    signal: int | None = None
    exit_code: int | None = None
    file: str | None = None
    """The empty file, of `empty-source`."""


@dataclass(frozen=True, kw_only=True)
class CompileFailed:
    """nvcc, ptxas or the linker refused the source, or exceeded a limit of memory or time."""

    code: ClassVar[str] = "COMPILE_FAILED"
    diagnostics: tuple[Diagnostic, ...] = ()
    """Errors first, bounded."""
    omitted: int = 0
    """How many diagnostics were cut."""
    fault: BuildFault | None = None
    """What is wrong with the source, where no single message says so."""
    stop: CompilerStop | None = None
    """What ended the compilation, where no message did."""
    declaration: str = ""
    """The signature that `solve` must have, where the source gives `solve` another one."""
    compiler_output: str = ""
    """The last line that the compiler printed, where no line is recognised as a message."""

    @property
    def first_error(self) -> Diagnostic | None:
        """The first error of the compiler; later errors are often its consequences."""
        return next((one for one in self.diagnostics if one.severity == "error"), None)


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
    "unjoined-stream",
]
"""How exactly a rule is broken, where the rule can be broken in several ways."""


@dataclass(frozen=True, kw_only=True)
class PolicyBreach:
    """What exactly a candidate does that no kernel may do."""

    kind: BreachKind
    names: tuple[str, ...] = ()
    """Names of the files, functions, libraries or sections that `kind` is about."""
    number: int | None = None
    """Number of a system call whose name is not known."""
    limit_bytes: int | None = None
    """Most bytes that may be copied from the host."""


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


LoadFault = Literal["no-solve", "undefined-function", "linker", "driver"]
"""Why a compiled candidate cannot be loaded."""


@dataclass(frozen=True, kw_only=True)
class LoadFailed:
    """The compiled candidate could not be loaded, or has no `solve`."""

    code: ClassVar[str] = "LOAD_FAILED"
    detail: str = ""
    """Words of the linker or the driver."""
    fault: LoadFault | None = None
    symbol: str | None = None
    """The missing function."""


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


@dataclass(frozen=True, kw_only=True)
class ExceededLimit:
    """A limit of the device that a launch exceeds, in the unit of the limited quantity."""

    name: LimitName
    asked: int | None = None
    allowed: int | None = None
    axis: Literal["x", "y", "z"] | None = None
    """Axis of the exceeded extent."""
    static_bytes: int | None = None
    """Static shared memory that the kernel declares, beside the dynamic shared memory."""
    most_bytes: int | None = None
    """Most shared memory of a block after the attribute of the kernel is raised."""


@dataclass(frozen=True, kw_only=True)
class LaunchShape:
    """A launch as the candidate asked for it."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class LaunchFailed:
    """A launch or runtime call was refused (too many threads, too much shared memory ...)."""

    code: ClassVar[str] = "LAUNCH_FAILED"
    kernel: str
    error: str
    """CUDA's name of the error, e.g. `cudaErrorInvalidConfiguration`."""
    limit: ExceededLimit | None = None
    launch: LaunchShape | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceFault:
    """A fault in device code: the fields that all kinds of such faults share."""

    code: ClassVar[str]
    thread: ThreadSpot | None = None
    spot: SourceSpot | None = None
    error: CudaError | None = None
    """The error code of a GPU, which names neither line, thread nor address."""
    replay: Replay | None = None
    """The same case on the emulated device, where a GPU gave an error code alone."""
    failed_calls: tuple[FailedCall, ...] = field(default=(), metadata=SPARSE)
    """What CUDA refused of the call of `solve` before."""
    unlaunched: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Kernels of the source that the call had not launched, where the fault is that nobody wrote
    what is read."""


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


StopReason = Literal["assert", "trap", "illegal-instruction", "invalid-pc", "launch-failure"]
"""What stopped a kernel; `launch-failure`: a GPU says only that a launch failed."""


@dataclass(frozen=True, kw_only=True)
class DeviceAssert(DeviceFault):
    """Device code called `assert` or `__trap`, or jumped to where no code is."""

    code: ClassVar[str] = "DEVICE_ASSERT"
    reason: StopReason | None = None
    assertion: str | None = None
    """Text of the kernel's assertion."""
    called: int | None = None
    """Address that was called and is that of no function with such parameters."""


RaceKind = Literal["write-write", "read-write", "write-read"]
"""The earlier access, then the later one; an atomic update counts as a write."""


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
    """Number of races that compute-sanitizer counted."""
    unfenced: bool = False
    """Whether a bulk copy reads a stored word with no `fence.proxy.async` in between."""
    other: SourceSpot | None = None
    """Line of the earlier access."""
    location: Location | None = field(default=None, metadata=SPARSE)
    """Where the word is."""
    copy: CopyUnderWay | None = field(default=None, metadata=SPARSE)
    """The copy that makes one of the two accesses, where no wait covers it."""
    further: tuple["DeviceFinding", ...] = field(default=(), metadata=SPARSE)
    """Races at other lines in the same call, then the fault that ended it, which may follow from a
    race."""

    @property
    def read_and_update(self) -> tuple[SourceSpot | None, SourceSpot | None]:
        """Return the lines of a plain read and an atomic update, in whichever order they came."""
        return (self.other, self.spot) if self.atomic else (self.spot, self.other)


Decision = Literal["address", "branch", "access", "atomic", "collective", "operand", "output"]
"""What a value is used for where it matters.

`access`: whether an instruction that accesses memory is executed; `collective`: a mask or a lane of
a warp's instruction; `output`: an element of an output.
"""


@dataclass(frozen=True, kw_only=True)
class UninitialisedRead(DeviceFault):
    """A thread read a value that no thread had written.

    The place is where it was read; of a register that nothing had set, where it was used.
    """

    code: ClassVar[str] = "UNINITIALISED_READ"
    access: MemoryAccess | None = None
    """None where no memory was read: a register that nothing had set."""
    decides: Decision | None = None
    """What the value was used for; None where the read itself is all that is known."""
    used_at: SourceSpot | None = None
    """Line where the value was used."""
    copy: CopyUnderWay | None = field(default=None, metadata=SPARSE)
    """The copy that was to bring the value."""


SyncKind = Literal["divergent-barrier", "partial-mask", "deadlock", "unwaited", "unfenced"]
"""`unwaited`: a register of an asynchronous product was touched before the wait for the product.
`unfenced`: such a register was written with no fence before the product."""

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


@dataclass(frozen=True, kw_only=True)
class InvalidSync(DeviceFault):
    """Threads did not all reach a barrier or warp collective, or a warpgroup did not wait for, or
    fence, an asynchronous product."""

    code: ClassVar[str] = "INVALID_SYNC"
    kind: SyncKind
    reason: SyncReason | None = None
    opcode: str | None = None
    """PTX opcode of the barrier or collective."""
    mask: int | None = None
    lane: int | None = None
    """The lane that takes no part."""
    missing_arrivals: int | None = None
    """Arrivals that an awaited phase of an mbarrier lacks."""
    missing_bytes: int | None = None
    """Bytes that an awaited phase of an mbarrier lacks."""
    other: SourceSpot | None = None
    """Line where the other threads wait, or of the product, or of the write to its registers."""


DeviceFinding: TypeAlias = Annotated[
    IllegalAccess | Misaligned | DeviceAssert | DataRace | UninitialisedRead | InvalidSync, ByCode()
]
"""A fault in device code."""


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
    """The kernel that is still running."""
    crowded: bool = False
    """Whether the grid has more blocks than are resident at once, which may deadlock."""
    processor_time: bool = False
    """Whether `limit_s` is processor time."""
    only_slow: bool = False
    """Whether blocks were still ending when the time was up, on the emulated device: the kernel is
    slow there, and need not be endless."""
    error: CudaError | None = None
    replay: Replay | None = None


MemoryRequest = Literal["cudaMalloc", "variables", "to-load", "to-run"]
"""What found no memory: a cudaMalloc of `solve`, the module's variables, its code, or a call."""

MemoryBound = Literal["quota", "device"]


@dataclass(frozen=True, kw_only=True)
class OutOfMemory:
    """The candidate asked for more device memory than its quota, or than the device has."""

    code: ClassVar[str] = "OUT_OF_MEMORY"
    request: MemoryRequest | None = None
    bytes: int | None = None
    """Bytes that the candidate asked for."""
    allowed_bytes: int | None = None
    """Most bytes that a call of `solve` may hold at once."""
    bound: MemoryBound | None = None
    """Which limit was reached."""
    then: str | None = None
    """How the candidate ended after the failed allocation: a signal, or `exit`."""
    error: CudaError | None = None
    beside_baseline: bool = False
    """Whether the candidate left no memory to the baseline beside it."""


@dataclass(frozen=True, kw_only=True)
class HostCrashed:
    """The host part of the candidate crashed or ended the process."""

    code: ClassVar[str] = "HOST_CRASHED"
    signal: str
    """Name of the signal, or `exit`, or CUDA's name of an error that only host code can cause."""
    address: int | None = None
    """Address that the host part touched."""
    status: int | None = None
    """Exit status, of `exit`."""
    killed: bool = False
    """Whether the process was killed from outside; perhaps memory ran out."""
    error: CudaError | None = None


class RegionKind(StrEnum):
    """Where in an output the wrong elements lie, where that is one place or a regular pattern."""

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
    """Part of the rows, columns or elements, 0 to 1: a ratio, because the size may be hidden."""
    period: int | None = None
    """Distance between wrong elements, of `EVERY_NTH`."""


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
    CONJUGATED = "conjugated"
    PARTS_SWAPPED = "parts-swapped"
    ONE_TOO_MANY = "one-too-many"
    ONE_TOO_FEW = "one-too-few"
    TOO_MANY = "too-many"
    TOO_FEW = "too-few"
    ROUNDED_TO_TF32 = "rounded-to-tf32"
    """Rounded to TF32 or half precision: both keep as many bits."""
    ROUNDED_TO_BF16 = "rounded-to-bf16"
    LOCATED = "located"
    """Known only by the region of the wrong elements."""
    ROW_SUMS = "row-sums"
    """Random sums over a row are off; which element of the row is wrong is not known."""


@dataclass(frozen=True, kw_only=True)
class ElementPattern:
    """What the wrong elements of one output look like."""

    kind: ElementKind
    region: Region | None = None
    """Region of `LOCATED`, and of `UNWRITTEN` where exactly the region is wrong."""
    share: float | None = None
    """Part of the elements that are so, or of the counts that are lost, 0 to 1."""
    factor: int | None = None
    """How many times too large (`MULTIPLE`) or too small (`FRACTION`) the elements are."""
    buffer: str | None = None
    """Input that was copied, of `COPIED`."""


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
    """What the wrong cases have in common and the right cases do not."""

    kind: CaseKind
    dims: tuple[str, ...] = ()
    """Names of the dimensions that decide."""
    step: int | None = None
    """Multiple at which cases are right, of `MULTIPLE_OF`."""
    right_at: int | None = None
    """Nearest extent of a public size at which cases are right."""
    wrong_at: int | None = None
    """Nearest extent of a public size at which cases are wrong."""
    distributions: tuple[str, ...] = ()

    @property
    def is_vector(self) -> bool:
        """Whether `step` is that of a vector rather than of a tile."""
        return len(self.dims) == 1 and self.step is not None and self.step <= LONGEST_VECTOR


@dataclass(frozen=True, kw_only=True)
class WrongResult:
    """The output differs from the float64 reference by more than the task allows."""

    code: ClassVar[str] = "WRONG_RESULT"
    size_class: str
    """`emulated`, `edge`, `hidden`, `bench`."""
    dims: Mapping[str, int]
    """Dimensions of the case; empty for hidden sizes, which no agent may see."""
    distribution: str
    buffer: str
    index: tuple[int, ...]
    """Index of the first wrong element; empty for hidden sizes."""
    got: float
    expected: float
    error: float
    """Largest normalised error, in rounding units of the tolerance class."""
    limit: float
    """Largest error allowed, in the same units."""
    wrong: int | None
    """Number of wrong elements; None for hidden sizes."""
    elements: int | None
    """Number of elements of the output; None for hidden sizes."""
    looks_like: ElementPattern | None = None
    """Pattern of the wrong elements, where recognised."""
    case_pattern: CasePattern | None = None
    """Pattern of the wrong cases, where recognised."""
    failed_cases: int = 1
    cases: int = 1
    repeat: str = ""
    """How the first wrong call differs from the right call before, at the same addresses: in one
    input element (`one-changed`), in the order of an input's elements (`permuted`), in all contents
    (`fresh`), in nothing (`extra`). Empty where no call before was right."""
    failed_calls: tuple[FailedCall, ...] = field(default=(), metadata=SPARSE)
    """What CUDA refused of the call of `solve`."""
    unlaunched: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Kernels of the source that the call did not launch, where elements were never written."""
    imaginary: tuple[float, float] | None = field(default=None, metadata=SPARSE)
    """Imaginary parts of `got` and `expected`, where elements are complex."""

    @property
    def numbers(self) -> tuple[float, float] | tuple[complex, complex]:
        """Return the first wrong element and what it should be."""
        if self.imaginary is None:
            return self.got, self.expected
        return complex(self.got, self.imaginary[0]), complex(self.expected, self.imaginary[1])


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


Instability = Literal["order-of-execution", "spread"]
"""`order-of-execution`: right with one order of blocks and warps, wrong with another."""


@dataclass(frozen=True, kw_only=True)
class Nondeterministic:
    """Two calls of the kernel on equal inputs gave different results."""

    code: ClassVar[str] = "NONDETERMINISTIC"
    buffer: str
    kind: Instability | None = None
    units: float | None = None
    """Difference of two calls, in rounding units."""
    limit: float | None = None
    """A quarter of the tolerance, in rounding units."""


@dataclass(frozen=True, kw_only=True)
class LateWrite:
    """An output changed after `solve` and its kernels had ended."""

    code: ClassVar[str] = "LATE_WRITE"
    buffer: str


@dataclass(frozen=True, kw_only=True)
class ImpossibleTime:
    """The time is shorter than the hardware needs to move the bytes or do the arithmetic."""

    code: ClassVar[str] = "IMPOSSIBLE_TIME"
    time_us: float
    floor_us: float


@dataclass(frozen=True, kw_only=True)
class DependentLaunch:
    """A launch that cannot be sampled by some of its blocks: they read what other blocks wrote."""

    kernel: str
    spot: SourceSpot | None = None
    """Line that reads it, where one instruction does."""


@dataclass(frozen=True, kw_only=True)
class EmulatorUnsupported:
    """The kernel compiles, but executes an operation that the emulated device does not have."""

    code: ClassVar[str] = "EMULATOR_UNSUPPORTED"
    opcode: str
    kernel: str
    others: int = 0
    """Number of further operations of the kernel that the emulated device does not execute."""
    spot: SourceSpot | None = None


Suspicion = Literal[
    "slow-start", "merged-calls", "uncounted-launches", "unseen-stores", "less-work"
]
"""Why a kernel's time is not believed."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """What a call at a timed size was seen to do, beside what it was expected to do."""

    dims: Mapping[str, int]
    """The timed size, whose outputs were not compared."""
    counted: float
    """Bytes stored, or floating-point operations."""
    least: float
    """Least count that is taken for all of the work."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """The compared size that does least for each operation of the task; empty for bytes."""


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """The time of the candidate is not believed: a person should look at the kernel."""

    code: ClassVar[str] = "QUARANTINED"
    kind: Suspicion | None = None
    beyond_us: float | None = None
    """Excess of its times over those of an honest kernel, noise subtracted."""
    launches: int | None = None
    """Number of launches, of `uncounted-launches`."""
    left_out: LeftOut | None = None
    """What was counted, of `less-work` and `unseen-stores`."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """Correct in every check that was made."""

    code: ClassVar[str] = "PASSED"
    profile: Profile | None = None
    differential: bool = False
    """Whether the oracle was the user's own kernel, not an independent reference."""
    guarded_races: tuple[DataRace, ...] = ()
    """Races of plain reads that only decide whether an atomic update of the same word is made.
    With `--strict` the first is the verdict."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class InfraFailed:
    """A part of cuda-llm or the device broke: not the fault of the candidate, hence retried."""

    component: str
    """`compiler`, `runner`, `device`, `referee` ..."""
    detail: str
    figures: Mapping[str, float] = field(default_factory=dict)
    lacked_memory: bool = False
    """Whether the failed part found no memory: a retry with less in use may succeed."""
    traceback: str = ""
    """Whole traceback, where code of the user raised."""

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

DoubtOutcome = Literal["odd-process", "stale-reference", "unsettled"]
"""What a second process shows about a baseline that is off its reference time. `odd-process`: only
the first process was off. `stale-reference`: every process is off now."""


@dataclass(frozen=True, kw_only=True)
class BaselineDoubt:
    """A baseline beside a candidate took another time than its reference time: the size where it
    was farthest off, and its times when measured once more."""

    outcome: DoubtOutcome
    dims: Mapping[str, int]
    beside_us: float
    """Time of the baseline beside the candidate, first measurement."""
    reference_us: float
    """Time of the baseline alone, measured earlier in another process."""
    again_us: float
    """Time of the baseline beside the candidate, second measurement, in a new process."""
    alone_us: float | None = None
    """Time of the baseline alone in another new process; None where not measured."""


Basis = Literal["executed", "passed ours", "never ended"]
"""How the answer is known: the check was made, or our own verdict leaves no other answer."""


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
    """Group of sizes that the check ran at: `bench` as published, or the smaller `emulated` sizes
    where the device computes no whole results at `bench`. Empty where nothing was executed."""
    left_out: int = 0
    """Number of these sizes that were skipped, because they would have taken too long."""
    absolute_tolerance: float
    detail: str = ""
    """Why the check refuses the kernel."""


def component_of(code: str) -> str | None:
    """Return the component of an `INFRA_` code; None for a code that blames the kernel."""
    return code.removeprefix(_INFRA).lower() if code.startswith(_INFRA) else None


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """Return the verdict as an exception, where no candidate can have the verdict."""
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
    """Return the verdict with the result of running its case on the emulated device."""
    if isinstance(verdict, DeviceFault | TimedOut):
        return replace(verdict, replay=replay)
    return verdict


def with_place(verdict: Verdict, found: Verdict) -> Verdict:
    """Return a GPU's `verdict` with the place that the emulated device shows for the same case.

    The more precise kind wins: a launch failure becomes the illegal access behind it. A race or an
    uninitialised read does not explain an access that a GPU refused.
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
    """Return the verdict's code and the facts of its cause, without figures and places.

    Two kernels with equal keys failed in the same way. A passed kernel has its code alone.
    """
    return "/".join([verdict.code, *(str(fact) for fact in _cause_facts(verdict) if fact)])


def findings_of(verdict: Verdict) -> tuple[Verdict, ...]:
    """Return a verdict and the further faults of the same call."""
    return (verdict, *verdict.further) if isinstance(verdict, DataRace) else (verdict,)


def fault_key(verdict: Verdict) -> tuple[object, ...]:
    """Return what two verdicts on one kernel share where they name one fault: the code, the buffer
    or rule, and the lines of the source, whichever of two lines was executed first."""
    lines = frozenset(getattr(verdict, name, None) for name in ("spot", "other"))
    return (verdict.code, lines, *(getattr(verdict, name, None) for name in ("buffer", "rule")))


def _cause_facts(verdict: Verdict) -> tuple[str | None, ...]:
    match verdict:
        case NoCode(kind=kind):
            return (kind,)
        case CompileFailed(fault=fault, first_error=first):
            if first is None:
                return (fault,)
            # An error that is not classified is a kind of its own.
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
