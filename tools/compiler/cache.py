"""The key of a compilation: hash of all that decides its outcome."""

import contextlib
import hashlib
import os
from functools import lru_cache
from pathlib import Path

from cuda_llm.tools.compiler.candidate import CompileRequest
from cuda_llm.tools.compiler.toolkit import Toolkit
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
        [listing(folder) for folder in request.include_dirs],
        request.limits,
        (str(toolkit.nvcc), toolkit.version, gxx_version(find_gxx())),
        own_code(),
    )
    digest.update(repr(parts).encode())
    return digest.hexdigest()


def listing(folder: Path) -> list[tuple[str, int, int]]:
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
def own_code() -> str:
    """Hash of the modules of this folder: a changed rule judges again."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
