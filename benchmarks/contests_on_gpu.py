"""What contests, searches and evaluations take on a GPU, and how often contests err.

    PYTHONPATH=src:benchmarks python benchmarks/contests_on_gpu.py --out rows.jsonl --resume \
        --shard 1/1 --limit-s 480 --summary

Parts, in this order: `prepare` builds what is built once a machine, so that no other row holds it.
`run` searches each task with six candidates and three rounds, in a process of its own. It stands
for `cuda-llm run`: it calls the same nodes one after the other, because LangGraph need not be
there, and leaves out the checkpoints and the researcher, which take milliseconds. Its generator is
the playbook's; without Optuna one that tries the neighbours of the incumbent. `evaluate` judges two
kernels of each task at normal precision, of which the second counts, for then runner and baseline
are warm. `profile` says for a kernel of a task, by function of the process that holds the GPU,
where a screen, a confirmation and a contest with itself spend their seconds (profiled, all take
longer). `errors` holds contests of a kernel with three contenders: itself, and kernels that take 1
and 3 % longer. Each is a line of `--out` when it ends.
`--summary` writes `contests_on_gpu.json` into `--results`, with the bars.

Of a search, `works_s` has the seconds and the number of each kind of work on the GPU, from when it
was ordered to its end; `stages_s` the sum over candidates of each stage and `waited_s` how much of
that was neither compiling nor work on the GPU, which is waiting for one of them; `idle_s` how long
in `candidates` no work was on the GPU; `contest_parts_s` and `inspection_parts_s` those of each.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import record
from timing_kernels import HONEST, MIX, TURNS, spinning
from timing_on_gpu import built, like_unrolled, measure
from watched_search import (
    WatchedDevice,
    open_context,
    open_generator,
    profiled_functions_there,
    search,
)

from cuda_llm.agents.situation import Plan
from cuda_llm.outcomes import InfraFailed, Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.device import do_no_work
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.duel import ContestOrder, Duel, contest, contest_there
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.judge.steps import compile_baseline, compile_source, validate_there
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.measure import measure_baseline, measure_candidate
from cuda_llm.tools.timing.options import MeasureOptions, Tier

TASKS = ("vector_add", "matrix_transpose", "reduction", "histogram")
PROFILED = ("matrix_transpose", "reduction")
CANDIDATES, ROUNDS = 6, 3
PLANTED = (0.0, 0.01, 0.03)
RUN_S = 60.0
"""That have to be left for a search to begin."""
Row = dict[str, Any]


async def run_task(device: Device, name: str, seed: int = 0) -> Row:
    """Search one task; the seconds are those since this process was started."""
    import psutil

    task, device = load_task(name), cast("Device", WatchedDevice(device))
    await asyncio.to_thread(device.prepare)
    imported_s = time.time() - psutil.Process().create_time()
    plan = Plan(candidates=CANDIDATES, rounds=ROUNDS, seed=seed)
    bench, generator = open_bench(task, device, seed=seed), open_generator(task, seed)
    with tempfile.TemporaryDirectory() as folder:
        found = await search(open_context(task, device, bench, Path(folder), generator, plan))
    seconds = round(time.time() - psutil.Process().create_time(), 2)
    return {"seconds": seconds, "before_s": round(imported_s, 2), **found}


async def prepare_machine(device: Device, _name: str) -> Row:
    """Build the native parts of both devices, and judge a kernel of each task once.

    What CuPy compiles for a task is kept on disk, and the tools' files in memory.
    """
    begun = time.monotonic()
    await asyncio.to_thread(device.prepare)
    await device.carry_out(do_no_work)
    opened = time.monotonic()
    await asyncio.to_thread(EmulatedDevice(device.hardware).prepare)
    built_s = time.monotonic()
    first_s = {name: await judge_first(device, name) for name in TASKS}
    return {
        "gpu_s": round(opened - begun, 2),
        "emulated_s": round(built_s - opened, 2),
        "judged_s": first_s,
        "all_s": round(time.monotonic() - begun, 2),
    }


async def judge_first(device: Device, name: str) -> float:
    """Judge a kernel of a task, inspect that of the first one; return the seconds.

    Of kernel and baseline nothing is in our caches afterwards: both have another text.
    """
    begun, task = time.monotonic(), load_task(name)
    text = sorted((HONEST / name).glob("*.cu"))[2].read_text() + "// Once.\n"
    with tempfile.TemporaryDirectory() as folder:
        baseline = Path(folder) / "baseline.cu"
        baseline.write_text(task.baseline.read_text() + "// Once.\n")
        bench = open_bench(replace(task, baseline=baseline), device)
        await judge(bench, text, "once.cu", baseline=asyncio.ensure_future(bench.time_baseline()))
        compiled = await bench.compile(text, "once.cu")
        if isinstance(compiled, Compiled) and name == TASKS[0]:
            await bench.inspect(compiled)
    return round(time.monotonic() - begun, 2)


async def profile_task(device: Device, name: str) -> Row:
    """Profile the steps of one honest kernel in the process that holds the GPU."""
    task = load_task(name)
    file = sorted((HONEST / name).glob("*.cu"))[1]
    compiled = await compile_source(task, device, file.read_text(), file.name)
    assert isinstance(compiled, Compiled), compiled
    baseline = await compile_baseline(task, device.target)
    await device.carry_out(measure_baseline, task, baseline, MeasureOptions())
    screen, confirm = MeasureOptions(), MeasureOptions(tier=Tier.CONFIRM)
    order = ContestOrder(contenders=(compiled,), incumbent=compiled)
    works: Mapping[str, tuple[Any, ...]] = {
        "warm": (measure_candidate, task, compiled, baseline, screen),
        "validate": (validate_there, task, compiled, baseline, None),
        "screen": (measure_candidate, task, compiled, baseline, screen),
        "confirm": (measure_candidate, task, compiled, baseline, confirm),
        "contest": (contest_there, task, order, baseline),
    }
    found: Row = {"file": file.name}
    for step, work in works.items():
        begun = time.monotonic()
        functions = await device.carry_out(profiled_functions_there, *work)
        found[step] = {"seconds": round(time.monotonic() - begun, 2), "functions": functions}
    return {name: one for name, one in found.items() if name != "warm"}


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


SLOPES: dict[str, float] = {}
"""As those of `timing_on_gpu`."""


async def err(device: Device, name: str) -> Row:
    """Hold one contest of a spinning kernel with itself and with slower ones."""
    if name not in SLOPES:
        one = await measure(device, spinning(TURNS[name], name), spinning(3 * TURNS[name], name))
        SLOPES[name] = (one["second_us"] - one["first_us"]) / one["first_us"] / 2
    turns = [like_unrolled(TURNS[name], TURNS[name] * one / SLOPES[name]) for one in PLANTED]
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
    """Run what no row records yet, then put the rows together."""
    asked = parse()
    until_s = time.monotonic() + asked.limit_s
    if not asked.resume:
        asked.out.unlink(missing_ok=True)
    made = {(row["part"], row["trial"]) for row in record.read_rows(asked.out)}
    trials = [("prepare", "once")]
    trials += [(part, name) for part in ("run", "evaluate") for name in TASKS]
    trials += [("profile", name) for name in PROFILED]
    trials += [("errors", f"{MIX[k % len(MIX)]} #{k}") for k in range(asked.trials)]
    device = open_device(asked.device)
    for part, name in record.sharded(trials, asked.shard):
        least_s = RUN_S if part == "run" else 0.0
        wanted = part in (asked.part or (part,)) and name == (asked.only or name)
        if (part, name) in made or not wanted or time.monotonic() + least_s > until_s:
            continue
        if part in ("prepare", "run") and not asked.only:
            only = ["--part", part, "--only", name, "--shard", "1/1", "--resume"]
            script = [sys.executable, "-P", str(Path(__file__)), "--out", str(asked.out), *only]
            subprocess.run([*script, "--device", asked.device], check=False)
            continue
        ran: Mapping[str, Callable[[Device, str], Awaitable[Row]]] = {
            "prepare": prepare_machine,
            "run": run_task,
            "evaluate": evaluate_task,
            "profile": profile_task,
        }
        work = ran[part](device, name) if part in ran else err(device, name.partition(" #")[0])
        record.add_row(asked.out, {"part": part, "trial": name, **await work})
    if asked.summary:
        figures = {"device": device.name, **summarise(record.read_rows(asked.out))}
        print(record.write("contests_on_gpu", figures, asked.results))
        print(json.dumps({key: one for key, one in figures.items() if key != "rows"}, indent=2))


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    record.add_arguments(parser)
    parser.add_argument(
        "--part", choices=("prepare", "run", "evaluate", "profile", "errors"), action="append"
    )
    parser.add_argument("--only", default="", help="of all parts but `errors`: this task")
    parser.add_argument("--trials", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
