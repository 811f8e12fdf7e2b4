"""Latency of commands, and of what a candidate costs the graph.

    python benchmarks/latency.py evaluate | run | graph

`evaluate`: how long `cuda-llm evaluate` of one small kernel takes, and how much of it is ours. Each
run judges a kernel that was never compiled before (a comment makes it new), so nvcc and g++ run;
then the same file again, when both come from the cache. Bars on 2 cores with warm caches of our own
parts: <= 4 s end to end, <= 1 s of it ours.

`run`: how long `cuda-llm run histogram` takes on the emulated device with the playbook, five rounds
of five. Native parts are built beforehand; nothing else is in the cache. Bar on 2 idle cores:
<= 60 s. Processor time is recorded beside it, because a busy machine stretches the clock.

`graph`: what a candidate costs beside model, compiler and device: graph, state, trace, checkpoint.
A whole run with a generator and a bench that answer at once. Runs of one and of five rounds of
eight are compared, so that what a run costs once does not count. Bar: <= 20 ms a candidate.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record

from cuda_llm.agents.situation import Situation
from cuda_llm.graph.request import Overrides, RunRequest
from cuda_llm.graph.runs.start import start
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile, SizeTime
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

BASELINE = (record.ROOT / "tasks/vector_add/baseline.cu").read_text()


def evaluate(path: Path) -> float:
    """Return the seconds that one command takes."""
    command = [sys.executable, "-m", "cuda_llm", "evaluate", "vector_add", str(path), "--json"]
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - started


def time_evaluate() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit-s", type=float, default=120)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    new, again = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cu"
        path.write_text(BASELINE)
        evaluate(path)
        for run in range(arguments.runs):
            if time.monotonic() > deadline:
                break
            path.write_text(f"// run {run} at {time.time_ns()}\n{BASELINE}")
            new.append(evaluate(path))
            again.append(evaluate(path))
    spreads = {"end_to_end": spread(new), "own": spread(again)}
    for name, one in spreads.items():
        print(f"{name:11} median {one['median']:.2f} s  {one}")
    bars = {"end_to_end": 4.0, "own": 1.0}
    figures = {"unit": "s", "runs": len(new), **spreads, "bars": bars}
    print(record.write("evaluate_latency", figures, arguments.results))


def spread(seconds: list[float]) -> dict[str, float]:
    """Return median and range."""
    return {
        "median": round(statistics.median(seconds), 3),
        "min": round(min(seconds), 3),
        "max": round(max(seconds), 3),
    }


BAR_S = 60.0
NATIVE = "native"
"""What of the cache is part of set-up."""


def prepare(cache: Path) -> None:
    """Build the native parts."""
    run_command(
        "evaluate", "vector_add", str(record.ROOT / "tasks/vector_add/baseline.cu"), cache=cache
    )


def measure_run(task: str, seed: int, cache: Path) -> dict[str, Any]:
    """Measure one run with nothing but native parts in the cache."""
    for folder in cache.iterdir():
        if folder.name != NATIVE:
            shutil.rmtree(folder)
    with tempfile.TemporaryDirectory() as out:
        cpu_before_s, started = cpu_s(), time.monotonic()
        options = ("--generator", "playbook", "--seed", str(seed), "--out", out, "--json")
        document = json.loads(run_command("run", task, *options, cache=cache))
        wall_s = time.monotonic() - started
    return {
        "seed": seed,
        "wall_s": round(wall_s, 2),
        "cpu_s": round(cpu_s() - cpu_before_s, 2),
        "load": round(os.getloadavg()[0], 1),
        "speedup": document["best"] and round(document["best"]["speedup"], 2),
        "candidates": sum(len(one["candidates"]) for one in document["rounds"]),
        "seconds": document["seconds"],
    }


def run_command(*command: str, cache: Path) -> str:
    """Return what one command prints."""
    env = {**os.environ, "CUDA_LLM_CACHE": str(cache)}
    whole = [sys.executable, "-m", "cuda_llm", *command]
    return subprocess.run(whole, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_s() -> float:
    """Return the processor time of all commands so far and of their children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def time_run() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="histogram")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        prepare(cache)
        runs = [measure_run(arguments.task, seed, cache) for seed in range(arguments.runs)]
    for one in runs:
        print(one)
    figures = {
        "unit": "s",
        "task": arguments.task,
        "median_wall_s": statistics.median(one["wall_s"] for one in runs),
        "median_cpu_s": statistics.median(one["cpu_s"] for one in runs),
        "bar_wall_s": BAR_S,
        "runs": runs,
    }
    print(record.write("run_latency", figures, arguments.results))


