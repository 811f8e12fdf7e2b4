"""Candidates that never ran: replies without a kernel, sources and libraries that are refused."""

from dataclasses import dataclass
from typing import ClassVar

from cuda_llm.facts import BuildFault, LoadFault, Location
from cuda_llm.spots import SourceSpot


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
    """The generator's reply held no kernel."""

    code: ClassVar[str] = "NO_CODE"
    reason: str
    kind: str = "no_code"
    """`no_code`, `empty`, `truncated`, `refused`, `several`, `call_failed` ..."""
    said: str = ""
    """Words of the reply or of the provider."""


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
    fault: BuildFault | None = None
    """Where it is not a message that says so."""


@dataclass(frozen=True, kw_only=True)
class PolicyViolation:
    """The candidate does something no kernel may do."""

    code: ClassVar[str] = "POLICY_VIOLATION"
    rule: str
    """Stable name: `include-outside`, `embed-file`, `import`, `export`, `constructor`, `syscall`,
    `host-touches-device-memory`, `no-launch`, `host-copy`, `memory-quota` ..."""
    detail: str = ""
    spot: SourceSpot | None = None
    location: Location | None = None
    """The device memory that host code touches."""


@dataclass(frozen=True, kw_only=True)
class LoadFailed:
    """The compiled candidate could not be loaded, or has no `solve`."""

    code: ClassVar[str] = "LOAD_FAILED"
    detail: str = ""
    fault: LoadFault | None = None
    symbol: str | None = None
    """The function that is not there."""
