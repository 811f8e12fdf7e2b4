"""What is there before and after work on a device: processes, files, memory of the GPU."""

import ctypes
import os
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
ANY_GPU = range(1 << 10)
SETTLED_S = 10.0
"""How long memory of a process that has gone may take to come back."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """What is there now."""

    processes: frozenset[tuple[int, str]]
    """Descendants of this process, orphans among them: id and name."""
    files: frozenset[str]
    gpu_bytes: Mapping[int, int]
    """Memory in use by ordinal, whoever uses it; empty without NVML."""


@dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """What the work has left."""

    processes: tuple[tuple[int, str], ...]
    files: tuple[str, ...]
    gpu_bytes: int
    """Memory in use on the GPUs that were looked at, beyond what was before."""

    @property
    def nothing(self) -> bool:
        """Memory may differ by what the driver itself rounds."""
        return not self.processes and not self.files and self.gpu_bytes < 1 << 20


def adopt_orphans() -> None:
    """Become the parent of whatever descendants leave behind, so that it can be seen. Linux."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def snapshot(folders: Sequence[Path], gpus: Container[int] = ANY_GPU) -> Snapshot:
    """Look around, at these GPUs alone; zombies of adopted orphans are taken away first."""
    _reap()
    found = psutil.Process().children(recursive=True)
    return Snapshot(
        processes=frozenset((process.pid, process.name()) for process in found),
        files=frozenset(str(path) for folder in folders for path in _files(folder)),
        gpu_bytes={ordinal: used for ordinal, used in _gpu_bytes().items() if ordinal in gpus},
    )


def gpus_of(spec: str) -> Container[int]:
    """Ordinals: another GPU may have work of its own."""
    numbers = spec.removeprefix("cuda:").split(",")
    return {int(one) for one in numbers} if all(map(str.isdigit, numbers)) else ANY_GPU


def compare(
    before: Snapshot,
    folders: Sequence[Path],
    gpus: Container[int] = ANY_GPU,
    *,
    settle_s: float = SETTLED_S,
) -> LeftBehind:
    """What is there beyond `before`, once it does not change any more."""
    deadline = time.monotonic() + settle_s
    while True:
        now = snapshot(folders, gpus)
        left = LeftBehind(
            processes=tuple(sorted(now.processes - before.processes)),
            files=tuple(sorted(now.files - before.files)),
            gpu_bytes=max(0, sum(now.gpu_bytes.values()) - sum(before.gpu_bytes.values())),
        )
        if left.nothing or time.monotonic() > deadline:
            return left
        time.sleep(0.2)


def _reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())


def _gpu_bytes() -> Mapping[int, int]:
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return {}
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return {
            ordinal: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
            for ordinal, handle in enumerate(handles)
        }
    finally:
        pynvml.nvmlShutdown()
