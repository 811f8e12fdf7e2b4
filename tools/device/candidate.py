"""What goes into the compiler, and what comes out for a device to open."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from cuda_llm.outcomes import Diagnostic
from cuda_llm.profile import KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import blank_strings


@dataclass(frozen=True, kw_only=True)
class CompileLimits:
    """Limits of one compilation."""

    wall_s: float = 60.0
    """Wall-clock seconds of the whole compilation."""
    cpu_s: float = 30.0
    """Processor seconds of each process; cicc and ptxas, which optimise, may use all of them."""
    front_end_cpu_s: float = 10.0
    """Processor seconds of each process that only reads the source, and of cicc until the source is
    read."""
    memory_bytes: int = 2 << 30
    """Bytes of address space of each process."""
    output_bytes: int = 64 << 20
    """Bytes of all files that the compilation writes."""


@dataclass(frozen=True, kw_only=True)
class CompileRequest:
    """One .cu file and how nvcc builds it."""

    source: str
    name: str = "kernel.cu"
    """Name of the file in diagnostics and spots, as the user knows the file."""
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
    """A candidate that has compiled and whose .so has passed the audit. Its files lie in the
    cache."""

    key: str
    """Hash of source, flags, target and nvcc version: the artefact's name in the cache."""
    name: str
    source: str
    target: str
    library: Path
    """The .so, which exports `solve` alone and is bound to our libcudart."""
    ptx: Path
    kernels: tuple[KernelResources, ...]
    warnings: tuple[Diagnostic, ...] = ()
    compile_s: float = field(default=0.0, compare=False)
    cached: bool = field(default=False, compare=False)

    @property
    def kernel_names(self) -> Mapping[str, str]:
        """Return the names of the kernels in their source, by symbol."""
        return {kernel.symbol: kernel.kernel for kernel in self.kernels}

    def line_of_call(self, call: str, kernel: str | None = None) -> SourceSpot | None:
        """Return the line that calls a function of CUDA's runtime, or launches `kernel`; None where
        none does, or several do."""
        begin = rf"\b{re.escape(call)}\s*\("
        if call == "cudaLaunchKernel" and kernel:
            begin = rf"\b{re.escape(re.split('[<(]', kernel)[0])}\s*(?:<[^;{{}}]*>\s*)?<<<"
        code = blank_strings(self.source)
        found = list(re.finditer(begin, code))
        if len(found) != 1:
            return None
        line = code.count("\n", 0, found[0].start())
        text = self.source.split("\n")[line].strip()
        return SourceSpot(file=self.name, line=line + 1, text=text)


@dataclass(frozen=True, kw_only=True)
class LibraryCall:
    """A Python file of a task that calls PyTorch on the arguments of `solve`.

    The file defines `NAME` and `call(torch, *, ...)`, which writes the outputs or returns them.
    Returned outputs are copied into the output buffers after the time is taken.
    """

    file: Path
    arguments: tuple[str, ...]
    """Names of the arguments of `solve`, in order."""
    outputs: tuple[str, ...] = ()
    """Names of the arguments that are written, in order."""
    source: str = ""
    """Text of the file."""
    key: str = ""
    """Hash of all Python files in the file's folder."""
    idle: Compiled | None = None
    """A `solve` of the task that does nothing, where the call is a baseline: in a runner of this
    kernel is timed what takes time beside `solve`, which a library's session does not show."""

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.file.name


Baseline: TypeAlias = Compiled | LibraryCall
"""The kernel or library call that a task's kernels are compared with."""


def ground_of(baseline: Baseline) -> Compiled | None:
    """Return the kernel in whose runner the time beside `solve` is taken; None where the baseline's
    own runner shows that time."""
    return None if isinstance(baseline, Compiled) else baseline.idle
