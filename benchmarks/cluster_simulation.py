"""What the orchestrator takes for 10, 100 and 1,000 workers that answer as recorded, simulated.

    python benchmarks/cluster_simulation.py all | record
    python benchmarks/cluster_simulation.py bench | runs [--workers N] [--profile FILE]

A discrete-event run over the product's own code: `DeviceGroup`, `DeviceBench`, its slots and tries,
and whole LangGraph runs. Only what waits is simulated: workers (`simulated_workers.py`), nvcc, the
chat model, and the clock (`virtual_clock.py`). Processor time and memory are real, disk included.

`bench`: candidates are judged in a closed loop, three for each worker at once, so that every worker
always has something to do. `runs`: a run of eight candidates a round for every eight workers; a
model writes each kernel in 45 s at the median (an assumption: log-normal, sigma 0.4), so that about
as many candidates are under way as there are workers. `all` does both at every number of workers,
each in a process of its own, and writes `cluster_simulation.json`. `record` judges the kernels
anew whose answers and times the workers give. Bar at 1,000 workers: <= 1 core and <= 2 GiB.
"""

import argparse
import asyncio
import cProfile
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import record
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from recorded_works import NAME, RecordedWorks, number_source, read_works, record_works
from simulated_workers import Losses, SimulatedCluster
from simulation_meter import Meter, Reading
from virtual_clock import run_virtual

from cuda_llm.graph.request import Overrides, RunRequest
from cuda_llm.graph.runs.start import start
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.judge.steps import time_baseline
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.events import AttemptJudged, Event
from cuda_llm.traces.run_folder import RunFolder

SCALES = (10, 100, 1000)
BARS = {"cores": 1.0, "peak_rss_mib": 2048}
AT_ONCE = 3
"""Candidates under way for each worker, in a closed loop."""
CANDIDATES, ROUNDS = 8, 3
MEDIAN_S, SIGMA = 45.0, 0.4
"""Of the seconds that a model takes for a kernel."""
STAGGER_S = 60.0
"""In which all runs begin."""
LOSS = 0.001
"""Share of works during which the worker is lost; another stands in its place a minute later."""


def open_cluster(workers: int, works: RecordedWorks, seed: int, losses: Losses) -> SimulatedCluster:
    """Return a cluster; what is made once for a task is made before: its baseline is built, timed.

    That needs nvcc, a process that the simulated clock would not wait for.
    """
    for name in works.kernels:
        one = SimulatedCluster(count=1, works=works)
        asyncio.run(time_baseline(load_task(name), one.group.pinned()))
    return SimulatedCluster(count=workers, works=works, seed=seed, losses=losses)


def simulate_bench(
    workers: int, *, per_worker: int = 20, seed: int = 0, losses: Losses | None = None
) -> dict[str, Any]:
    """Judge as many candidates for each worker in a closed loop; return the figures.

    They are of the time while all workers have work: from when as many candidates are judged as are
    under way, until the last ones begin.
    """
    cluster = open_cluster(workers, read_works(), seed, losses or Losses(share=LOSS))
    return run_virtual(judge_all(cluster, workers * per_worker, seed))


async def judge_all(cluster: SimulatedCluster, total: int, seed: int) -> dict[str, Any]:
    """Judge so many candidates."""
    meter, under_way = Meter(cluster), AT_ONCE * cluster.count
    benches = {name: cluster.bench(load_task(name), seed) for name in cluster.works.kernels}
    baselines = {name: await bench.time_baseline() for name, bench in benches.items()}
    every = [one for kernels in cluster.works.kernels.values() for one in kernels]
    chance, numbers = random.Random(seed), iter(range(total))
    marks: dict[int, Reading] = {}

    async def work() -> None:
        for number in numbers:
            kernel = chance.choice(every)
            meter.expected[f"{number}"] = kernel.code or "PASSED"
            judged = await judge(
                benches[kernel.task],
                number_source(kernel.source, number),
                baseline=baselines[kernel.task],
            )
            meter.add(f"{number}", judged.verdict.code)
            if len(meter.verdicts) in (under_way, total - under_way):
                marks[len(meter.verdicts)] = meter.read()

    async with meter.watching():
        await asyncio.gather(*(work() for _ in range(under_way)))
    repeated = sum(count - 1 for count in cluster.done.values())
    figures = meter.figures(marks[under_way], marks[total - under_way])
    return {"workers": cluster.count, **figures, "works_answered_twice": repeated}


