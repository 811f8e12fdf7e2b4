"""What runs, contests and evaluations take on a GPU, and how often contests err.

    python benchmarks/contests_on_gpu.py --out rows.jsonl

Parts, in this order: `run` is `cuda-llm run` of each task with the playbook, six candidates and
three rounds, after a run of one candidate that fills the caches of the machine. `evaluate`
judges two kernels of each task at normal precision, of which the second counts, for then runner
and baseline are warm. `errors` holds contests of a kernel with three contenders: the kernel itself,
and kernels that take 1 and 3 % longer. Each call ends by writing `contests_on_gpu.json`, a summary
of all rows with the bars, into `--results`.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import record
from timing_on_gpu import (
    HONEST,
    MIX,
    TURNS,
    built,
    like_unrolled,
    slope_of,
    spinning,
)

from cuda_llm.outcomes import InfraFailed, Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.duel import ContestOrder, contest
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.contest import Duel
from cuda_llm.tools.timing.options import MeasureOptions, Tier

TASKS = ("vector_add", "matrix_transpose", "reduction", "histogram")
PARTS = ("run", "evaluate", "errors")
CANDIDATES, ROUNDS = "6", "3"
PLANTED = (0.0, 0.01, 0.03)
RUN_S = 60.0
"""Seconds that have to be left for a run to begin."""
Row = dict[str, Any]


def run_task(device: str, name: str) -> Row:
    """Run the command on one task; return its seconds, and those of each round's contest."""
    with tempfile.TemporaryDirectory() as folder:
        run_command(device, name, "1", "1", folder)
        begun = time.monotonic()
        found = run_command(device, name, CANDIDATES, ROUNDS, folder)
        seconds = round(time.monotonic() - begun, 2)
        events = (Path(found["run_dir"]) / "events.jsonl").read_text(encoding="utf-8")
        held = [
            row for row in map(json.loads, events.splitlines()) if row["kind"] == "contest_held"
        ]
    return {
        "seconds": seconds,
        "stages_s": found["seconds"],
        "speedup": (found["best"] or {}).get("speedup"),
        "contests_s": list({row["round"]: round(row["seconds"], 2) for row in held}.values()),
        "outcomes": [row["outcome"] for row in held],
    }


def run_command(device: str, task: str, candidates: str, rounds: str, folder: str) -> Row:
    """Run `cuda-llm run`; return its JSON document."""
    command = [
        *(sys.executable, "-m", "cuda_llm", "run", task, "--device", device, "--json"),
        *("--generator", "playbook", "--candidates", candidates, "--rounds", rounds),
        *("--seed", "0", "--out", folder),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    document: Row = json.loads(done.stdout)
    return document


async def evaluate_task(device: Device, name: str) -> Row:
    """Judge two honest kernels of a task at normal precision; return what the second took."""
    task, row = load_task(name), dict[str, Any]()
    for file in sorted((HONEST / name).glob("*.cu"))[:2]:
        bench = open_bench(task, device, options=MeasureOptions(tier=Tier.CONFIRM))
        begun = time.monotonic()
        baseline_times = asyncio.ensure_future(bench.time_baseline())
        judged = await judge(bench, file.read_text(), file.name, baseline=baseline_times)
        profile = judged.verdict.profile if isinstance(judged.verdict, Passed) else None
        row = {
            "file": file.name,
            "code": judged.verdict.code,
            "seconds": round(time.monotonic() - begun, 2),
            "stages_s": {stage: round(took_s, 2) for stage, took_s in judged.seconds.items()},
            "spreads": [round(one.spread, 4) for one in profile.sizes] if profile else [],
        }
    return row


async def err(device: Device, name: str) -> Row:
    """Hold one contest of a spinning kernel with itself and with slower ones."""
    slope = await slope_of(device, name)
    turns = [like_unrolled(TURNS[name], TURNS[name] * one / slope) for one in PLANTED]
    incumbent = spinning(TURNS[name], name)
    task = incumbent.load()
    kernels = [await built(task, device, spinning(one, name)) for one in turns]
    begun = time.monotonic()
    order = ContestOrder(contenders=tuple(kernels), incumbent=kernels[0], prove_incumbent=False)
    found = await contest(task, device, order)
    if isinstance(found, InfraFailed):
        return {"fault": found.detail, "seconds": round(time.monotonic() - begun, 3)}
    duels = [one for one in found.duels if isinstance(one, Duel) and not one.faults]
    faults = [verdict.code for verdict in found.faults.values()]
    if len(duels) < len(PLANTED):
        return {"fault": faults, "seconds": round(time.monotonic() - begun, 3)}
    return {
        "seconds": round(time.monotonic() - begun, 3),
        "turns": turns,
        "outcomes": [one.outcome for one in duels],
        "ratios": [round(one.ratio, 5) for one in duels],
        "blocks": [one.sizes[0].blocks for one in duels],
    }


def summarise(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return the figures beside their bars."""
    runs = {row["trial"]: row for row in rows if row["part"] == "run"}
    evaluations = {row["trial"]: row for row in rows if row["part"] == "evaluate"}
    held = [row for row in rows if row["part"] == "errors" and "outcomes" in row]
    contests_s = [one for row in runs.values() for one in row["contests_s"]]
    shares = {
        f"{planted:.0%}": {
            one: sum(row["outcomes"][place] == one for row in held)
            for one in ("faster", "tie", "slower")
        }
        for place, planted in enumerate(PLANTED)
    }
    return {
        "run_s": {name: row["seconds"] for name, row in runs.items()},
        "run_bar_s": 40.0,
        "median_contest_s": round(statistics.median(contests_s), 2) if contests_s else None,
        "contest_bar_s": 3.0,
        "evaluate_s": {name: row["seconds"] for name, row in evaluations.items()},
        "evaluate_bar_s": 6.0,
        "trials": len(held),
        "faults": sum(row["part"] == "errors" and "fault" in row for row in rows),
        "trial_median_s": statistics.median(row["seconds"] for row in held) if held else None,
        "by_planted": shares,
        "bars": "0%: at most 1 of 100 faster; 1%: at most 5 faster; 3%: at least 95 slower",
        "rows": list(rows),
    }


async def main() -> None:
    """Make the rows that are missing, then put the rows together."""
    asked = parse()
    until_s = time.monotonic() + asked.limit_s
    made = {(row["part"], row["trial"]) for row in record.read_rows(asked.out)}
    trials = [(part, name) for part in ("run", "evaluate") for name in TASKS]
    trials += [("errors", f"{MIX[k % len(MIX)]} #{k}") for k in range(asked.trials)]
    device = open_device(asked.device)
    for part, name in record.sharded(trials, asked.shard):
        least_s = RUN_S if part == "run" else 0.0
        wanted = part in (asked.part or PARTS)
        if (part, name) in made or not wanted or time.monotonic() + least_s > until_s:
            continue
        if part == "run":
            row = run_task(asked.device, name)
        elif part == "evaluate":
            row = await evaluate_task(device, name)
        else:
            row = await err(device, name.partition(" #")[0])
        record.add_row(asked.out, {"part": part, "trial": name, **row})
    figures = {**record.device_facts(device), **summarise(record.read_rows(asked.out))}
    print(record.write("contests_on_gpu", figures, asked.results))
    print(json.dumps({key: one for key, one in figures.items() if key != "rows"}, indent=2))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    record.add_arguments(parser)
    parser.add_argument("--part", choices=PARTS, action="append", help="all without it")
    parser.add_argument("--trials", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
