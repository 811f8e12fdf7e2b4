"""The cache within its limit: what was not used for longest goes first, never what is in use."""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import CudaLLMError
from cuda_llm.log import Log
from cuda_llm.tools.native.cache import cache_dir, cache_folder
from cuda_llm.tools.native.hold import unused

KINDS = ("compiled", "translated", "native", "inspected")
"""What can be built again. Measured times, probes, quarantine and leases are small, and stay."""
EVERY_S = 600.0
LEFT_OVER_S = 3600.0
"""A scratch folder that old belongs to a process that was killed."""
MB = 1_000_000

_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """A folder of the cache that is there or not as a whole."""

    folder: Path
    size_bytes: int
    used_at: float
    """Unix time of its last use, to the minute."""


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """What was removed, and what is there afterwards."""

    removed: int
    removed_bytes: int
    left: int
    left_bytes: int
    in_use: int
    """Of those left: what would have gone had nobody used it."""


def find_entries() -> list[CacheEntry]:
    """All entries, the one that was not used for longest first."""
    found = (_entry(folder) for folder in _folders() if not folder.name.startswith("."))
    return sorted((one for one in found if one is not None), key=lambda one: one.used_at)


def trim(limit_bytes: int) -> Trimmed:
    """Remove entries until the rest is within the limit; 0 removes all that nobody uses."""
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


def trim_now_and_then() -> None:
    """Trim to the setting `cache_limit_mb` on a thread, if no process did so for a while."""
    from cuda_llm.settings import settings

    limit_mb = settings().cache_limit_mb
    if limit_mb and _is_time():
        threading.Thread(target=_trim_quietly, args=(limit_mb * MB,), daemon=True).start()


def _is_time() -> bool:
    """Whether nobody has trimmed for a while; then it is this process's turn."""
    mark = cache_dir() / "locks" / "trimmed"
    try:
        if time.time() - mark.stat().st_mtime < EVERY_S:
            return False
    except OSError:
        cache_folder("locks")
    with contextlib.suppress(OSError):
        mark.touch()
    return True


def _trim_quietly(limit_bytes: int) -> None:
    """A cache that cannot be trimmed is still a cache."""
    try:
        trim(limit_bytes)
    except (OSError, CudaLLMError) as error:
        _log.warning("cache cannot be trimmed", error=str(error))


def _folders() -> Iterator[Path]:
    """Folders of entries, and scratch folders among them."""
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
    """None where it has gone meanwhile."""
    try:
        with os.scandir(folder) as files:
            found = [one.stat(follow_symlinks=False) for one in files]
        newest = max((one.st_mtime for one in found), default=folder.stat().st_mtime)
    except OSError:
        return None
    size_bytes = sum(one.st_size for one in found)
    return CacheEntry(folder=folder, size_bytes=size_bytes, used_at=newest)


def _remove(folder: Path) -> bool:
    """Remove an entry in one step, unless a process uses it."""
    with unused(folder) as is_free:
        if is_free:
            gone = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".old-"))
            with contextlib.suppress(FileNotFoundError):
                folder.rename(gone / folder.name)
            shutil.rmtree(gone, ignore_errors=True)
    return is_free


def _sweep() -> None:
    """Remove what killed processes left half made or half removed."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            is_scratch = folder.name.startswith((".new-", ".old-"))
            if is_scratch and time.time() - folder.stat().st_mtime > LEFT_OVER_S:
                shutil.rmtree(folder, ignore_errors=True)
