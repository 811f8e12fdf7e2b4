"""The right to use a GPU: one lease for each GPU, granted to tasks in order of arrival and to
processes by a locked file."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from cuda_llm.each_loop import EachLoop
from cuda_llm.log import Log
from cuda_llm.tools.native import cache_folder

_log = Log(__name__)

LEASES_FOLDER = "leases"
REPORT_S = 2.0
_POLL_S = 0.01
"""Seconds between two attempts of a waiting process: flock itself would block the event loop."""


class Lease:
    """The right to use one GPU. The Linux kernel releases the lease of a holder that dies."""

    def __init__(self, gpu: str, label: str, report: Callable[[str], None]) -> None:
        """`gpu` is the GPU's UUID, which names the lock file. `label` is the GPU's name in
        messages."""
        self._gpu = gpu
        self._label = label
        self._report = report
        self._turns = EachLoop[asyncio.Lock]()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the GPU alone while the context is open. Raises MissingError without a cache.

        A process that waits for the GPU holds a second lock, so that a process that takes the lease
        repeatedly queues behind it.
        """
        async with self._turns.here(asyncio.Lock):
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
