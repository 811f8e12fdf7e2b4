"""Private folders of compilations, and how many compilations run at once."""

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakKeyDictionary

from cuda_llm.tools.native import cache_folder, unwritable

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}

_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def compile_slot() -> asyncio.Semaphore:
    """Return the semaphore of compilations at once: as many as the setting `compile_workers`."""
    from cuda_llm.settings import settings

    loop = asyncio.get_running_loop()
    if loop not in _slots:
        workers = settings().compile_workers or len(os.sched_getaffinity(0))
        _slots[loop] = asyncio.Semaphore(workers)
    return _slots[loop]


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a fresh folder of the cache, then remove it. Raises MissingError on a full disk."""
    work = cache_folder("work")
    _remove_leftovers(work)
    try:
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{_pid_space()}-{os.getpid()}-")).resolve()
    except OSError as error:
        raise unwritable(error) from error
    try:
        yield folder
    except OSError as error:
        if error.errno in NO_ROOM:
            raise unwritable(error) from error
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(work: Path) -> None:
    """Remove folders of processes of this machine that have ended."""
    import psutil

    for folder in work.glob(f"{_pid_space()}-*-*"):
        owner = folder.name.removeprefix(f"{_pid_space()}-").partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _pid_space() -> str:
    """Name this machine and its pid namespace: process ids mean nothing elsewhere."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{socket.gethostname()}.{space}"
