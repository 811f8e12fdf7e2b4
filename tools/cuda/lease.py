"""Who may use a GPU: one lease each, tasks in order of arrival, processes by a locked file;
nobody while it is in quarantine.
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
_LOOK_S = 0.01
"""How often a waiting process looks: a lock that wakes its waiters would block the event loop."""


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

        Whoever waits for the GPU holds a second lock, so that a process which wants it again and
        again finds another one first in the queue.
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
        """The process that holds the GPU now; 0 where it has not said yet, None for nobody."""
        with _opened_lock(self._file("lock")) as lock:
            if _try(lock):
                return None
            said = os.pread(lock, 20, 0).strip()
            return int(said) if said.isdigit() else 0

    def _turn(self) -> asyncio.Lock:
        """First come, first served; each event loop has its own queue."""
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
    """Closing gives the lock back."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _lock(descriptor: int) -> None:
    while not _try(descriptor):
        await asyncio.sleep(_LOOK_S)


def _try(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


_quarantine_log = Log(__name__)

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
    """Keep a GPU from being used, by any process with this cache. Raises MissingError."""
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
    _quarantine_log.warning("quarantined", gpu=label, uuid=gpu, reason=reason)
    return made


def find_quarantine(gpu: str) -> Quarantine | None:
    """Why the GPU must not be used, or None."""
    try:
        kept = Quarantine(
            **json.loads((cache_dir() / QUARANTINE_FOLDER / f"{gpu}.json").read_text())
        )
    except (OSError, ValueError, TypeError):
        return None
    return kept if kept.boot == _boot() else None


def list_quarantined() -> list[Quarantine]:
    """All that are in force."""
    files = sorted((cache_dir() / QUARANTINE_FOLDER).glob("*.json"))
    return [found for file in files if (found := find_quarantine(file.stem)) is not None]


def lift_quarantine(name: str) -> list[Quarantine]:
    """Let a GPU be used again, by its UUID or as it was called when it was put away; which ones."""
    lifted = [one for one in list_quarantined() if name in (one.gpu, one.label)]
    for one in lifted:
        _quarantine_log.info("quarantine lifted", gpu=one.label, uuid=one.gpu)
        (cache_dir() / QUARANTINE_FOLDER / f"{one.gpu}.json").unlink(missing_ok=True)
    return lifted


def quarantine_mend(label: str) -> str:
    """What a person can do."""
    return f"look at nvidia-smi, restart the machine if need be; `cuda-llm doctor --lift {label}`"


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
