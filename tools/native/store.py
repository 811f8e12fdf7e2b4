"""What is built, kept in the cache: whole, held while in use, and the longest unused goes first.

An entry is a folder `<kind>/<first two of key>/<key>` with files and a manifest that tells what
they were. Processes share the store without a server: an entry appears by one rename, is held by a
lock on one byte of a file that all open (the system frees it with its process), and is removed only
by who gets that lock alone.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cuda_llm.log import Log
from cuda_llm.tools.native.cache import cache_dir, cache_folder, unwritable
from cuda_llm.tools.native.hold import NATIVE, alone, hold
from cuda_llm.tools.native.trim import trim_now_and_then

MANIFEST = "manifest.json"
TOUCH_S = 60.0

_log = Log(__name__)
_seen_whole: dict[Path, tuple[int, int, int]] = {}


def entry_folder(kind: str, key: str) -> Path:
    """Where an entry lives, whether or not it exists."""
    return cache_dir() / kind / key[:2] / key


def load(kind: str, key: str) -> dict[str, object] | None:
    """The record of an entry whose files are all as they were stored, else None.

    The entry is held from then on: nobody removes it while this process uses it.
    """
    folder = entry_folder(kind, key)
    if not folder.exists():
        _log.debug("cache miss", kind=kind, key=key)
        return None
    hold(folder)
    record = _read_whole(folder)
    _log.debug("cache hit" if record is not None else "cache entry is damaged", kind=kind, key=key)
    if record is not None:
        _touch(folder)
    return record


def store(kind: str, key: str, record: Mapping[str, object], files: Mapping[str, Path]) -> Path:
    """Put an entry in place in one step; of several writers one wins, whole. Its folder, held.

    Raises MissingError when the cache cannot be written.
    """
    target = entry_folder(kind, key)
    parent = cache_folder(kind, key[:2])
    hold(target)
    try:
        scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".new-"))
        try:
            digests = {}
            for name, file in files.items():
                shutil.copy(file, scratch / name)
                digests[name] = _file_digest(scratch / name)
            manifest = {"record": record, "digest": _digest(record), "files": digests}
            (scratch / MANIFEST).write_text(json.dumps(manifest))
            scratch.chmod(0o755)
            _swap(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise unwritable(error) from error
    _log.debug("cache entry is stored", kind=kind, key=key)
    trim_now_and_then()
    return target


def build_once(name: str, digest: str, make: Callable[[Path], Path]) -> Path:
    """The file `name` that `digest` decides, made in a scratch folder where it is not there whole.

    Of any number of processes and threads that ask at once, one makes it and the others wait.
    Raises what `make` raises, and MissingError when the cache cannot be written.
    """
    key = hashlib.blake2b(f"{digest}/{name}".encode(), digest_size=20).hexdigest()
    target = entry_folder(NATIVE, key) / name
    if load(NATIVE, key) is None:
        with alone(target.parent, "building"):
            if load(NATIVE, key) is None:
                parent = cache_folder(NATIVE, key[:2])
                with tempfile.TemporaryDirectory(dir=parent, prefix=".new-") as scratch:
                    store(NATIVE, key, {"name": name}, {name: make(Path(scratch))})
    return target


def _read_whole(folder: Path) -> dict[str, object] | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if manifest["digest"] != _digest(manifest["record"]):
            return None
        for name, digest in manifest["files"].items():
            if not _is_whole(folder / name, digest):
                return None
        record = manifest["record"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if isinstance(record, dict) else None


def _is_whole(file: Path, digest: str) -> bool:
    """Read again only where it has changed since this process has read it."""
    status = file.stat()
    mark = status.st_ino, status.st_size, status.st_mtime_ns
    if _seen_whole.get(file) != mark:
        if _file_digest(file) != digest:
            return False
        _seen_whole[file] = mark
    return True


def _touch(folder: Path) -> None:
    """The manifest's time is the entry's last use, to the minute."""
    manifest = folder / MANIFEST
    with contextlib.suppress(OSError):
        if time.time() - manifest.stat().st_mtime > TOUCH_S:
            os.utime(manifest)


def _swap(new: Path, target: Path) -> None:
    """Rename `new` to `target`; a broken entry that is in the way goes first."""
    try:
        new.rename(target)
    except OSError:
        if _read_whole(target) is not None:
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
