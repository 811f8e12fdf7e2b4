"""Judges the emulated device by a real GPU: does it rank kernels as the GPU does?

    python benchmarks/rank_agreement.py

Reads `results/h200_rank_times.json` (`rank_on_gpu.py`) and `results/rank_modelled.json`
(`rank_model.py`): the same kernels at the same sizes. Writes `results/rank_agreement.json`, by
task:

pairwise  share of the pairs more than 10 % apart when measured that the model orders right
rho       Spearman's rank correlation
regret    measured time of the model's favourite over that of the best
error     median factor between modelled and measured time, either way
"""

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import record

APART = 0.10
"""Pairs whose measured times are closer are no test."""
TARGETS = {"pairwise": 0.80, "median_rho": 0.7, "regret": 1.15}
MEASURED = record.RESULTS / "h200_rank_times.json"
MODELLED = record.RESULTS / "rank_modelled.json"

Key = tuple[str, str]
"""Task and variant."""


def main() -> None:
    """Compare and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--modelled", type=Path, default=MODELLED)
    arguments = parser.parse_args()
    measured = times_of(json.loads(arguments.measured.read_text())["rows"], "cold_us")
    modelled = times_of(json.loads(arguments.modelled.read_text())["rows"], "time_us")
    figures = compare(measured, modelled)
    for name, one in figures["tasks"].items():
        print(f"{name:24}", {key: value for key, value in one.items() if key != "kernels"})
    print({key: value for key, value in figures.items() if key != "tasks"})
    print(record.write("rank_agreement", figures, arguments.out))


def times_of(rows: Sequence[Mapping[str, Any]], column: str) -> dict[Key, float]:
    """Geometric mean over the sizes of every kernel that has a time at each of them."""
    found: dict[Key, list[float | None]] = {}
    for row in rows:
        found.setdefault((row["task"], row["variant"]), []).append(row.get(column))
    return {
        key: statistics.geometric_mean(one for one in times if one is not None)
        for key, times in found.items()
        if None not in times
    }


def compare(measured: Mapping[Key, float], modelled: Mapping[Key, float]) -> dict[str, Any]:
    """Agreement by task, and over all."""
    tasks: dict[str, Any] = {}
    for name in dict.fromkeys(task for task, _ in measured):
        shared = [key for key in measured if key in modelled and key[0] == name]
        kernels = {key[1]: (measured[key], modelled[key]) for key in shared}
        tasks[name] = {**agreement(list(kernels.values())), "kernels": kernels}
    factors = [math.log(b / a) for one in tasks.values() for a, b in one["kernels"].values()]
    pairs = [one["pairs"] for one in tasks.values()]
    right = sum(one["pairwise"] * one["pairs"] for one in tasks.values())
    return {
        "targets": TARGETS,
        "pairwise": round(right / sum(pairs), 3),
        "median_rho": round(statistics.median(one["rho"] for one in tasks.values()), 3),
        "worst_regret": max(one["regret"] for one in tasks.values()),
        "error": round(math.exp(statistics.median(map(abs, factors))), 3),
        "tasks": tasks,
    }


def agreement(times: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Of measured and modelled times of one task."""
    pairs = [
        (a, b) for a, b in combinations(times, 2) if max(a[0], b[0]) / min(a[0], b[0]) > 1 + APART
    ]
    right = sum((a[0] < b[0]) == (a[1] < b[1]) and a[1] != b[1] for a, b in pairs)
    best = min(measured for measured, _ in times)
    favourite = min(times, key=lambda one: one[1])[0]
    return {
        "count": len(times),
        "pairs": len(pairs),
        "pairwise": round(right / len(pairs), 3) if pairs else 1.0,
        "rho": round(spearman([a for a, _ in times], [b for _, b in times]), 3),
        "regret": round(favourite / best, 3),
        "error": round(math.exp(statistics.median(abs(math.log(b / a)) for a, b in times)), 3),
    }


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Correlation of the ranks; equal values share the mean of their ranks."""
    return statistics.correlation(ranks(first), ranks(second))


def ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value, from 1."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


if __name__ == "__main__":
    main()
