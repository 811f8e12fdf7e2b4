"""Does the emulated device rank kernels as a real GPU does?

    python benchmarks/rank_agreement.py model --device "emulated:H200" --limit-s 900
    python benchmarks/rank_agreement.py compare

The kernels are points spread evenly over each task's playbook. `model` models them on the emulated
device and writes `results/rank_modelled.json` when every kernel has its times. Each kernel is a
line in the cache the moment it is modelled, so that the script may be stopped at any time;
`--again` uses none of them, `--shard` takes a part.

`compare` reads `results/h200_rank_times.json` (`rank_on_gpu.py`) and `results/rank_modelled.json`,
which have the same kernels at the same sizes, and writes `results/rank_agreement.json`, by task:

pairwise  share of the pairs more than 10 % apart when measured that the model orders right
rho       Spearman's rank correlation
regret    measured time of the model's favourite over that of the best
error     median factor between modelled and measured time, either way
"""

import argparse
import asyncio
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any, TypeVar

import record
from recorded_tasks import load_recorded

from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.playbook.propose import fill_space
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Device, Level, Session, Site
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.call_report import EmulatedCallReport
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.validator.check_case import run_case

POINTS = 12
SEED = 1
SIZES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "vector_add": ({"n": 1 << 20}, {"n": 1 << 22}),
    "reduction": ({"n": 1 << 18}, {"n": 1 << 20}),
    "histogram": ({"n": 1 << 20, "num_bins": 256}, {"n": 1 << 22, "num_bins": 256}),
    "matrix_transpose": ({"rows": 1024, "cols": 1024}, {"rows": 2048, "cols": 2048}),
    "matrix_multiplication": ({"M": 512, "N": 512, "K": 512}, {"M": 1024, "N": 1024, "K": 1024}),
    "conv2d": ({"H": 256, "W": 256, "R": 24, "S": 24}, {"H": 512, "W": 512, "R": 24, "S": 24}),
}
"""Timed sizes, the same on both devices: as large as a CPU can emulate in seconds."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One kernel of one task."""

    task: Task
    point: Mapping[str, int]
    """Of the playbook; empty for the task's baseline."""
    source: str

    @property
    def name(self) -> str:
        """Return `TILE=32 WIDTH=4`, or `baseline`."""
        return " ".join(f"{key}={value}" for key, value in self.point.items()) or "baseline"


def variants(name: str) -> Iterator[Variant]:
    """Yield the baseline, then points of the playbook that are different kernels."""
    task = load_recorded(name)
    assert task.playbook, f"{name} has no playbook"
    source = task.playbook.read_text()
    space = read_space(source)
    assert isinstance(space, Space), f"{task.playbook}: {space}"
    kernels = TunableKernel(source, space)
    yield Variant(task=task, point={}, source=task.baseline.read_text())
    kernels_seen: dict[str, Mapping[str, int]] = {}
    for point in fill_space(space, kernels.candidates(random.Random(SEED)), ()):
        kernels_seen.setdefault(kernels.sha(point), point)
        if len(kernels_seen) == POINTS:
            break
    for chosen in islice(kernels_seen.values(), POINTS):
        yield Variant(task=task, point=chosen, source=kernels.write(chosen))


NONCE = b"rank agreement"
"""Inputs are always the same, so that a model that has not changed gives the same times."""

Row = dict[str, Any]


T = TypeVar("T")


