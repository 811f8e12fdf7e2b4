"""Private folders of compilations, whose turn it is there, and how many run at once."""

import asyncio
import contextlib
import errno
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from weakref import WeakValueDictionary

from cuda_llm.each_loop import EachLoop
from cuda_llm.settings import settings
from cuda_llm.tools.compiler.nvcc import CUBIN, DEVICE_READ, DEVICE_TEXT, OBJECT, PREPROCESSED, PTX
from cuda_llm.tools.device.candidate import CompileLimits
from cuda_llm.tools.native import cache_folder, unwritable
from cuda_llm.tools.sandbox.jail import JailResult, ProgramLimit

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}

DIED_BY_SIGNAL = re.compile(r"^nvcc error *: '([\w+]+)' died due to signal (\d+)", re.MULTILINE)
ENDED_BY_DRIVER = re.compile(r"signal terminated program (\w+)")
ASSEMBLES_OR_LINKS = re.compile(r"^(?:\S*/)?(as|ld|collect2): .*memory", re.MULTILINE)
SAID_BY_PREPROCESSOR = re.compile(r"^virtual memory exhausted|\bcc1plus\b", re.MULTILINE)
FRONT_END = ("cpp", "cc1plus", "cudafe++", "as", "collect2", "ld", "fatbinary")
"""Programs that read the source or its preprocessed form, and optimise no device code."""

_slots = EachLoop[asyncio.Semaphore]()
_locks = EachLoop[WeakValueDictionary[str, asyncio.Lock]]()


def compile_slot() -> asyncio.Semaphore:
    """Return the semaphore of compilations at once: as many as the setting `compile_workers`."""
    workers = settings().compile_workers or len(os.sched_getaffinity(0))
    return _slots.here(lambda: asyncio.Semaphore(workers))


def lock_of(key: str) -> asyncio.Lock:
    """Return this event loop's lock for making the cache entry `key`."""
    return _locks.here(WeakValueDictionary).setdefault(key, asyncio.Lock())


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


def front_end_limits(limits: CompileLimits, folder: Path) -> tuple[ProgramLimit, ...]:
    """Return the limits of each program in `folder` until the program optimises device code.

    cicc reads the source like cudafe++; the end of reading shows by a file that cicc then writes.
    """
    cpu_s = limits.front_end_cpu_s
    cicc = ProgramLimit(name="cicc", cpu_s=cpu_s, until=folder / DEVICE_READ)
    return (*(ProgramLimit(name=name, cpu_s=cpu_s) for name in FRONT_END), cicc)


def cpu_limit_s(program: str, limits: CompileLimits, folder: Path) -> float:
    """Return the processor time that `program` had in `folder`."""
    reads = program in FRONT_END or (program == "cicc" and not (folder / DEVICE_READ).exists())
    return min(limits.front_end_cpu_s, limits.cpu_s) if reads else limits.cpu_s


def find_ended(result: JailResult, folder: Path) -> tuple[str, int | None]:
    """Return the program that ended a compilation in `folder` and the signal that ended it."""
    output = result.stderr.text
    if died := DIED_BY_SIGNAL.search(output):
        return died[1], int(died[2])
    return _program_in_turn(output, folder), result.reported_signal


def _program_in_turn(output: str, folder: Path) -> str:
    """Return the program that a message names, or whose file is the first that is missing."""
    named = ENDED_BY_DRIVER.search(output) or ASSEMBLES_OR_LINKS.search(output)
    if named is not None and named[1] != "cc1plus":
        return named[1]
    if not (folder / DEVICE_TEXT).exists():
        # cudafe++ runs between the two runs of the preprocessor.
        preprocessed = (folder / PREPROCESSED).exists()
        return "cpp" if SAID_BY_PREPROCESSOR.search(output) or not preprocessed else "cudafe++"
    makes = {PTX: "cicc", CUBIN: "ptxas", OBJECT: "cc1plus"}
    return next((makes[file] for file in makes if not (folder / file).exists()), "nvcc")
