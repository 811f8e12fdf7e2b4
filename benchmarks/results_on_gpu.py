"""Times one known kernel a task on a GPU, beside baselines, libraries and plain copies.

    python benchmarks/results_on_gpu.py --out FOLDER
    python benchmarks/results_on_gpu.py --out FOLDER --winners BENCHMARK

The kernels are the points of `known_points.toml`, one of every playbook, or the winners of a
recorded benchmark. This is `cuda-llm bench` without a search: each run judges the kernel alone,
inspects the kernel and times the kernel again at the end. Writes the tables and `rows.json` into
`--out`; a later call continues there.
"""

import argparse
import asyncio
import json
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

import record

from cuda_llm.agents.playbook.generator import open_playbook
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import encode
from cuda_llm.graph.benchmark.folder import BenchmarkFolder, plan_benchmark
from cuda_llm.graph.benchmark.render import write_tables
from cuda_llm.graph.benchmark.row import TaskRow
from cuda_llm.graph.benchmark.work import work
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.resolve import resolve_config
from cuda_llm.outcomes import NoCode
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import baseline_request, compile_candidate, compile_request
from cuda_llm.tools.device import Device
from cuda_llm.tools.open_device import open_device

POINTS = Path(__file__).parent / "known_points.toml"


class KnownKernel:
    """A generator that answers the known kernel of the task, once."""

    name = "known_kernel"

    def __init__(self, kernels: Mapping[str, Draft], written_by: Author) -> None:
        """`kernels` by task."""
        self.kernels = kernels
        self.written_by: Author = written_by

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return the task's kernel."""
        return self.kernels[situation.task.name]


def known_points() -> dict[str, Draft]:
    """Return the kernel of each playbook at its known point, by task."""
    points = tomllib.loads(POINTS.read_text(encoding="utf-8"))
    return {
        name: Draft(
            source=open_playbook(load_task(name)).write(dict(point)),
            idea="the known point",
            tunables=dict(point),
        )
        for name, point in points.items()
    }


def winners(folder: Path) -> dict[str, Draft]:
    """Return the winner of each run of a benchmark, by task."""
    found = sorted(folder.glob("runs/*/best/solve.cu"))
    return {
        one.parents[1].name: Draft(source=one.read_text(encoding="utf-8"), idea="the winner")
        for one in found
    }


def main() -> None:
    """Judge the kernels until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    record.add_arguments(parser)
    parser.add_argument("--winners", type=Path, help="folder of a recorded benchmark")
    parser.add_argument("tasks", nargs="*")
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    recorded: Path | None = arguments.winners
    kernels = known_points() if recorded is None else winners(recorded)
    generator = KnownKernel(kernels, "playbook" if recorded is None else "model")
    tasks = record.sharded(arguments.tasks or sorted(kernels), arguments.shard)
    asyncio.run(measure(tasks, generator, open_device(arguments.device), arguments.out, deadline))


async def measure(
    tasks: list[str],
    generator: KnownKernel,
    device: Device,
    out: Path,
    deadline: float,
) -> None:
    """Compile everything first, then run the tasks in turn; rewrite the tables after each."""
    await compile_all(tasks, generator, device)
    folder = BenchmarkFolder(out.absolute() / "results")
    if (folder.path / "bench.json").exists():
        plan = folder.read_plan()
    else:
        request = RunConfig(task=tasks[0], candidates=1, rounds=1, tune=0)
        plan = plan_benchmark(resolve_config(request), {one: one for one in tasks}, device)
        folder.write_plan(plan)
    rows: dict[str, TaskRow] = {}

    def keep(name: str, row: TaskRow) -> None:
        folder.write_row(name, row)
        rows[name] = row
        found = folder.rows(plan)
        write_tables(folder, plan, found)
        (out / "rows.json").write_text(json.dumps([encode(one) for one in found]))
        us = [one.best_us and round(one.best_us, 2) for one in row.sizes]
        over = [one.over_library and round(one.over_library, 2) for one in row.sizes]
        print(f"{left_s(deadline):4.0f} s left: {name} {row.state} {row.error[:200]}", flush=True)
        print(f"      {row.verdicts} {row.speedup} {us} library/ours {over}", flush=True)

    brought = Parts(generator=generator)
    working = asyncio.ensure_future(
        work(folder, plan, device, keep, brought=brought, report=lambda _: None)
    )
    done, _ = await asyncio.wait([working], timeout=left_s(deadline))
    if not done:
        working.cancel()
    await asyncio.gather(working, return_exceptions=not done)


def left_s(deadline: float) -> float:
    """Return the seconds until the deadline."""
    return max(0.0, deadline - time.monotonic())


async def compile_all(tasks: list[str], generator: KnownKernel, device: Device) -> None:
    """Fill the cache, so that no core compiles while a GPU waits."""
    requests = []
    for task in map(load_task, tasks):
        requests.append(baseline_request(task, device.hardware.target))
        sources = {"source.cu": generator.kernels[task.name].source}
        sources |= {
            one.name: one.read_text(encoding="utf-8")
            for one in task.libraries
            if one.suffix == ".cu"
        }
        requests += [
            compile_request(task, device.hardware.target, text, name)
            for name, text in sources.items()
        ]
    cores = asyncio.Semaphore(16)

    async def compile_one(number: int) -> None:
        async with cores:
            await compile_candidate(requests[number])

    await asyncio.gather(*map(compile_one, range(len(requests))))
    print(f"compiled {len(requests)} sources", flush=True)


if __name__ == "__main__":
    main()
