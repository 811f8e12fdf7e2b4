"""Where a benchmark's figures go: one JSON file with what is needed to repeat them."""

import argparse
import datetime
import json
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
T = TypeVar("T")


def machine() -> dict[str, Any]:
    """Facts of this machine that figures depend on; nothing that names it."""
    import psutil

    cpu = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }


def commit() -> str:
    """Commit the figures belong to, with `+` when the checkout has changes."""
    head = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    name = subprocess.run(head, capture_output=True, text=True, check=False).stdout.strip()
    status = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no"]
    dirty = subprocess.run(status, capture_output=True, text=True, check=False).stdout.strip()
    return f"{name}{'+' if dirty else ''}"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a file that a benchmark adds to as it goes; none without the file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def add_row(path: Path, row: Mapping[str, Any]) -> None:
    """One line more, shown too."""
    line = json.dumps(row)
    with path.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of every script that measures on a GPU, trial by trial."""
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--shard", default="1/1", help="which trials: i/n")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--limit-s", type=float, default=540.0)
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)


def sharded(everything: Sequence[T], shard: str) -> list[T]:
    """Every n-th from the i-th on, of a shard spelled i/n with i from 1."""
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
