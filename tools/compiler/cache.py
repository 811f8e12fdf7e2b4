"""Compilations in the cache: the key, a hash of all that decides the outcome, and the outcome as
plain JSON values.
"""

import contextlib
import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda_llm.facts import SourceSpot
from cuda_llm.failures import CompileFailed, Diagnostic, LoadFailed, PolicyViolation
from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.device.candidate import CompileRequest
from cuda_llm.tools.native import find_gxx, gxx_version


def request_key(request: CompileRequest, toolkit: Toolkit) -> str:
    """Hash of the source, how it is built, by what, and of this package's own code."""
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
    """Path, size and modification time of every file below `folder`."""
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
    """Hash of the modules of this folder: a changed rule judges again."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


SourceFailure = CompileFailed | PolicyViolation | LoadFailed
"""What a source is to blame for: the same next time, so worth remembering."""

FAILURES: dict[str, type[SourceFailure]] = {
    kind.code: kind for kind in (CompileFailed, PolicyViolation, LoadFailed)
}


def failure_record(failure: SourceFailure) -> dict[str, Any]:
    """`failure` as JSON values."""
    return {"code": failure.code, **asdict(failure)}


def read_failure(record: Mapping[str, Any]) -> SourceFailure:
    """The inverse of `failure_record`."""
    fields = dict(record)
    kind = FAILURES[fields.pop("code")]
    if fields.get("spot") is not None:
        fields["spot"] = SourceSpot(**fields["spot"])
    if "diagnostics" in fields:
        fields["diagnostics"] = tuple(_diagnostic(d) for d in fields["diagnostics"])
    return kind(**fields)


def success_record(
    kernels: tuple[KernelResources, ...], warnings: tuple[Diagnostic, ...], compile_s: float
) -> dict[str, Any]:
    """What is remembered of a compiled candidate besides its files."""
    return {
        "code": "COMPILED",
        "kernels": [asdict(kernel) for kernel in kernels],
        "warnings": [asdict(warning) for warning in warnings],
        "compile_s": compile_s,
    }


def read_kernels(record: Mapping[str, Any]) -> tuple[KernelResources, ...]:
    """Kernels of a `success_record`."""
    return tuple(KernelResources(**kernel) for kernel in record["kernels"])


def read_warnings(record: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Warnings of a `success_record`."""
    return tuple(_diagnostic(warning) for warning in record["warnings"])


def _diagnostic(fields: Mapping[str, Any]) -> Diagnostic:
    spot = fields["spot"]
    return Diagnostic(**{**fields, "spot": None if spot is None else SourceSpot(**spot)})
