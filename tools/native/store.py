"""Entries of the cache: stored and loaded whole, pinned while in use, evicted by last use.

An entry is a folder `<kind>/<first two of key>/<key>` with files and a manifest of their digests.
Processes share the store without a server: an entry appears by a single rename, a process that uses
an entry holds a lock on it, and an entry is removed only under that lock.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import CudaLLMError
from cuda_llm.log import Log
from cuda_llm.settings import settings
from cuda_llm.tools.native.cache import (
    NATIVE,
    cache_dir,
    cache_folder,
    exclusive_access,
    pin_entry,
    try_exclusive_use,
    unwritable,
)

KINDS = ("compiled", "translated", "native", "inspected", "travelled")
"""Kinds of entries that can be built again. Measured times, probes, quarantine and leases are small
and are not evicted."""
MANIFEST = "manifest.json"
TRIM_EVERY_S = 600.0
TOUCH_S = 60.0
"""The time of an entry's last use is written down no more often than this."""
SCRATCH_LIFE_S = 3600.0
"""A scratch folder that old belongs to a process that was killed."""
MB = 1_000_000

_log = Log(__name__)
_verified: dict[Path, tuple[int, int, int]] = {}
"""Inode, size and time of the files whose digest this process has checked."""


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """A folder of the cache, which appears and is removed as a whole."""

    folder: Path
    size_bytes: int
    used_at: float
    """Unix time of its last use, to the minute."""


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """Entries that a trim removed, and entries that remain."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int
    in_use: int
    """Number of the remaining entries that are kept only because a process uses them."""


def find_entries() -> list[CacheEntry]:
    """Return all entries, the least recently used first."""
    found = (_entry(folder) for folder in _folders() if not folder.name.startswith("."))
    return sorted((one for one in found if one is not None), key=lambda one: one.used_at)


def trim(limit_bytes: int) -> Trimmed:
    """Remove the least recently used entries until the rest is within the limit; 0 removes all.

    An entry that a process uses stays.
    """
    _sweep()
    entries = find_entries()
    total = left_bytes = sum(one.size_bytes for one in entries)
    removed = in_use = 0
    for one in entries:
        if limit_bytes and left_bytes <= limit_bytes:
            break
        if _remove(one.folder):
            removed += 1
            left_bytes -= one.size_bytes
        else:
            in_use += 1
    if removed:
        _log.info("cache is trimmed", removed=removed, removed_bytes=total - left_bytes)
    return Trimmed(
        removed=removed,
        removed_bytes=total - left_bytes,
        left=len(entries) - removed,
        left_bytes=left_bytes,
        in_use=in_use,
    )


def trim_in_background() -> None:
    """Trim to the setting `cache_limit_mb` on a thread, if no process did so lately."""
    limit_mb = settings().cache_limit_mb
    if limit_mb and _claim_trim():
        threading.Thread(target=_trim_quietly, args=(limit_mb * MB,), daemon=True).start()


def _claim_trim() -> bool:
    """Return whether it is time to trim, and take that turn from other processes."""
    mark = cache_dir() / "locks" / "trimmed"
    try:
        if time.time() - mark.stat().st_mtime < TRIM_EVERY_S:
            return False
    except OSError:
        cache_folder("locks")
    with contextlib.suppress(OSError):
        mark.touch()
    return True


def _trim_quietly(limit_bytes: int) -> None:
    """Trim, and log where that fails: the cache works without."""
    try:
        trim(limit_bytes)
    except (OSError, CudaLLMError) as error:
        _log.warning("cache cannot be trimmed", error=str(error))


def _folders() -> Iterator[Path]:
    """Yield the folders of entries, and scratch folders among them."""
    for kind in KINDS:
        for one in _inside(cache_dir() / kind):
            # Entries of earlier versions stand one level higher.
            yield from _inside(one) if len(one.name) == 2 else (one,)


def _inside(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _entry(folder: Path) -> CacheEntry | None:
    """Describe an entry; None where it has been removed meanwhile."""
    try:
        with os.scandir(folder) as files:
            found = [one.stat(follow_symlinks=False) for one in files]
        newest = max((one.st_mtime for one in found), default=folder.stat().st_mtime)
    except OSError:
        return None
    size_bytes = sum(one.st_size for one in found)
    return CacheEntry(folder=folder, size_bytes=size_bytes, used_at=newest)


def _remove(folder: Path) -> bool:
    """Remove an entry by one rename unless a process uses it; return whether it was removed."""
    with try_exclusive_use(folder) as is_free:
        if is_free:
            gone = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".old-"))
            with contextlib.suppress(FileNotFoundError):
                folder.rename(gone / folder.name)
            shutil.rmtree(gone, ignore_errors=True)
    return is_free


def _sweep() -> None:
    """Remove scratch folders of killed processes."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            is_scratch = folder.name.startswith((".new-", ".old-"))
            if is_scratch and time.time() - folder.stat().st_mtime > SCRATCH_LIFE_S:
                shutil.rmtree(folder, ignore_errors=True)