class SimulatedModel(BaseChatModel):
    """A chat model that writes recorded kernels, each a new one, after its time."""

    works: Any
    task: str
    seed: int
    written: int = 0

    @property
    def _llm_type(self) -> str:
        return "simulated"

    def _generate(self, *_arguments: Any, **_named: Any) -> ChatResult:
        raise NotImplementedError("it is awaited")

    async def _agenerate(
        self, messages: list[BaseMessage], *_arguments: Any, **_named: Any
    ) -> ChatResult:
        self.written += 1
        number, chance = self.written, random.Random(f"{self.seed}/{self.written}")
        await asyncio.sleep(MEDIAN_S * chance.lognormvariate(0.0, SIGMA))
        kernel = chance.choice(self.works.kernels[self.task])
        text = f"As before.\n\n```cuda\n{number_source(kernel.source, number)}```\n"
        usage = {"input_tokens": 4000, "output_tokens": 1500, "total_tokens": 5500}
        message = AIMessage(content=text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


def simulate_runs(
    workers: int, *, rounds: int = ROUNDS, seed: int = 0, losses: Losses | None = None
) -> dict[str, Any]:
    """Make a run for every eight workers, all under way together; return the figures."""
    cluster = open_cluster(workers, read_works(), seed, losses or Losses(share=LOSS))
    with tempfile.TemporaryDirectory() as out:
        return run_virtual(run_all(cluster, rounds, seed, Path(out)))


async def run_all(cluster: SimulatedCluster, rounds: int, seed: int, out: Path) -> dict[str, Any]:
    """Make the runs."""
    meter, count = Meter(cluster), max(1, cluster.count // CANDIDATES)
    names = sorted(cluster.works.kernels)
    reasons: Counter[str] = Counter()

    async def follow(number: int) -> None:
        """Begin another run where one ends early: all are under way until the end."""
        await asyncio.sleep(STAGGER_S * number / count)
        judged = again = 0
        while judged < rounds * CANDIDATES:
            judged += await run(number + again * count)
            again += 1

    async def run(number: int) -> int:
        task = names[number % len(names)]
        folder = RunFolder(out / f"run-{number}")

        def observe(event: Event) -> None:
            if isinstance(event, AttemptJudged):
                name = event.attempt.id
                kernel = cluster.works.find(task, folder.source(name).strip("\n"))
                meter.expected[f"{number}/{name}"] = kernel.code or "PASSED"
                meter.add(f"{number}/{name}", event.attempt.code)

        request = RunRequest(
            task=task,
            candidates=CANDIDATES,
            rounds=rounds,
            tune=0,
            seed=number,
            out=f"{out}",
            run_id=folder.name,
        )
        own_seed = seed * 1_000_003 + number
        overrides = Overrides(
            device=cluster.group,
            bench=cluster.bench(load_task(task), own_seed),
            model=SimulatedModel(works=cluster.works, task=task, seed=own_seed),
        )
        result = await start(request, overrides=overrides, observers=[observe])
        reasons["rounds" if result.reason == "rounds" else "as fast as the hardware"] += 1
        for name in folder.candidates():
            meter.expected.setdefault(f"{number}/{name}", "PASSED")
        return len(result.attempts)

    begin = meter.read()
    async with meter.watching():
        await asyncio.gather(*map(follow, range(count)))
    figures = meter.figures(begin, meter.read())
    return {"workers": cluster.count, "runs": count, "reasons": dict(reasons), **figures}


WORKLOADS: Mapping[str, Any] = {"bench": simulate_bench, "runs": simulate_runs}


def simulate_one(workload: str) -> None:
    """Simulate one number of workers in this process; print the figures as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--losses", type=float, default=LOSS, help="share of works")
    parser.add_argument("--profile", type=Path, help="file for cProfile's statistics")
    asked = parser.parse_args()
    profile = cProfile.Profile() if asked.profile else None
    losses, began_s = Losses(share=asked.losses), time.monotonic()
    simulate = WORKLOADS[workload]
    if profile is not None:
        profile.enable()
    figures = simulate(asked.workers, seed=asked.seed, losses=losses)
    if profile is not None:
        profile.disable()
        profile.dump_stats(asked.profile)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall_s = time.monotonic() - began_s
    print(json.dumps({**figures, "peak_rss_mib": round(peak_mib), "wall_s": round(wall_s, 1)}))


def simulate_all() -> None:
    """Simulate both workloads at every scale, each in a fresh process; print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in WORKLOADS}
    for name in WORKLOADS:
        for workers in SCALES:
            command = [sys.executable, __file__, name, "--workers", f"{workers}"]
            line = subprocess.check_output(command, text=True).splitlines()[-1]
            print(name, line, flush=True)
            found[name].append({**json.loads(line), "load": round(os.getloadavg()[0], 1)})
    settings = {
        "candidates_under_way_a_worker": AT_ONCE,
        "candidates_a_round": CANDIDATES,
        "rounds": ROUNDS,
        "model_median_s": MEDIAN_S,
        "model_sigma": SIGMA,
        "works_that_lose_their_worker": LOSS,
        "workers_are_away_s": Losses().away_s,
    }
    figures = {"settings": settings, **found, "bars": BARS}
    print(record.write("cluster_simulation", figures, arguments.results))


def record_all() -> None:
    """Record what workers answer, and how long they take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    told = asyncio.run(record_works(open_device("emulated"), arguments.repeats))
    print(record.write(NAME, told, arguments.results))


if __name__ == "__main__":
    record.dispatch(
        {
            "all": simulate_all,
            "bench": lambda: simulate_one("bench"),
            "runs": lambda: simulate_one("runs"),
            "record": record_all,
        }
    )
