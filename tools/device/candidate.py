"""What goes into the compiler, and what comes out for a device to open."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cuda_llm.outcomes import Diagnostic
from cuda_llm.profile import KernelResources


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """What one compilation may use."""

    wall_s: float = 60.0
    cpu_s: float = 30.0
    """Processor time of each process: cicc and ptxas, which optimise, get all of it."""
    front_end_cpu_s: float = 10.0
    """Of each process that only reads the source, and of cicc until it has read it."""
    memory_bytes: int = 2 << 30
    """Address space of each process."""
    output_bytes: int = 64 << 20


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """One .cu file and how to build it."""

    source: str
    name: str = "kernel.cu"
    """File name as the user knows it; diagnostics and spots are named by it."""
    target: str = "sm_86"
    prelude: str = ""
    """Declaration of `solve`, included before the source so that a wrong signature is an error."""
    flags: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    include_dirs: tuple[Path, ...] = ()
    """Read-only directories the task offers to candidates (header libraries)."""
    limits: CompileLimits = CompileLimits()


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """A candidate that compiled and whose .so passed the audit. Files live in the cache."""

    key: str
    """Hash of source, flags, target and nvcc version: the artefact's name in the cache."""
    name: str
    source: str
    target: str
    library: Path
    """The .so exporting `solve` alone, bound to our libcudart."""
    ptx: Path
    kernels: tuple[KernelResources, ...]
    warnings: tuple[Diagnostic, ...] = ()
    compile_s: float = 0.0
    cached: bool = False

    @property
    def kernel_names(self) -> Mapping[str, str]:
        """Return the names of the kernels in their source, by symbol."""
        return {kernel.symbol: kernel.kernel for kernel in self.kernels}


@dataclass(frozen=True, kw_only=True)
class LibraryCall:
    """A Python file of a task's that calls PyTorch on the arguments of `solve`.

    It defines `NAME` and `call(torch, *, ...)`, which writes the outputs, or returns them: then
    they are copied to where they belong when the clock has stopped.
    """

    file: Path
    arguments: tuple[str, ...]
    """Names of the arguments of `solve`, in order."""
    outputs: tuple[str, ...] = ()
    """Those of them that are written, in order."""
    source: str = ""
    """Of the file."""
    key: str = ""
    """Hash of all Python files beside it."""
    idle: Compiled | None = None
    """A `solve` of the task's that does nothing. Where the call is a baseline, what is not `solve`
    is timed in a runner of this: in a library's session that takes another time."""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.file.name


Baseline: TypeAlias = Compiled | LibraryCall
"""What a task's kernels are compared with."""


def ground_of(baseline: Baseline) -> Compiled | None:
    """Return what is timed for all that is not `solve`; None where that is the baseline itself."""
    return None if isinstance(baseline, Compiled) else baseline.idle
