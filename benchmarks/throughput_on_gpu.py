"""Candidates a second on real GPUs, compiling left out, and where the time of one goes.

    PYTHONPATH=src:benchmarks python benchmarks/throughput_on_gpu.py --device cuda:0 \
        --out rows.jsonl --resume --shard 1/1 --limit-s 540

Judges the honest fixtures of every task as a search judges them: validated, and screened
at the sizes whose baseline takes at most 5 ms. With `cuda:all` each as often as there are GPUs,
one a GPU at once: a GPU has as much to do as it would have alone.
`--summary` writes `throughput_NAME.json` into `--results`.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import record
from record import profiled_there

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.device_bench import time_compiled, validate_compiled
from cuda_llm.tools.judge.steps import (
    compile_baseline,
    compile_source,
    time_baseline,
    validate_there,
)
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.measure import measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

HONEST = record.ROOT / "tests/fixtures/honest"
SLOWEST_BASELINE_US = 5_000.0


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One kernel, built."""

    name: str
    task: Task
    compiled: Compiled


async def quick_sizes(device: Device, name: str) -> Task:
    """Return the task with the bench sizes whose baseline is quick enough."""
    task = load_task(name)
    baseline = await time_baseline(task, device)
    quick = [dims for dims, time_us in baseline.times if time_us <= SLOWEST_BASELINE_US]
    bench = tuple(dims for dims in task.sizes.bench if dict(dims) in [dict(one) for one in quick])
    return replace(task, sizes=replace(task.sizes, bench=bench), weights=())


async def candidates(device: Device, names: Sequence[str]) -> list[Candidate]:
    """Compile every honest kernel of these tasks, all at once."""
    tasks = {name: await quick_sizes(device, name) for name in names}
    files = [file for name in names for file in sorted((HONEST / name).glob("*.cu"))]
    built = await asyncio.gather(
        *(
            compile_source(tasks[file.parent.name], device, file.read_text(), file.name)
            for file in files
        )
    )
    return [
        Candidate(
            name=f"{file.parent.name}/{file.name}", task=tasks[file.parent.name], compiled=one
        )
        for file, one in zip(files, built, strict=True)
        if isinstance(one, Compiled)
    ]


async def judge(device: Device, candidate: Candidate) -> dict[str, Any]:
    """Validate and screen one candidate; return seconds, waiting for a GPU included."""
    begun = time.monotonic()
    validated: Validated | Verdict = without_case(
        await validate_compiled(candidate.task, device, candidate.compiled)
    )
    between = time.monotonic()
    if not isinstance(validated, Validated):
        return {"name": candidate.name, "code": validated.code, "validate_s": between - begun}
    timing: KernelTimes | Verdict = without_case(
        await time_compiled(candidate.task, device, candidate.compiled)
    )
    ended = time.monotonic()
    return {
        "name": candidate.name,
        "code": "PASSED" if isinstance(timing, KernelTimes) else timing.code,
        "sizes": len(candidate.task.sizes.bench),
        "us": [
            [round(one.time_us, 3), round(one.spread, 4), round(one.paired_speedup or 0.0, 4)]
            for one in (timing.sizes if isinstance(timing, KernelTimes) else ())
        ],
        "summary": "" if isinstance(timing, KernelTimes) else " ".join(describe(timing)[:1]),
        "validate_s": round(between - begun, 4),
        "time_s": round(ended - between, 4),
    }


async def spent(device: Device, candidate: Candidate) -> dict[str, dict[str, float]]:
    """Return seconds by kind of work in the process that holds the GPU, for both steps."""
    baseline = await compile_baseline(candidate.task, device.target)
    task, compiled = candidate.task, candidate.compiled
    _, validating = await device.carry_out(
        profiled_there, validate_there, task, compiled, baseline, None
    )
    options = MeasureOptions()
    _, timing = await device.carry_out(
        profiled_there, measure_candidate, task, compiled, baseline, options
    )
    return {"validate": validating, "time": timing}


