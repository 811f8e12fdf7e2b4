"""The right to use a GPU: one lease each, tasks in order of arrival, processes by a locked file.

A GPU that is broken is in quarantine: no process with this cache uses it.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from cuda_llm.atomic_file import write_atomically
from cuda_llm.log import Log
from cuda_llm.tools.native import cache_dir, cache_folder, unwritable

_log = Log(__name__)

LEASES_FOLDER = "leases"
REPORT_S = 2.0
_POLL_S = 0.01
"""Between two tries of a process that waits: flock itself would block the event loop."""


class Lease:
    """The right to use one GPU. The kernel takes it back from a holder that dies."""

    def __init__(self, gpu: str, label: str, report: Callable[[str], None]) -> None:
        """`gpu` names the file: its UUID. `label` is what a person calls it."""
        self._gpu = gpu
        self._label = label
        self._report = report
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the GPU alone while the context is open. Raises MissingError without a cache.

        A process that waits for the GPU holds a second lock, so that a process which wants it again
        and again finds another one first in the queue.
        """
        async with self._turn():
            with (
                _opened_lock(self._file("queue")) as queue,
                _opened_lock(self._file("lock")) as lock,
            ):
                reporting = asyncio.create_task(self._report_later())
                began = time.monotonic()
                try:
                    await _lock(queue)
                    await _lock(lock)
                finally:
                    reporting.cancel()
                waited_s = round(time.monotonic() - began, 3)
                _log.debug("lease taken", gpu=self._label, waited_s=waited_s)
                fcntl.flock(queue, fcntl.LOCK_UN)
                os.pwrite(lock, f"{os.getpid():<20}\n".encode(), 0)
                yield

    def holder(self) -> int | None:
        """Return the process that holds the GPU; 0 where it is not known yet, None for none."""
        with _opened_lock(self._file("lock")) as lock:
            if _try(lock):
                return None
            written = os.pread(lock, 20, 0).strip()
            return int(written) if written.isdigit() else 0

    def _turn(self) -> asyncio.Lock:
        """Return the queue of the running event loop: first come, first served."""
        return self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())

    async def _report_later(self) -> None:
        await asyncio.sleep(REPORT_S)
        holder = self.holder()
        _log.info("waiting for a lease", gpu=self._label, holder=holder)
        self._report(f"{self._label} is in use by process {holder or 'unknown'}; waiting")

    def _file(self, kind: str) -> Path:
        return cache_folder(LEASES_FOLDER) / f"{self._gpu}.{kind}"


@contextmanager
def _opened_lock(path: Path) -> Iterator[int]:
    """Open a lock file; closing it releases the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _lock(descriptor: int) -> None:
    while not _try(descriptor):
        await asyncio.sleep(_POLL_S)


def _try(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


QUARANTINE_FOLDER = "quarantine"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class Quarantine:
    """Why a GPU is not used."""

    gpu: str
    """Its UUID."""
    label: str
    reason: str
    since: str
    """Local time."""
    boot: str
    """Of this start of the machine; the next one begins anew."""


def put_in_quarantine(gpu: str, label: str, reason: str) -> Quarantine:
    """Keep every process with this cache from using a GPU. Raises MissingError."""
    made = Quarantine(
        gpu=gpu,
        label=label,
        reason=reason,
        since=time.strftime("%Y-%m-%d %H:%M:%S"),
        boot=_boot(),
    )
    path = cache_folder(QUARANTINE_FOLDER) / f"{gpu}.json"
    try:
        write_atomically(path, json.dumps(asdict(made)))
    except OSError as error:
        raise unwritable(error) from error
    _log.warning("quarantined", gpu=label, uuid=gpu, reason=reason)
    return made


def find_quarantine(gpu: str) -> Quarantine | None:
    """Return why the GPU must not be used, or None."""
    try:
        found = Quarantine(
            **json.loads((cache_dir() / QUARANTINE_FOLDER / f"{gpu}.json").read_text())
        )
    except (OSError, ValueError, TypeError):
        return None
    return found if found.boot == _boot() else None


def list_quarantined() -> list[Quarantine]:
    """Return all quarantines in force."""
    files = sorted((cache_dir() / QUARANTINE_FOLDER).glob("*.json"))
    return [found for file in files if (found := find_quarantine(file.stem)) is not None]


def lift_quarantine(name: str) -> list[Quarantine]:
    """Let a GPU be used again, by its UUID or its label in quarantine; return those lifted."""
    lifted = [one for one in list_quarantined() if name in (one.gpu, one.label)]
    for one in lifted:
        _log.info("quarantine lifted", gpu=one.label, uuid=one.gpu)
        (cache_dir() / QUARANTINE_FOLDER / f"{one.gpu}.json").unlink(missing_ok=True)
    return lifted


def quarantine_mend(label: str) -> str:
    """Return what a person can do about it."""
    return f"look at nvidia-smi, restart the machine if need be; `cuda-llm doctor --lift {label}`"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
