"""What judging an honest kernel costs on an emulated device, task by task.

    python benchmarks/validation_cost.py [--beside PYTHON] [--kernels 3] [--runs 3]

Each kernel of `tests/fixtures/honest` is judged with its baseline timed and everything compiled
before. Processor seconds of this process and all below it count, because other work on the machine
stretches the clock; those of validating and of timing are told apart. `--beside` names the Python
of another checkout, whose judge takes turns with this one: the figures are then ratios, run by run.
Bar: judging takes at most twice what it took before calls were repeated and timed sizes checked.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import record

from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.device_bench import DeviceBench, open_slots
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.measure.times import KernelTimes
from cuda_llm.tools.open_device import open_device

HONEST = Path(__file__).parents[1] / "tests/fixtures/honest"
BAR = 2.0
STAGES = ("validate", "time")


def main() -> None:
    """Measure in turns; print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", help="the Python of another checkout")
    parser.add_argument("--kernels", type=int, default=3, help="of each task")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", default="emulated")
    parser.add_argument("--task", action="append", help="only these tasks")
    parser.add_argument("--judge", type=Path, nargs="*", help="judge these once, and print")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    if arguments.judge:
        print(json.dumps(asyncio.run(judge_all(arguments.device, arguments.judge))))
        return
    pythons = {"now": sys.executable}
    if arguments.beside:
        pythons["before"] = arguments.beside
    tasks = {}
    for folder in sorted(HONEST.iterdir()):
        if arguments.task and folder.name not in arguments.task:
            continue
        files = [str(path) for path in sorted(folder.glob("*.cu"))[: arguments.kernels]]
        seconds: dict[str, list[Mapping[str, float]]] = {which: [] for which in pythons}
        for _ in range(arguments.runs):
            for which, python in pythons.items():
                seconds[which] += judge_in(python, arguments.device, files)
        tasks[folder.name] = summarise(seconds)
        print(folder.name, json.dumps(tasks[folder.name]), flush=True)
    figures = {"unit": "processor seconds a kernel", "runs": arguments.runs, "tasks": tasks}
    print(record.write("validation_cost", {**figures, "bar": BAR}, arguments.results))


def judge_in(python: str, device: str, files: list[str]) -> list[Mapping[str, float]]:
    """Return the seconds of each kernel's stages, judged by the checkout of `python`."""
    command = [python, __file__, "--device", device, "--judge", *files]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    seconds: list[Mapping[str, float]] = json.loads(printed.splitlines()[-1])
    return seconds


def summarise(seconds: Mapping[str, list[Mapping[str, float]]]) -> dict[str, Any]:
    """Return medians over runs and kernels, and how many times of `before` it is `now`."""
    medians = {
        which: {name: statistics.median(one[name] for one in every) for name in (*STAGES, "both")}
        for which, every in seconds.items()
    }
    figures: dict[str, Any] = {
        which: {name: round(value, 2) for name, value in one.items()}
        for which, one in medians.items()
    }
    if "before" in medians:
        pairs = zip(seconds["now"], seconds["before"], strict=True)
        ratios = sorted(now["both"] / before["both"] for now, before in pairs)
        figures["ratio"] = round(statistics.median(ratios), 2)
        figures["ratios"] = [round(ratios[0], 2), round(ratios[-1], 2)]
    return figures


async def judge_all(spec: str, files: list[Path]) -> list[dict[str, float]]:
    """Judge each file twice, what the first compiles left out, and return the seconds by stage."""
    task = load_task(files[0].parent.name)
    device = open_device(spec)
    bench = DeviceBench(task=task, device=device, slots=open_slots(device))
    baseline = await bench.time_baseline()
    rows = []
    for path in files:
        source = path.read_text(encoding="utf-8")
        await judge_once(bench, source, baseline)
        rows.append(await judge_once(bench, source, baseline))
    return rows


async def judge_once(bench: DeviceBench, source: str, baseline: KernelTimes) -> dict[str, float]:
    """Return the processor seconds of validating, of timing and of both."""
    began: dict[str, float] = {}

    def note(_name: str, stage: str) -> None:
        began[stage] = cpu_s()

    judged = await judge(bench, source, baseline=baseline, on_stage=note)
    assert isinstance(judged.verdict, Passed), judged.verdict
    ended = cpu_s()
    return {
        "validate": began["time"] - began["validate"],
        "time": ended - began["time"],
        "both": ended - began["validate"],
    }


def cpu_s() -> float:
    """Return the processor time of this process and all below it, alive or gone."""
    import psutil

    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    main()