def entry_folder(kind: str, key: str) -> Path:
    """Return the folder of an entry, whether or not it exists."""
    return cache_dir() / kind / key[:2] / key


def load(kind: str, key: str) -> dict[str, object] | None:
    """Return the record of an entry whose files are unchanged, else None.

    The entry is pinned from then on: no process removes it while this process uses it.
    """
    folder = entry_folder(kind, key)
    if not folder.exists():
        _log.debug("cache miss", kind=kind, key=key)
        return None
    pin_entry(folder)
    record = _read_verified(folder)
    _log.debug("cache hit" if record is not None else "cache entry is damaged", kind=kind, key=key)
    if record is not None:
        _touch(folder)
    return record


def store(kind: str, key: str, record: Mapping[str, object], files: Mapping[str, Path]) -> Path:
    """Put an entry in place by a single rename, pin it and return its folder.

    Of several writers of the same entry, one wins as a whole. Raises MissingError when the cache
    cannot be written.
    """
    target = entry_folder(kind, key)
    parent = cache_folder(kind, key[:2])
    pin_entry(target)
    try:
        scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".new-"))
        try:
            digests = {}
            for name, file in files.items():
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
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
    trim_in_background()
    return target


def build_once(name: str, digest: str, make: Callable[[Path], Path]) -> Path:
    """Return the file `name` that `digest` decides, made in a scratch folder if it does not exist.

    Of several processes and threads that call at once, one makes the file and the others wait.
    Raises what `make` raises, and MissingError when the cache cannot be written.
    """
    key = hashlib.blake2b(f"{digest}/{name}".encode(), digest_size=20).hexdigest()
    target = entry_folder(NATIVE, key) / name
    if load(NATIVE, key) is None:
        with exclusive_access(target.parent, "building"):
            if load(NATIVE, key) is None:
                parent = cache_folder(NATIVE, key[:2])
                # Whoever began this part and holds its lock no more was killed.
                for left in parent.glob(f".new-{key}-*"):
                    shutil.rmtree(left, ignore_errors=True)
                with tempfile.TemporaryDirectory(dir=parent, prefix=f".new-{key}-") as scratch:
                    store(NATIVE, key, {"name": name}, {name: make(Path(scratch))})
    return target


def _read_verified(folder: Path) -> dict[str, object] | None:
    try:
        file = folder / MANIFEST
        mark = _mark(file)
        manifest = json.loads(file.read_text())
        if _verified.get(file) != mark:
            if manifest["digest"] != _digest(manifest["record"]):
                return None
            _verified[file] = mark
        for name, digest in manifest["files"].items():
            if not _matches(folder / name, digest):
                return None
        record = manifest["record"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return record if isinstance(record, dict) else None


def _matches(file: Path, digest: str) -> bool:
    """Compare a file with its digest, once for each state of the file."""
    mark = _mark(file)
    if _verified.get(file) != mark:
        if _file_digest(file) != digest:
            return False
        _verified[file] = mark
    return True


def _mark(file: Path) -> tuple[int, int, int]:
    """Return what changes with the file's contents."""
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _touch(folder: Path) -> None:
    """Note the use of an entry as the time of its manifest."""
    manifest = folder / MANIFEST
    with contextlib.suppress(OSError):
        if time.time() - manifest.stat().st_mtime > TOUCH_S:
            os.utime(manifest)


def _swap(new: Path, target: Path) -> None:
    """Rename `new` to `target`; a broken entry that is in the way goes first."""
    try:
        new.rename(target)
    except OSError:
        if _read_verified(target) is not None:
            return
        broken = Path(tempfile.mkdtemp(dir=target.parent, prefix=".old-"))
        with contextlib.suppress(FileNotFoundError):
            target.rename(broken / target.name)
        shutil.rmtree(broken, ignore_errors=True)
        # Another process may have replaced it in between: its entry is as good.
        with contextlib.suppress(OSError):
            new.rename(target)


def _digest(record: object) -> str:
    text = json.dumps(record, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _file_digest(file: Path) -> str:
    return hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
