"""What benchmarks share: rows and results as files, what work leaves behind and spends."""

import argparse
import cProfile
import ctypes
import datetime
import json
import os
import platform
import pstats
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
T = TypeVar("T")


def dispatch(commands: Mapping[str, Callable[[], None]]) -> None:
    """Run the command that the first argument names; it parses the other arguments itself."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    usage = f"usage: {sys.argv[0]} {' | '.join(commands)} [OPTION...]"
    if name in ("-h", "--help"):
        print(usage)
        return
    if name not in commands:
        raise SystemExit(usage)
    del sys.argv[1]
    commands[name]()


def machine() -> dict[str, Any]:
    """Return the facts of this machine that figures depend on; nothing that identifies it."""
    import psutil

    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }


def commit(root: Path = ROOT) -> str:
    """Return the commit the figures belong to, with `+` where the checkout has changes."""
    head = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    name = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    status = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"]
    dirty = subprocess.run(status, capture_output=True, text=True, check=False).stdout.strip()
    return f"{name}{'+' if dirty else ''}"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a file that a benchmark appends to; none without the file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def add_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append one row, and print it."""
    line = json.dumps(row)
    with path.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a script that measures on a GPU, trial by trial."""
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shard", default="1/1", help="which trials: i/n")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)


def sharded(everything: Sequence[T], shard: str) -> list[T]:
    """Return every n-th from the i-th on, of a shard spelled i/n with i from 1."""
    first, _, step = shard.partition("/")
    if not (first.isdigit() and step.isdigit() and 1 <= int(first) <= int(step)):
        raise SystemExit(f"--shard {shard}: which of how many is meant, from 1/1 on, as in 2/4")
    return list(everything[int(first) - 1 :: int(step)])


def write(name: str, figures: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write `figures` as `NAME.json` with date, commit and machine."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    whole = {
        "benchmark": name,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        **figures,
    }
    path.write_text(json.dumps(whole, indent=2) + "\n")
    return path


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
    """Memory in use by ordinal, of all processes; empty without NVML."""


@dataclass(frozen=True, kw_only=True)
class LeftBehind:
    """What the work has left."""

    processes: tuple[tuple[int, str], ...]
    files: tuple[str, ...]
    gpu_bytes: int
    """Memory in use on these GPUs beyond what was in use before."""

    @property
    def nothing(self) -> bool:
        """Tell whether nothing is left; memory may differ by what the driver itself rounds."""
        return not self.processes and not self.files and self.gpu_bytes < 1 << 20


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they are found. Linux."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def snapshot(folders: Sequence[Path], gpus: Container[int] = ANY_GPU) -> Snapshot:
    """List processes, files and memory of these GPUs; zombies are reaped first."""
    import psutil

    _reap()
    found = psutil.Process().children(recursive=True)
    return Snapshot(
        processes=frozenset((process.pid, process.name()) for process in found),
        files=frozenset(str(path) for folder in folders for path in _files(folder)),
        gpu_bytes={ordinal: used for ordinal, used in _gpu_bytes().items() if ordinal in gpus},
    )


def gpus_of(spec: str) -> Container[int]:
    """Return the ordinals of a device: another GPU may have work of its own."""
    numbers = spec.removeprefix("cuda:").split(",")
    return {int(one) for one in numbers} if all(map(str.isdigit, numbers)) else ANY_GPU


def find_left_behind(
    before: Snapshot,
    folders: Sequence[Path],
    gpus: Container[int] = ANY_GPU,
    *,
    settle_s: float = SETTLED_S,
) -> LeftBehind:
    """Return what is there beyond `before`, once it does not change any more."""
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


Key: TypeAlias = tuple[str, int, str]
"""Of a profile: file, line, function."""
OTHER = "the rest of the host process"
OUR_FOLDERS = ("cuda_llm", "tools", "tasks")
"""Folders whose code is ours; they are links to one another."""

WAITING = {
    ("tools/cuda/runner.py", "order"): "runner",
    ("tools/device/channel.py", "receive_spinning"): "kernels of timed batches",
}
"""Functions that wait, by file and name."""
SERVING = {("tools/cuda/arrays.py", name) for name in ("launch_on_gpu", "_compiled_kernels")}
"""Functions of ours whose time belongs to their callers, as a library's does."""
FILES = {
    "opening runners": (
        *("tools/cuda/runner.py", "tools/device/runner.py"),
        *("tools/cuda/sessions.py", "tools/cuda/session_resources.py", "tools/cuda/memory.py"),
    ),
    "drawing and sealing inputs": (
        *("tools/timing/slots.py", "tools/validator/distributions.py"),
        *("tools/cuda/arrays.py", "tools/cuda/sealing.py"),
    ),
    "expected values and comparison": (
        *("tools/timing/verify.py", "tools/validator/buffers.py", "tools/device/buffers.py"),
        *("tools/validator/compare.py", "tools/validator/columns.py", "tools/validator/fused.py"),
        *("tools/validator/oracle.py", "tools/validator/check_case.py"),
        *("tools/validator/check_outputs.py", "tasks/reference.py"),
    ),
}
"""Files of the product by what their functions are there for."""


