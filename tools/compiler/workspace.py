"""Private folders of compilations, and those that a killed process left behind."""

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
    """As many at once as the setting `compile_workers` says, however many ask."""
    from cuda_llm.settings import settings

    loop = asyncio.get_running_loop()
    if loop not in _slots:
        workers = settings().compile_workers or len(os.sched_getaffinity(0))
        _slots[loop] = asyncio.Semaphore(workers)
    return _slots[loop]


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A fresh folder in the cache, gone afterwards. Raises MissingError when there is no room."""
    work = cache_folder("work")
    _sweep(work)
    try:
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{_here()}-{os.getpid()}-")).resolve()
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


def _sweep(work: Path) -> None:
    """Remove folders of processes of this machine that are no more."""
    import psutil

    for folder in work.glob(f"{_here()}-*-*"):
        owner = folder.name.removeprefix(f"{_here()}-").partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _here() -> str:
    """This machine, and this pid namespace of it: process ids mean nothing elsewhere."""
    try:
        space = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        space = 0
    return f"{socket.gethostname()}.{space}"
