"""Judges every kernel that a playbook can write: what a search could find at best.

    python benchmarks/playbook_sweep.py matrix_transpose --shard 1/2 --limit-s 600

Each kernel is a line in a file of its shard the moment it is judged, so that a sweep may be stopped
at any time, goes on where it was, and after a change of the playbook judges only what is new. When
no kernel is left, `results/playbook_TASK.json` is written: what `playbook_search.py` replays.
Points that specialise to the same kernel are judged once.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import record

from cuda_llm.agents.kernel_text.normal_form import normal_sha
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import points
from cuda_llm.agents.tunables.tunable import Space
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.devices.find import open_device
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.native import cache_folder
from cuda_llm.wording import describe

Row = dict[str, Any]


def main() -> None:
    """Sweep one shard; write the result when nothing is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--device", default="emulated")
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--jobs", type=int, default=1, help="kernels judged at once")
    parser.add_argument("--limit-s", type=float, default=600)
    arguments = parser.parse_args()
    task, device = load_task(arguments.task), open_device(arguments.device)
    kernels = dict(distinct_kernels(task))
    rows = read_rows(task, device)
    left = [sha for sha in record.sharded(list(kernels), arguments.shard) if sha not in rows]
    print(f"{task.name}: {len(kernels)} kernels, {len(left)} of this shard to judge", flush=True)
    device.prepare()
    deadline = time.monotonic() + arguments.limit_s
    kept = sweep_folder(task, device) / f"{arguments.shard.replace('/', 'of')}.jsonl"
    todo = {sha: kernels[sha] for sha in left}
    asyncio.run(sweep(task, device, todo, kept, arguments.jobs, deadline))
    rows = read_rows(task, device)
    if all(sha in rows for sha in kernels):
        print(write_result(task, device, [rows[sha] for sha in kernels]))


def distinct_kernels(task: Task) -> Iterator[tuple[str, tuple[dict[str, int], str]]]:
    """Hash, first point and source of each kernel the playbook can write."""
    assert task.playbook, f"{task.name} has no playbook"
    source = task.playbook.read_text()
    space = read_space(source)
    assert isinstance(space, Space), f"{task.playbook}: {space}"
    seen = set()
    for point in points(space):
        text = write_point(source, point)
        sha = normal_sha(text)
        if sha not in seen:
            seen.add(sha)
            yield sha, (point, text)


async def sweep(
    task: Task,
    device: Device,
    kernels: Mapping[str, tuple[dict[str, int], str]],
    kept: Path,
    jobs: int,
    deadline: float,
) -> None:
    """Judge the kernels, `jobs` at once, until all are done or the time is over."""
    bench = open_bench(task, device)
    baseline = asyncio.ensure_future(bench.time_baseline())
    queue = iter(kernels.items())

    async def work() -> None:
        for sha, (point, text) in queue:
            if time.monotonic() > deadline:
                return
            judged = await judge(bench, text, sha[:8], baseline=baseline)
            row = to_row(sha, point, judged.verdict)
            with kept.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['code']} {row['speedup']} {point}", flush=True)

    await baseline
    await asyncio.gather(*(work() for _ in range(jobs)))


def to_row(sha: str, point: Mapping[str, int], verdict: Verdict) -> Row:
    """What a search sees of one judged kernel."""
    profile = verdict.profile if isinstance(verdict, Passed) else None
    return {
        "sha": sha,
        "point": dict(point),
        "code": verdict.code,
        "speedup": profile and profile.speedup,
        "times_us": [size.time_us for size in profile.sizes] if profile else [],
        "limited_by": profile.bottlenecks[0].code if profile and profile.bottlenecks else "",
        "summary": "" if profile else describe(verdict)[0],
    }


def sweep_folder(task: Task, device: Device) -> Path:
    """Where the shards of this sweep are kept."""
    name = "".join(letter if letter.isalnum() else "-" for letter in device.name)
    return cache_folder(f"sweeps/{task.name}/{name}")


def read_rows(task: Task, device: Device) -> dict[str, Row]:
    """What was judged so far, by hash."""
    files = sweep_folder(task, device).glob("*.jsonl")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {row["sha"]: row for row in rows}


def write_result(task: Task, device: Device, rows: list[Row]) -> Path:
    """The whole sweep as one file."""
    speedups = [row["speedup"] for row in rows if row["code"] == "PASSED"]
    return record.write(
        f"playbook_{task.name}",
        {
            "task": task.name,
            "device": device.name,
            "hardware": device.hardware.name,
            "time_source": device.capabilities.time_source,
            "kernels": len(rows),
            "passed": len(speedups),
            "best_speedup": max(speedups),
            "worst_speedup": min(speedups),
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
