"""How long `cuda-llm evaluate` of one small kernel takes, and how much of it is ours.

Each run judges a kernel nobody has compiled before (a comment makes it new), so nvcc and g++ run;
then the same file again, when both come from the cache and what is left is our own time.
Bars on 2 cores, caches of our own parts warm: <= 4 s end to end, <= 1 s of it ours.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import record

SOURCE = (record.ROOT / "tasks/vector_add/baseline.cu").read_text()


def evaluate(path: Path) -> float:
    """Seconds one command takes."""
    command = [sys.executable, "-m", "cuda_llm", "evaluate", "vector_add", str(path), "--json"]
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - started


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=120)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    new, again = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(SOURCE)
        evaluate(path)
        for run in range(arguments.runs):
            if time.monotonic() > deadline:
                break
            path.write_text(f"// run {run} at {time.time_ns()}\n{SOURCE}")
            new.append(evaluate(path))
            again.append(evaluate(path))
    figures = {
        "unit": "s",
        "runs": len(new),
        "end_to_end": spread(new),
        "own": spread(again),
        "bars": {"end_to_end": 4.0, "own": 1.0},
    }
    for name in ("end_to_end", "own"):
        print(f"{name:11} median {figures[name]['median']:.2f} s  {figures[name]}")
    print(record.write("evaluate_latency", figures))


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and range."""
    return {
        "median": round(statistics.median(seconds), 3),
        "min": round(min(seconds), 3),
        "max": round(max(seconds), 3),
    }


if __name__ == "__main__":
    main()
