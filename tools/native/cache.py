"""The folder of the user's cache, and the locks of processes that use, build or remove an entry.

A lock is on a single byte of a file. The system frees the lock when the process ends, in whatever
way.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import struct
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cuda_llm.atomic_file import FULL, describe_full_disk, write_atomically
from cuda_llm.errors import MissingError
from cuda_llm.settings import setting_source, settings
from cuda_llm.tools.native.in_thread import pause

NATIVE = "native"
"""Kind of our own native parts: each process uses few, and for as long as it lives."""
MOST_PINNED = 1024
"""Entries of other kinds that a process pins at once: those it used last."""

NEEDED_BYTES = 8_000_000
"""Bytes that the native parts and the work on a kernel of a usual size take, at first use."""
LEAST_FREE_BYTES = 1 << 20
"""Free bytes below which a full disk may be the cause of a failure."""
POLL_S = 0.02

_FLOCK = struct.Struct("hhqqi4x")
_pinned: "OrderedDict[Path, int]" = OrderedDict()
_users_files: dict[tuple[Path, int], int] = {}
_guard = threading.RLock()


def cache_dir() -> Path:
    """Return the folder for all data that can be made again: the setting `cache`."""
    return settings().cache


def cache_folder(*parts: str) -> Path:
    """Return a folder of the cache, made if need be. Raises MissingError if it is not writable."""
    folder = cache_dir().joinpath(*parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(error) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise unwritable(PermissionError(f"Permission denied: '{folder}'"))
    return folder


def write_cached(text: str, name: str, *folders: str) -> Path:
    """Write a file of the cache whole, whoever else writes it; return it. Raises MissingError."""
    path = cache_folder(*folders) / name
    try:
        write_atomically(path, text)
    except OSError as error:
        raise unwritable(error) from error
    return path


def unwritable(error: OSError) -> MissingError:
    """Return the MissingError for data that cannot be stored in the cache."""
    source = setting_source("cache")
    named = f" (named by {source})" if source else ""
    full = error.errno in FULL
    why = describe_full_disk(cache_dir(), NEEDED_BYTES) if full else error.strerror or error
    return MissingError(
        f"the cache folder {cache_dir()}{named} cannot be written ({why})",
        "free space there, or set CUDA_LLM_CACHE to a folder that can be written",
    )


def require_room(folder: Path) -> None:
    """Raise MissingError where the disk is full: a failure there may have been caused by it.

    Compilers report a full disk in many ways, and remove files that they could not write whole.
    """
    if shutil.disk_usage(folder).free < LEAST_FREE_BYTES:
        raise unwritable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))


def pin_entry(folder: Path) -> None:
    """Keep other processes from removing an entry while this process uses it."""
    with _guard:
        if folder in _pinned:
            _pinned.move_to_end(folder)
            return
        # A cache that can only be read is not trimmed either.
        with contextlib.suppress(OSError, MissingError):
            file = _users_file()
            fcntl.fcntl(file, fcntl.F_OFD_SETLKW, _range(fcntl.F_RDLCK, folder))
            _pinned[folder] = file
        if len(_pinned) > MOST_PINNED:
            _unpin_oldest()


@contextmanager
def exclusive_access(folder: Path, purpose: str) -> Iterator[None]:
    """Wait for the lock of `purpose` on an entry.

    Raises MissingError without a writable cache, Interrupted (see `pause`), and OSError on a file
    system without locks.
    """
    file = _open(purpose)
    try:
        while not _try_lock(file, folder):
            pause(POLL_S)
        yield
    finally:
        os.close(file)


@asynccontextmanager
async def exclusive_turn(entry: Path, purpose: str) -> AsyncIterator[None]:
    """Wait for the lock of `purpose` on an entry, while the thread does other work.

    Where the cache cannot be written or has no locks, nobody waits.
    """
    file: int | None = None
    with contextlib.suppress(MissingError):
        file = _open(purpose)
    try:
        with contextlib.suppress(OSError):
            while file is not None and not _try_lock(file, entry):
                await asyncio.sleep(POLL_S)
        yield
    finally:
        if file is not None:
            os.close(file)


@contextmanager
def try_exclusive_use(folder: Path) -> Iterator[bool]:
    """Yield whether no process uses the entry; none begins to while the context is open."""
    file = _open("used")
    try:
        try:
            is_free = _try_lock(file, folder)
        except OSError:
            is_free = False  # Without locks nobody knows.
        yield is_free
    finally:
        os.close(file)


def _try_lock(file: int, folder: Path) -> bool:
    """Take the lock on an entry unless it is taken. Raises OSError on a system without locks."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _range(fcntl.F_WRLCK, folder))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _users_file() -> int:
    """Return this process's descriptor of the file on whose bytes entries are pinned."""
    place = cache_dir(), os.getpid()
    if place not in _users_files:
        _users_files[place] = _open("used")
    return _users_files[place]


def _open(purpose: str) -> int:
    path = cache_folder("locks") / purpose
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise unwritable(error) from error


def _range(kind: int, folder: Path) -> bytes:
    """Return a lock on the byte that stands for an entry, as fcntl takes it."""
    offset = int.from_bytes(hashlib.blake2b(folder.name.encode(), digest_size=7).digest()) >> 1
    return _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0)


def _unpin_oldest() -> None:
    """Unpin the entry that was used longest ago; our own native parts stay pinned."""
    # A process that was forked shares the other files' locks with its parent.
    own = {file for (_, pid), file in _users_files.items() if pid == os.getpid()}
    for folder, file in _pinned.items():
        if folder.parent.parent.name != NATIVE:
            del _pinned[folder]
            if file in own:
                fcntl.fcntl(file, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK, folder))
            return