async def main() -> None:
    """Judge the candidates of the shard that have no rows yet."""
    asked = parse()
    until_s = time.monotonic() + asked.limit_s
    if not asked.resume:
        asked.out.unlink(missing_ok=True)
    device = open_device(asked.device)
    if not asked.summary:
        await run(asked, device, until_s)
    rows = record.read_rows(asked.out)
    figures = {"device": device.name, **summarise(rows)}
    print(json.dumps(figures, indent=2))
    if asked.summary:
        print(record.write(f"throughput_{asked.name}", figures, asked.results))


async def run(asked: argparse.Namespace, device: Device, until_s: float) -> None:
    """Warm up, judge all candidates against the clock, then profile a few."""
    names = asked.task or sorted(one.name for one in HONEST.iterdir())
    judged_rows = [row for row in record.read_rows(asked.out) if row["what"] == "judged"]
    done = Counter(row["name"] for row in judged_rows)
    mine = record.sharded(await candidates(device, names), asked.shard)
    turns = len(each_of(device))
    waiting = [one for one in mine for _ in range(turns - done[one.name])]
    # What is measured or compiled once for each GPU is no candidate's.
    await asyncio.gather(
        *(judge(one, first) for one in each_of(device) for first in first_of_each(waiting))
    )
    begun = time.monotonic()
    queue = list(waiting)
    judged = 0

    async def work() -> None:
        nonlocal judged
        while queue and time.monotonic() < until_s:
            row = await judge(device, queue.pop(0))
            judged += 1
            record.add_row(asked.out, {"what": "judged", **row})

    await asyncio.gather(*(work() for _ in range(device.capabilities.at_once)))
    wall_s = time.monotonic() - begun
    record.add_row(
        asked.out,
        {"what": "run", "judged": judged, "wall_s": wall_s, "width": device.capabilities.at_once},
    )
    for one in first_of_each(waiting) if asked.profile else ():
        if time.monotonic() < until_s:
            record.add_row(
                asked.out, {"what": "spent", "name": one.name, **await spent(device, one)}
            )


def each_of(device: Device) -> Sequence[Device]:
    """Return the GPUs that take part."""
    return tuple(getattr(device, "devices", (device,)))


def first_of_each(waiting: Sequence[Candidate]) -> list[Candidate]:
    """Return one candidate a task."""
    return list({one.task.name: one for one in reversed(waiting)}.values())


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise throughput, medians a task, and shares of the profiled time."""
    runs = [row for row in rows if row["what"] == "run"]
    judged = [row for row in rows if row["what"] == "judged"]
    count, wall_s = sum(row["judged"] for row in runs), sum(row["wall_s"] for row in runs)
    tasks = sorted({row["name"].split("/")[0] for row in judged})
    return {
        "width": max((row["width"] for row in runs), default=1),
        "candidates": count,
        "seconds": round(wall_s, 2),
        "candidates_per_s": round(count / wall_s, 3) if wall_s else 0.0,
        "codes": {code: [r["code"] for r in judged].count(code) for code in codes(judged)},
        "tasks": {
            name: {
                step: round(
                    statistics.median(
                        row[step] for row in judged if row["name"].startswith(f"{name}/")
                    ),
                    3,
                )
                for step in ("validate_s", "time_s")
                if all(step in row for row in judged)
            }
            for name in tasks
        },
        "shares_percent": {step: shares(rows, step) for step in ("validate", "time")},
    }


def codes(judged: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the codes of all verdicts, sorted."""
    return sorted({row["code"] for row in judged})


def shares(rows: Sequence[Mapping[str, Any]], step: str) -> dict[str, float]:
    """Return percent of the profiled time by kind of work."""
    total: dict[str, float] = {}
    for row in rows:
        for kind, seconds in row.get(step, {}).items() if row["what"] == "spent" else ():
            total[kind] = total.get(kind, 0.0) + seconds
    whole = sum(total.values())
    ordered = sorted(total.items(), key=lambda pair: -pair[1])
    return {kind: round(100 * seconds / whole, 1) for kind, seconds in ordered}


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    record.add_arguments(parser)
    parser.add_argument("--task", action="append")
    parser.add_argument("--profile", action="store_true", help="and see where the time goes")
    parser.add_argument("--name", default="h200", help="of the file under --results")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