def model_shard(
    description: str | None,
    folder_name: str,
    everything: Callable[[], Sequence[T]],
    is_row_of: Callable[[Row, T], bool],
    model_one: Callable[[Device, T], Coroutine[Any, Any, list[Row]]],
) -> tuple[Device, list[Row] | None, Path]:
    """Model what is left of the shard that the command line names, until its time is over.

    Each kernel's rows are lines of a file in the cache's folder `folder_name` the moment it is
    modelled. Returns the device, all rows of all shards in the order of their files, or None while
    some kernel has none, and the folder that results go to.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--device", default="emulated:H200")
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--limit-s", type=float, default=600)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    device = open_device(arguments.device)
    every = everything()
    chosen = record.sharded(every, arguments.shard)
    folder = cache_folder(folder_name)
    shard_file = folder / f"{arguments.shard.replace('/', 'of')}.jsonl"
    if arguments.again:
        shard_file.unlink(missing_ok=True)
    known = read_rows(folder)
    device.prepare()
    with shard_file.open("a") as file:
        for one in chosen:
            if any(is_row_of(row, one) for row in known) or time.monotonic() > deadline:
                continue
            rows = asyncio.run(model_one(device, one))
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            file.write(lines)
            file.flush()
            print(lines, end="", flush=True)
    rows = read_rows(folder)
    whole = all(any(is_row_of(row, one) for row in rows) for one in every)
    return device, rows if whole else None, arguments.results


def model_kernels() -> None:
    """Model one shard; write the result when nothing is left."""
    device, rows, results = model_shard(
        __doc__,
        "rank",
        lambda: [variant for name in SIZES for variant in variants(name)],
        lambda row, one: (row["task"], row["variant"]) == (one.task.name, one.name),
        model,
    )
    if rows is not None:
        profile = device.hardware.model
        constants = {"fill_us": profile.fill_us, "grid_barrier_us": profile.grid_barrier_us}
        whole = {"device": device.name, "constants": constants, "rows": rows}
        print(record.write("rank_modelled", whole, results))


async def model(device: Device, variant: Variant) -> list[Row]:
    """Model a variant; return one row a size."""
    compiled = await compile_source(variant.task, device, variant.source, "rank.cu")
    assert isinstance(compiled, Compiled), compiled
    rows = []
    for dims in SIZES[variant.task.name]:
        outcome = await device.carry_out(time_there, variant.task, compiled, dims)
        row: Row = {"task": variant.task.name, "variant": variant.name, "dims": dict(dims)}
        if isinstance(outcome, EmulatedCallReport):
            limits = [one.code for one in outcome.bottlenecks[:1]]
            fills = sum(one.figures.get("copies", 0.0) for one in outcome.launches)
            row |= {
                "time_us": outcome.time_us,
                "limited_by": limits[0] if limits else "",
                "fills": round(fills),
                "cooperative": sum(one.cooperative for one in outcome.accounts),
            }
        elif not isinstance(outcome, CallReport):
            row["failed"] = outcome.code
        rows.append(row)
    return rows


async def time_there(
    site: Site, task: Task, compiled: Compiled, dims: Mapping[str, int]
) -> CallReport | Verdict:
    """Call once, and verify the outputs."""
    async with site.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        return await run_case(task, session, dims, level=Level.ACCOUNT, nonce=NONCE)


def read_rows(folder: Path) -> list[Row]:
    """Read all that was modelled, in the order of the points."""
    files = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


LEAST_DIFFERENCE = 0.10
"""Pairs whose measured times are closer are no test."""
TARGETS = {"pairwise": 0.80, "median_rho": 0.7, "regret": 1.15}
MEASURED = record.RESULTS / "h200_rank_times.json"
MODELLED = record.RESULTS / "rank_modelled.json"

Key = tuple[str, str]
"""Task and variant."""


def rows_to_compare(
    description: str | None, measured: Path, modelled: Path
) -> tuple[list[Row], list[Row], Path]:
    """Return the measured and the modelled rows that the arguments name, and where to write."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    parser.add_argument("--measured", type=Path, default=measured)
    parser.add_argument("--modelled", type=Path, default=modelled)
    arguments = parser.parse_args()
    of_gpu, of_model = (
        json.loads(path.read_text())["rows"] for path in (arguments.measured, arguments.modelled)
    )
    return of_gpu, of_model, arguments.results


def compare_times() -> None:
    """Compare, print and write."""
    of_gpu, of_model, results = rows_to_compare(__doc__, MEASURED, MODELLED)
    figures = compare(times_of(of_gpu, "cold_us"), times_of(of_model, "time_us"))
    for name, one in figures["tasks"].items():
        print(f"{name:24}", {key: value for key, value in one.items() if key != "kernels"})
    print({key: value for key, value in figures.items() if key != "tasks"})
    print(record.write("rank_agreement", figures, results))


def times_of(rows: Sequence[Mapping[str, Any]], column: str) -> dict[Key, float]:
    """Return the geometric mean over the sizes of every kernel that has a time at each."""
    found: dict[Key, list[float | None]] = {}
    for row in rows:
        found.setdefault((row["task"], row["variant"]), []).append(row.get(column))
    return {
        key: statistics.geometric_mean(one for one in times if one is not None)
        for key, times in found.items()
        if None not in times
    }


def compare(measured: Mapping[Key, float], modelled: Mapping[Key, float]) -> dict[str, Any]:
    """Compute the agreement by task, and over all."""
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


def agreement(
    times: Sequence[tuple[float, float]], least_difference: float = LEAST_DIFFERENCE
) -> dict[str, float]:
    """Compute the agreement of measured and modelled times of one task."""
    pairs = [
        (a, b)
        for a, b in combinations(times, 2)
        if max(a[0], b[0]) / min(a[0], b[0]) > 1 + least_difference
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
