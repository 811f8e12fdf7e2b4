"""Cache of outcomes of compilations, keyed by everything that decides the outcome."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from cuda_llm import outcomes, profile, source_file
from cuda_llm.data_file import read_as
from cuda_llm.outcomes import CompileFailed, Diagnostic, LoadFailed, PolicyViolation, Verdict
from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.nvcc import Toolkit, find_toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.native import find_gxx, gxx_version
from cuda_llm.tools.native.store import entry_folder, load, store

KIND = "compiled"
STORED_LIBRARY, STORED_PTX = "candidate.so", "kernel.ptx"
UNNAMED = "<source>"
"""Stands for the name of the source in PTX that is kept for any name."""

SourceFailure = CompileFailed | PolicyViolation | LoadFailed
"""Failures that the source causes: the next compilation fails the same way, so they are cached."""


@dataclass(frozen=True, kw_only=True)
class CompiledRecord:
    """Metadata that is cached with the files of a compiled candidate."""

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


def unnamed_key(request: CompileRequest, toolkit: Toolkit) -> str:
    """Return the same hash for the same source under any name."""
    return request_key(replace(request, name=UNNAMED), toolkit)


def name_source(ptx: bytes, written_as: str, name: str) -> bytes:
    """Return PTX in which the file `written_as` is called `name`."""
    return ptx.replace(f'"{written_as}"'.encode(), f'"{name}"'.encode())


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
    values = (Path(str(module.__file__)) for module in (outcomes, profile, source_file))
    for file in (*own, *values):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def find_known(request: CompileRequest) -> Compiled | Verdict | None:
    """Return what the cache remembers of a source, if anything. Raises MissingError."""
    toolkit = find_toolkit()
    key = request_key(request, toolkit)
    known = load_outcome(request, key)
    return load_from_another_name(request, key, toolkit) if known is None else known


def remember(request: CompileRequest, outcome: Compiled | Verdict) -> Compiled | Verdict:
    """Cache the outcome of the same compiler on another machine, and return the outcome as cached.

    Outcomes that the load of the other machine may have caused are not cached.
    """
    key = request_key(request, find_toolkit())
    if isinstance(outcome, Compiled):
        record = CompiledRecord(
            kernels=outcome.kernels, warnings=outcome.warnings, compile_s=outcome.compile_s
        )
        files = {STORED_LIBRARY: outcome.library, STORED_PTX: outcome.ptx}
        store(KIND, key, write_outcome(record), files)
        return open_entry(request, key, record, cached=outcome.cached)
    by_load = isinstance(outcome, CompileFailed) and depends_on_load(outcome)
    if isinstance(outcome, SourceFailure) and not by_load:
        store(KIND, key, write_outcome(outcome), {})
    return outcome


def load_outcome(request: CompileRequest, key: str) -> Compiled | SourceFailure | None:
    """Return the outcome that is kept under a request's key; None where there is none."""
    record = load(KIND, key)
    if record is None:
        return None
    outcome = read_outcome(record)
    if not isinstance(outcome, CompiledRecord):
        return outcome
    return open_entry(request, key, outcome, cached=True)


def load_from_another_name(request: CompileRequest, key: str, toolkit: Toolkit) -> Compiled | None:
    """Return what was compiled of the same source under another name, kept under `key` from now on.

    None where there is none. Names are in PTX alone: what warned, or failed, is compiled anew.
    """
    unnamed = unnamed_key(request, toolkit)
    values = load(KIND, unnamed)
    record = None if values is None else read_outcome(values)
    if not isinstance(record, CompiledRecord):
        return None
    kept = entry_folder(KIND, unnamed)
    with private_folder() as folder:
        ptx = folder / STORED_PTX
        ptx.write_bytes(name_source((kept / STORED_PTX).read_bytes(), UNNAMED, request.name))
        files = {STORED_LIBRARY: kept / STORED_LIBRARY, STORED_PTX: ptx}
        store(KIND, key, write_outcome(record), files)
    return open_entry(request, key, record, cached=True)


def depends_on_load(verdict: CompileFailed) -> bool:
    """Return whether a slower or busier machine brings this about: then nothing remembers it."""
    return verdict.stop is not None and verdict.stop.kind == "processor-time"


def open_entry(
    request: CompileRequest, key: str, record: CompiledRecord, *, cached: bool
) -> Compiled:
    """Return the candidate whose files lie in the cache under `key`."""
    folder = entry_folder(KIND, key)
    return Compiled(
        key=key,
        name=request.name,
        source=request.source,
        target=request.target,
        library=folder / STORED_LIBRARY,
        ptx=folder / STORED_PTX,
        kernels=record.kernels,
        warnings=record.warnings,
        compile_s=record.compile_s,
        cached=cached,
    )