CANDIDATES, SHORT, LONG = 8, 1, 5
MATMUL = (record.ROOT / "benchmarks/kernels/matmul_tiled.cu").read_text(encoding="utf-8")
BAR_MS = 20.0
NOWHERE = Path("nowhere")


@dataclass(frozen=True)
class AtOnce:
    """A generator and a bench that take no time."""

    name: str = "at_once"
    written_by: Author = "human"

    async def generate(self, brief: Brief, situation: Situation) -> Draft:
        """Return a kernel of ordinary length, new each time."""
        return Draft(source=f"{MATMUL}\n__constant__ int number_{brief.round}_{brief.index};\n")

    async def time_baseline(self) -> KernelTimes:
        """See `Bench`, as below."""
        return KernelTimes(times=(({"n": 1024}, 100.0),), launches=(), bottlenecks=())

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        return Compiled(
            key="",
            name=name,
            source=source,
            target="sm_86",
            library=NOWHERE,
            ptx=NOWHERE,
            kernels=(),
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        return Validated(checked={"sizes": 11, "hidden": 4})

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        size = SizeTime(dims={"n": 1024}, time_us=50.0, baseline_us=100.0, source="modelled")
        return Passed(
            profile=Profile(
                device="none", hardware="none", source="modelled", sizes=(size,), speedup=2.0
            )
        )

    def with_fresh_inputs(self) -> Bench:
        return self


async def run_graph(rounds: int, out: str) -> tuple[float, float, int]:
    """Return wall and processor seconds of one run, and the bytes of its checkpoint."""
    request = RunRequest(
        task="vector_add", device="emulated", candidates=CANDIDATES, rounds=rounds, out=out, tune=0
    )
    parts = AtOnce()
    wall, cpu = time.perf_counter(), time.process_time()
    result = await start(request, overrides=Overrides(generator=parts, bench=parts))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert len(result.attempts) == rounds * CANDIDATES, result.reason
    return wall, cpu, (result.run_dir / "checkpoint.sqlite").stat().st_size


def time_graph() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    runs = arguments.runs
    more = (LONG - SHORT) * CANDIDATES
    wall_ms, cpu_ms, size = [], [], 0
    with tempfile.TemporaryDirectory() as out:
        asyncio.run(run_graph(SHORT, out))
        for _ in range(runs):
            short_wall, short_cpu, _ = asyncio.run(run_graph(SHORT, out))
            long_wall, long_cpu, size = asyncio.run(run_graph(LONG, out))
            wall_ms.append(1e3 * (long_wall - short_wall) / more)
            cpu_ms.append(1e3 * (long_cpu - short_cpu) / more)
    figures = {
        "unit": "ms a candidate",
        "candidates": CANDIDATES,
        "runs": runs,
        "wall": round(statistics.median(wall_ms), 2),
        "wall_least": round(min(wall_ms), 2),
        "cpu": round(statistics.median(cpu_ms), 2),
        "checkpoint_bytes": size,
        "bar": BAR_MS,
    }
    print(figures)
    print(record.write("graph_overhead", figures, arguments.results))


if __name__ == "__main__":
    record.dispatch({"evaluate": time_evaluate, "run": time_run, "graph": time_graph})
