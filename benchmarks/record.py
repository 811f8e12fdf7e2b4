"""What the benchmark programs share: the options of a program on a GPU, its rows and its results.

A program that needs a device writes a row to `--out` the moment the row is complete, continues
after the rows that `--out` has, takes every N-th row with `--shard I/N`, and begins no row after
`--limit-s` seconds.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.device import Device

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
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
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
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(row)
    with path.open("a") as file:
        file.write(line + "\n")
    print(line, flush=True)


def add_arguments(parser: argparse.ArgumentParser, *, device: str = "cuda:0") -> None:
    """Add the options of a program that writes row after row."""
    parser.add_argument("--device", default=device)
    parser.add_argument("--out", type=Path, required=True, help="rows, kept from call to call")
    parser.add_argument("--shard", default="1/1", help="I/N: every N-th row from the I-th, from 1")
    parser.add_argument("--limit-s", type=float, default=540.0, help="begin no row after this")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the summary")


def device_facts(device: Device) -> dict[str, str]:
    """Return the name of a device, and the driver of a GPU."""
    driver = {"driver": device.driver} if isinstance(device, CudaDevice) else {}
    return {"device": device.name, **driver}


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