async def profiled_there(
    site: Any, work: Callable[..., Awaitable[Any]], *arguments: Any
) -> tuple[Any, dict[str, float]]:
    """Return what `work` returns, and seconds by kind of work, each second counted once.

    Profiled work takes longer than it would: the shares are what counts.
    """
    profile = cProfile.Profile()
    profile.enable()
    try:
        result = await work(site, *arguments)
    finally:
        profile.disable()
    return result, by_kind(pstats.Stats(profile))


def by_kind(stats: pstats.Stats) -> dict[str, float]:
    """Add up the own time of every function by what it is there for.

    A library's function is there for those of ours that call it, through other libraries or not,
    in the shares in which they do.
    """
    entries: dict[Key, Any] = stats.stats  # type: ignore[attr-defined]
    known: dict[Key, Mapping[str, float]] = {}
    spent: dict[str, float] = {}
    for key, (_calls, _primitive, own_s, _whole_s, _callers) in entries.items():
        for kind, share in kinds_of(key, entries, known).items():
            spent[kind] = spent.get(kind, 0.0) + share * own_s
    return {kind: round(seconds, 4) for kind, seconds in spent.items() if seconds >= 5e-5}


def kinds_of(
    key: Key, entries: Mapping[Key, Any], known: dict[Key, Mapping[str, float]]
) -> Mapping[str, float]:
    """Return what a function is there for, in shares that add up to one."""
    if key in known:
        return known[key]
    known[key] = {OTHER: 1.0}  # for those that call each other in turns
    own = own_kind(key)
    known[key] = {own: 1.0} if own else shared_kinds(entries[key][4], entries, known)
    return known[key]


def shared_kinds(
    callers: Mapping[Key, Any], entries: Mapping[Key, Any], known: dict[Key, Mapping[str, float]]
) -> Mapping[str, float]:
    """Return the kinds of the callers, by how long each calls."""
    whole_s = sum(there_s for *_, there_s in callers.values())
    if not whole_s:
        return {OTHER: 1.0}
    shares: dict[str, float] = {}
    for caller, (*_, there_s) in callers.items():
        for kind, share in kinds_of(caller, entries, known).items():
            shares[kind] = shares.get(kind, 0.0) + share * there_s / whole_s
    return shares


def own_kind(key: Key) -> str:
    """Return what a function of ours is there for; empty for one of a library."""
    file, _line, function = key
    if "select.epoll" in function or function == "select":
        return "waiting for runners"
    if not any(f"/{folder}/" in file for folder in OUR_FOLDERS):
        return ""
    for (path, name), kind in (WAITING | dict.fromkeys(SERVING, "")).items():
        if function == name and file.endswith(f"/{path}"):
            return kind
    kinds = (kind for kind, paths in FILES.items() if any(file.endswith(f"/{p}") for p in paths))
    return next(kinds, OTHER)
