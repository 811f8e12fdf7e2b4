"""Compilations remembered: artefacts and failures, by hash of all that decides them."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from cuda_llm.tools.compiler.candidate import CompileRequest
from cuda_llm.tools.compiler.toolkit import Toolkit
from cuda_llm.tools.native import cache_dir, cache_folder, find_gxx, gxx_version, unwritable

MANIFEST = "manifest.json"


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


def entry_folder(kind: str, key: str) -> Path:
    """Where an entry lives, whether or not it exists."""
    return cache_dir() / kind / key[:2] / key


def load(kind: str, key: str) -> dict[str, object] | None:
    """The record of an entry whose files are all as they were stored, else None."""
    folder = entry_folder(kind, key)
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["digest"] != _digest(manifest["record"]):
            return None
        for name, digest in manifest["files"].items():
            if _file_digest(folder / name) != digest:
                return None
        record = manifest["record"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if isinstance(record, dict) else None


def store(kind: str, key: str, record: Mapping[str, object], files: Mapping[str, Path]) -> Path:
    """Put an entry in place in one step; of several writers one wins, whole. Its folder.

    Raises MissingError when the cache cannot be written.
    """
    target = entry_folder(kind, key)
    parent = cache_folder(kind, key[:2])
    try:
        scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".new-"))
        try:
            digests = {}
            for name, file in files.items():
                shutil.copyfile(file, scratch / name)
                digests[name] = _file_digest(scratch / name)
            manifest = {"record": record, "digest": _digest(record), "files": digests}
            (scratch / MANIFEST).write_text(json.dumps(manifest))
            scratch.chmod(0o755)
            _swap(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise unwritable(error) from error
    return target


def _swap(new: Path, target: Path) -> None:
    """Rename `new` to `target`; a broken entry that is in the way goes first."""
    try:
        new.rename(target)
    except OSError:
        if load(target.parent.parent.name, target.name) is not None:
            return
        broken = Path(tempfile.mkdtemp(dir=target.parent, prefix=".old-"))
        with contextlib.suppress(FileNotFoundError):
            target.rename(broken / target.name)
        shutil.rmtree(broken, ignore_errors=True)
        # Someone else may have mended it in between: theirs is as good.
        with contextlib.suppress(OSError):
            new.rename(target)


def _digest(record: object) -> str:
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _file_digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
