"""Does the emulated device rank kernels as an H200 does at the sizes people run?

    PYTHONPATH=tests/support python benchmarks/bench_size_agreement.py model --limit-s 900
    PYTHONPATH=tests/support python benchmarks/bench_size_agreement.py compare

The kernels are all honest ones of tests/fixtures, the baselines and the playbooks as written.
`results/h200_corpus.json` has their measured times at the largest `bench` size; `model` models them
there for an H200, as a search does, and writes `results/modelled_bench_sizes.json` when every
kernel has its times. It may be stopped and goes on; `--again` uses nothing of what is there,
`--shard` takes a part.

`compare` prints and writes `results/bench_size_agreement.json`: by task what `rank_agreement.py`
says of pairs more than 5 % apart. A kernel is held back where the hash of its name is a multiple of
three: no constant of the model may be chosen by those.
"""

import hashlib
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import record
from corpus import KINDS, Known
from rank_agreement import Row, agreement, model_shard, rows_to_compare
from recorded_tasks import RECORDED_TASKS

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.steps import compile_baseline, compile_source, time_calls_there
from cuda_llm.tools.timing.times import KernelTimes

LEAST_DIFFERENCE = 0.05
NONCE = b"bench size agreement"
MEASURED = record.RESULTS / "h200_corpus.json"
MODELLED = record.RESULTS / "modelled_bench_sizes.json"


def name_of(known: Known) -> str:
    """Return the name that the recorded corpus has for it."""
    return "/".join(known.path.with_suffix("").parts[-3:])


def is_held_back(name: str) -> bool:
    """Return whether no constant of the model may be chosen by this kernel."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % 3 == 0


def kernels() -> list[Known]:
    """Return the honest kernels of shipped tasks that the emulated device can run."""
    every = [one for kind in KINDS for one in kind() if one.honest and not one.gpu_alone]
    return [one for one in every if one.task in RECORDED_TASKS]


def model_kernels() -> None:
    """Model one shard; write the result when nothing is left."""
    device, rows, results = model_shard(
        __doc__, "bench-sizes", kernels, lambda row, one: row["name"] == name_of(one), model
    )
    if rows is not None:
        whole = {"device": device.name, "rows": sorted(rows, key=lambda row: str(row["name"]))}
        print(record.write("modelled_bench_sizes", whole, results))


async def model(device: Device, known: Known) -> list[Row]:
    """Model a kernel at all `bench` sizes of its task, results verified at small ones."""
    task = load_task(known.task)
    source = known.path.read_text()
    compiled = await compile_source(task, device, source, known.path.name)
    assert isinstance(compiled, Compiled), compiled
    baseline = await compile_baseline(task, device.target)
    began_s = time.monotonic()
    outcome = await device.carry_out(time_calls_there, task, compiled, baseline, NONCE)
    row: Row = {"task": task.name, "name": name_of(known)}
    if isinstance(outcome, KernelTimes):
        times = [round(time_us, 3) for _, time_us in outcome.times]
        row |= {"times_us": times, "notes": list(outcome.size_notes)}
    else:
        row["failed"] = outcome.code
    return [row | {"seconds": round(time.monotonic() - began_s, 2)}]


def compare_times() -> None:
    """Compare, print and write."""
    of_gpu, of_model, results = rows_to_compare(__doc__, MEASURED, MODELLED)
    measured = {row["name"]: row["largest_us"] for row in of_gpu if row["honest"]}
    figures = compare(measured, of_model)
    for part, found in figures.items():
        print(part)
        for name, one in found.items():
            print(f"  {name:24}", one)
    print(record.write("bench_size_agreement", figures, results))


def compare(measured: Mapping[str, float], rows: Sequence[Row]) -> dict[str, Any]:
    """Compute the agreement by task, and over all: of all kernels, and of those held back."""
    modelled = {
        row["name"]: (row["task"], row["times_us"][-1]) for row in rows if "times_us" in row
    }
    shared = [name for name in modelled if name in measured]
    held_back = [name for name in shared if is_held_back(name)]
    return {
        part: _by_task({name: (*modelled[name], measured[name]) for name in names})
        for part, names in (("all", shared), ("held back", held_back))
    }


def _by_task(kernels: Mapping[str, tuple[str, float, float]]) -> dict[str, Any]:
    tasks: dict[str, Any] = {}
    for task in sorted({one for one, _, _ in kernels.values()}):
        times = [
            (measured, modelled) for one, modelled, measured in kernels.values() if one == task
        ]
        tasks[task] = agreement(times, LEAST_DIFFERENCE)
    pairs = sum(one["pairs"] for one in tasks.values())
    factors = [abs(math.log(modelled / measured)) for _, modelled, measured in kernels.values()]
    overall = {
        "count": len(kernels),
        "pairs": pairs,
        "pairwise": round(sum(one["pairwise"] * one["pairs"] for one in tasks.values()) / pairs, 3),
        "median_regret": round(statistics.median(one["regret"] for one in tasks.values()), 3),
        "worst_regret": max(one["regret"] for one in tasks.values()),
        "error": round(math.exp(statistics.median(factors)), 3),
    }
    return {**tasks, "together": overall}


if __name__ == "__main__":
    record.dispatch({"model": model_kernels, "compare": compare_times})
