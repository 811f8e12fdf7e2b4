"""How long the main command takes, and where the time goes: `cuda-llm run histogram`.

The emulated device and the playbook, five rounds of five. Native parts are built beforehand
(set-up); nothing else is in the cache, so every candidate is compiled by nvcc and translated.
Bar on 2 idle cores: <= 60 s. Processor time is recorded beside it, because a busy machine stretches
the clock, and it shows how busy the machine was.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import record

BAR_S = 60.0
NATIVE = "native"
"""What of the cache is part of set-up."""


def prepare(cache: Path) -> None:
    """Build the native parts."""
    run("evaluate", "vector_add", str(record.ROOT / "tasks/vector_add/baseline.cu"), cache=cache)


def measure(task: str, seed: int, cache: Path) -> dict[str, Any]:
    """One run with nothing but native parts in the cache."""
    for folder in cache.iterdir():
        if folder.name != NATIVE:
            shutil.rmtree(folder)
    with tempfile.TemporaryDirectory() as out:
        cpu_before_s, started = cpu_s(), time.monotonic()
        options = ("--generator", "playbook", "--seed", str(seed), "--out", out, "--json")
        document = json.loads(run("run", task, *options, cache=cache))
        wall_s = time.monotonic() - started
    return {
        "seed": seed,
        "wall_s": round(wall_s, 2),
        "cpu_s": round(cpu_s() - cpu_before_s, 2),
        "load": round(os.getloadavg()[0], 1),
        "speedup": document["best"] and round(document["best"]["speedup"], 2),
        "candidates": sum(len(one["candidates"]) for one in document["rounds"]),
        "seconds": document["seconds"],
    }


def run(*command: str, cache: Path) -> str:
    """What one command prints."""
    env = {**os.environ, "CUDA_LLM_CACHE": str(cache)}
    whole = [sys.executable, "-m", "cuda_llm", *command]
    return subprocess.run(whole, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_s() -> float:
    """Processor time of all commands so far and of what they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="histogram")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        prepare(cache)
        runs = [measure(arguments.task, seed, cache) for seed in range(arguments.runs)]
    for one in runs:
        print(one)
    figures = {
        "unit": "s",
        "task": arguments.task,
        "median_wall_s": statistics.median(one["wall_s"] for one in runs),
        "median_cpu_s": statistics.median(one["cpu_s"] for one in runs),
        "bar_wall_s": BAR_S,
        "runs": runs,
    }
    print(record.write("run_latency", figures))


if __name__ == "__main__":
    main()
