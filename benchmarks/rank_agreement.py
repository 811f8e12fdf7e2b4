"""Does the emulated device rank kernels as an H200 does at the sizes people run?

    PYTHONPATH=tests/support python benchmarks/rank_agreement.py model --out rows.jsonl
    python benchmarks/rank_agreement.py compare

The kernels are the honest ones of tests/fixtures, the baselines and the playbooks as written, of
six tasks. `results/h200_corpus.json` has their times at the largest `bench` size, measured by
`corpus_on_gpu.py`. `model` models the kernels at the same sizes for an H200, as a search does, and
writes `results/rank_modelled.json` when every kernel has a row. `compare` writes
`results/rank_agreement.json`, by task, of all kernels and of those held back:

pairwise  share of the pairs more than 5 % apart when measured that the model orders right
rho       Spearman's rank correlation
regret    measured time of the model's favourite over that of the best
error     median factor between modelled and measured time, either way

A kernel is held back where the hash of its name is a multiple of three: no constant of the model
may be chosen by these kernels.
"""

import argparse
import asyncio
import hashlib
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import record
from corpus import KINDS, Known

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_baseline, compile_source
from cuda_llm.tools.judge.modelled_times import time_calls_there
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes

TASKS = (
    "conv2d",
    "histogram",
    "matrix_multiplication",
    "matrix_transpose",
    "reduction",
    "vector_add",
)
LEAST_DIFFERENCE = 0.05
"""Pairs whose measured times are closer are no test."""
NONCE = b"bench size agreement"
MEASURED = record.RESULTS / "h200_corpus.json"
MODELLED = record.RESULTS / "rank_modelled.json"
Row = dict[str, Any]


def name_of(known: Known) -> str:
    """Return the name of the kernel in the recorded corpus."""
    return "/".join(known.path.with_suffix("").parts[-3:])


def is_held_back(name: str) -> bool:
    """Return whether no constant of the model may be chosen by this kernel."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % 3 == 0


def kernels() -> list[Known]:
    """Return the honest kernels of the six tasks that the emulated device can run."""
    every = [one for kind in KINDS for one in kind() if one.honest and not one.gpu_alone]
    return [one for one in every if one.task in TASKS]


def model_kernels() -> None:
    """Model the kernels of one shard; write the result when every kernel has a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    record.add_arguments(parser, device="emulated:H200")
    parser.add_argument("--only", default="", help="names that hold this")
    asked = parser.parse_args()
    deadline = time.monotonic() + asked.limit_s
    device = open_device(asked.device)
    device.prepare()
    chosen = [one for one in kernels() if asked.only in name_of(one)]
    known = {row["name"] for row in record.read_rows(asked.out)}
    for one in record.sharded(chosen, asked.shard):
        if name_of(one) not in known and time.monotonic() < deadline:
            record.add_row(asked.out, asyncio.run(model(device, one)))
    rows = {row["name"]: row for row in record.read_rows(asked.out)}
    if all(name_of(one) in rows for one in kernels()):
        found = [rows[name] for name in sorted(rows)]
        figures = {**record.device_facts(device), "rows": found}
        print(record.write("rank_modelled", figures, asked.results))


async def model(device: Device, known: Known) -> Row:
    """Model a kernel at all `bench` sizes of its task, results verified at small sizes."""
    task = load_task(known.task)
    compiled = await compile_source(task, device, known.read(), known.path.name)
    assert isinstance(compiled, Compiled), compiled
    baseline = await compile_baseline(task, device.hardware.target)
    began_s = time.monotonic()
    outcome = await device.carry_out(Work.of(time_calls_there, task, compiled, baseline, NONCE))
    row: Row = {"task": task.name, "name": name_of(known)}
    if isinstance(outcome, KernelTimes):
        times = [round(time_us, 3) for _, time_us in outcome.times]
        row |= {"times_us": times, "notes": list(outcome.size_notes)}
    else:
        row["failed"] = outcome.code
    return row | {"seconds": round(time.monotonic() - began_s, 2)}


def compare_times() -> None:
    """Compare modelled with measured times, print and write the agreement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measured", type=Path, default=MEASURED)
    parser.add_argument("--modelled", type=Path, default=MODELLED)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    asked = parser.parse_args()
    of_gpu, of_model = (
        json.loads(path.read_text())["rows"] for path in (asked.measured, asked.modelled)
    )
    measured = {row["name"]: row.get("largest_us") for row in of_gpu if row["honest"]}
    figures = compare({name: us for name, us in measured.items() if us}, of_model)
    for part, found in figures.items():
        print(part)
        for name, one in found.items():
            print(f"  {name:24}", one)
    print(record.write("rank_agreement", figures, asked.results))


def compare(measured: Mapping[str, float], rows: Sequence[Row]) -> dict[str, Any]:
    """Compute the agreement by task, and over all: of all kernels, and of those held back."""
    modelled = {
        row["name"]: (row["task"], row["times_us"][-1]) for row in rows if "times_us" in row
    }
    shared = [name for name in modelled if name in measured]
    held_back = [name for name in shared if is_held_back(name)]
    return {
        part: by_task({name: (*modelled[name], measured[name]) for name in names})
        for part, names in (("all", shared), ("held back", held_back))
    }


def by_task(times: Mapping[str, tuple[str, float, float]]) -> dict[str, Any]:
    """Compute the agreement of task, modelled and measured time by kernel."""
    tasks: dict[str, Any] = {}
    for task in sorted({one for one, _, _ in times.values()}):
        tasks[task] = agreement(
            [(measured, modelled) for one, modelled, measured in times.values() if one == task]
        )
    pairs = sum(one["pairs"] for one in tasks.values())
    factors = [abs(math.log(modelled / measured)) for _, modelled, measured in times.values()]
    overall = {
        "count": len(times),
        "pairs": pairs,
        "pairwise": round(sum(one["pairwise"] * one["pairs"] for one in tasks.values()) / pairs, 3),
        "median_regret": round(statistics.median(one["regret"] for one in tasks.values()), 3),
        "worst_regret": max(one["regret"] for one in tasks.values()),
        "error": round(math.exp(statistics.median(factors)), 3),
    }
    return {**tasks, "together": overall}


def agreement(times: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Compute the agreement of measured and modelled times of one task."""
    pairs = [
        (a, b)
        for a, b in combinations(times, 2)
        if max(a[0], b[0]) / min(a[0], b[0]) > 1 + LEAST_DIFFERENCE
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
    """Compute the correlation of the ranks; equal values share the mean of their ranks."""
    return statistics.correlation(ranks(first), ranks(second))


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


if __name__ == "__main__":
    record.dispatch({"model": model_kernels, "compare": compare_times})
