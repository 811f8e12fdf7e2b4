"""What verdicts know beyond their kind: lines, threads, accesses and where they point, limits, a
driver's errors.

What is not known is None, never 0 and never an empty text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class SourceSpot:
    """One line of a source file."""

    file: str
    """Name as the user wrote it, without the private folder it was compiled in."""
    line: int
    text: str = ""
    """The line itself, stripped; empty when the file is not at hand."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


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
