"""Compilations in the cache: the key, a hash of all that decides the outcome, and the outcome."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from cuda_llm import facts, failures, profile
from cuda_llm.data_file import read_as
from cuda_llm.failures import CompileFailed, Diagnostic, LoadFailed, PolicyViolation
from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.device.candidate import CompileRequest
from cuda_llm.tools.native import find_gxx, gxx_version

SourceFailure = CompileFailed | PolicyViolation | LoadFailed
"""What a source is to blame for: the same next time, so worth remembering."""


@dataclass(frozen=True, kw_only=True)
class CompiledRecord:
    """What is remembered of a compiled candidate besides its files."""

    code: ClassVar[str] = "COMPILED"
    kernels: tuple[KernelResources, ...]
    warnings: tuple[Diagnostic, ...]
    compile_s: float


_KINDS: dict[str, Callable[..., SourceFailure | CompiledRecord]] = {
    kind.code: kind for kind in (CompileFailed, PolicyViolation, LoadFailed, CompiledRecord)
}


def write_outcome(outcome: SourceFailure | CompiledRecord) -> dict[str, Any]:
    """Return the outcome of a compilation as JSON values."""
    return {"code": outcome.code, **asdict(outcome)}


def read_outcome(record: Mapping[str, Any]) -> SourceFailure | CompiledRecord:
    """Return the outcome that `write_outcome` recorded."""
    values = dict(record)
    return read_as(_KINDS[values.pop("code")], values)


def request_key(request: CompileRequest, toolkit: Toolkit) -> str:
    """Return a hash of the source, how it is built, by what, and of the code that judges it."""
    digest = hashlib.blake2b(digest_size=20)
    parts = (
        request.source,
        request.name,
        request.target,
        request.prelude,
        request.flags,
        sorted(request.defines.items()),
        [list_files(folder) for folder in request.include_dirs],
        request.limits,
        (str(toolkit.nvcc), toolkit.version, gxx_version(find_gxx())),
        package_hash(),
    )
    digest.update(repr(parts).encode())
    return digest.hexdigest()


def list_files(folder: Path) -> list[tuple[str, int, int]]:
    """Return path, size and modification time of every file below `folder`."""
    found = []
    for base, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            path = os.path.join(base, file)
            with contextlib.suppress(OSError):
                status = os.stat(path)
                found.append((path, status.st_size, status.st_mtime_ns))
    return found


@lru_cache
def package_hash() -> str:
    """Return a hash of this folder's modules and of those that define what an entry holds."""
    digest = hashlib.blake2b(digest_size=16)
    own = sorted(Path(__file__).parent.glob("*.py"))
    for file in (*own, *(Path(str(module.__file__)) for module in (facts, failures, profile))):
        digest.update(file.read_bytes())
    return digest.hexdigest()
