"""Times memory-bound playbooks on a GPU in turn with a plain copy of as many bytes, beyond L2.

    PYTHONPATH=src:benchmarks python benchmarks/copies_on_gpu.py --out FOLDER --limit-s 540

Each kernel is a playbook at its known point. A round times the kernel, then the copy, both by the
protocol of candidates; a ratio is of the two times of one round. The next call goes on where the
last one stopped: rounds that lie in FOLDER are kept. `--summary` writes the figures of FOLDER.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import record
from results_on_gpu import known_kernel, time_kernel

from cuda_llm.profile import LibraryTimes
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.libraries import copy_of, time_library
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.options import MeasureOptions

TASKS = (
    *("matrix_copy", "matrix_transpose", "reverse_array", "relu", "sigmoid", "vector_add"),
    *("softmax", "rms_norm", "layer_norm", "cross_entropy", "max_pool_3d"),
)
ROUNDS = 9
GPU = "gpu.json"


@dataclass(frozen=True, kw_only=True)
class Round:
    """One size in one round, in microseconds."""

    task: str
    dims: dict[str, int]
    ours_us: float
    copy_us: float


def main() -> None:
    """Time round after round until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    record.add_arguments(parser)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.summary:
        record.write("copies_on_gpu", summary(arguments.out), arguments.results)
        return
    deadline = time.monotonic() + arguments.limit_s
    device = open_device(arguments.device)
    driver = device.driver if isinstance(device, CudaDevice) else ""
    (arguments.out / GPU).write_text(json.dumps({"gpu": device.name, "driver": driver}))
    names = record.sharded(arguments.tasks, arguments.shard)
    asyncio.run(time_rounds(names, device.pinned(), arguments.out, deadline))


async def time_rounds(names: list[str], device: Device, out: Path, deadline: float) -> None:
    """Time all tasks once, then once more: what changes with time is spread over all of them."""
    for number in range(ROUNDS):
        for name in names:
            file = out / f"{name}-{number}.json"
            if file.exists() or time.monotonic() > deadline:
                continue
            task = beyond_l2(load_task(name), device.hardware.l2_bytes)
            rows = await time_round(task, device) if task.sizes.bench else []
            file.write_text(json.dumps([asdict(one) for one in rows], indent=1))
            shown = [f"{one.ours_us:.2f} us {one.copy_us / one.ours_us:.3f}" for one in rows]
            print(f"{number} {name}: {', '.join(shown)}", flush=True)


def beyond_l2(task: Task, l2_bytes: int) -> Task:
    """Return the task with those bench sizes that move more bytes than L2 holds."""
    large = tuple(
        dims for dims in task.sizes.bench if evaluate(task.roofline.bytes, dims) > l2_bytes
    )
    return replace(task, sizes=replace(task.sizes, bench=large), weights=())


async def time_round(task: Task, device: Device) -> list[Round]:
    """Time the known point, then the copy, at each size. Raises AssertionError where one failed."""
    ours = await time_kernel(task, device, known_kernel(task))
    copying, file = copy_of(task)
    theirs: LibraryTimes = await time_library(copying, device, file, MeasureOptions())
    assert not theirs.fault, theirs.fault
    return [
        Round(task=task.name, dims=dict(one.dims), ours_us=one.time_us, copy_us=us)
        for one, us in zip(ours.sizes, theirs.times, strict=True)
        if us is not None
    ]


def summary(folder: Path) -> dict[str, Any]:
    """Return the median ratio of each size with its quartiles: copy's time over ours."""
    rounds: defaultdict[tuple[str, str], list[Round]] = defaultdict(list)
    for file in sorted(folder.glob("*-*.json")):
        for row in json.loads(file.read_text()):
            one = Round(**row)
            rounds[one.task, json.dumps(one.dims)].append(one)
    gpu = json.loads((folder / GPU).read_text())
    return {**gpu, "rows": [summary_of(found) for found in rounds.values()]}


def summary_of(rounds: list[Round]) -> dict[str, Any]:
    """Return the figures of one size over its rounds."""
    ratios = [one.copy_us / one.ours_us for one in rounds]
    low, median, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    return {
        "task": rounds[0].task,
        "dims": rounds[0].dims,
        "rounds": len(rounds),
        "ours_us": round(statistics.median(one.ours_us for one in rounds), 2),
        "copy_us": round(statistics.median(one.copy_us for one in rounds), 2),
        "share_of_copy": round(median, 3),
        "quartiles": [round(low, 3), round(high, 3)],
    }


if __name__ == "__main__":
    main()
