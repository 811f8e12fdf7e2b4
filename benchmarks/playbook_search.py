"""How soon the playbook generator finds a kernel near the best of all, against random search.

    python benchmarks/playbook_search.py sweep matrix_transpose --shard 1/2 --limit-s 600
    python benchmarks/playbook_search.py replay

`sweep` judges every kernel that a playbook can write: what a search could find at best. Each kernel
is a line in a file of its shard the moment it is judged: a stopped sweep goes on where it was. When
no kernel is left, `results/playbook_TASK.json` is written. Equal kernels are judged once.

`replay` searches the recorded sweeps: no device is needed, and the times may be modelled or
measured. A playbook that was changed since lies in `swept_playbooks/`: delete it to sweep anew. The
real generator gets the hint of the deterministic reflection, the incumbent's dominating bottleneck.
Bars: over 20 seeds the median search comes within 5 % of the sweep's best in at most a third of its
kernels, sooner than random search.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
from recorded_tasks import as_swept

from cuda_llm.agents.kernel_text.outline import normal_sha
from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.playbook.kernels import valid_points
from cuda_llm.agents.situation import Plan, Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode, Passed, Verdict
from cuda_llm.search import Attempt, Brief, Draft, Hint, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device
from cuda_llm.verdict_wording import describe

Row = dict[str, Any]


def sweep_main() -> None:
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
    shard_file = sweep_folder(task, device) / f"{arguments.shard.replace('/', 'of')}.jsonl"
    todo = {sha: kernels[sha] for sha in left}
    asyncio.run(sweep(task, device, todo, shard_file, arguments.jobs, deadline))
    rows = read_rows(task, device)
    if all(sha in rows for sha in kernels):
        print(write_result(task, device, [rows[sha] for sha in kernels]))


def distinct_kernels(task: Task) -> Iterator[tuple[str, tuple[dict[str, int], str]]]:
    """Yield hash, first point and source of each kernel the playbook can write."""
    assert task.playbook, f"{task.name} has no playbook"
    source = task.playbook.read_text()
    space = read_space(source)
    assert isinstance(space, Space), f"{task.playbook}: {space}"
    seen = set()
    for point in valid_points(space):
        text = write_point(source, point)
        sha = normal_sha(text)
        if sha not in seen:
            seen.add(sha)
            yield sha, (point, text)


async def sweep(
    task: Task,
    device: Device,
    kernels: Mapping[str, tuple[dict[str, int], str]],
    shard_file: Path,
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
            with shard_file.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['code']} {row['speedup']} {point}", flush=True)

    await baseline
    await asyncio.gather(*(work() for _ in range(jobs)))


def to_row(sha: str, point: Mapping[str, int], verdict: Verdict) -> Row:
    """Return what a search learns of one judged kernel."""
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
    """Return the folder with the shards of this sweep."""
    name = "".join(letter if letter.isalnum() else "-" for letter in device.name)
    return cache_folder(f"sweeps/{task.name}/{name}")


def read_rows(task: Task, device: Device) -> dict[str, Row]:
    """Read the kernels judged so far, by hash."""
    files = sweep_folder(task, device).glob("*.jsonl")
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {row["sha"]: row for row in rows}


def write_result(task: Task, device: Device, rows: list[Row]) -> Path:
    """Write the whole sweep as one file."""
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


NEAR = 0.95
CANDIDATES = 5


@dataclass(frozen=True)
class Sweep:
    """Every kernel of one playbook, judged."""

    task: Task
    device: str
    hardware: Hardware
    capabilities: Capabilities
    rows: Mapping[str, Row]
    """By hash."""

    @property
    def goal(self) -> float:
        """Return the speed-up to reach."""
        return NEAR * max(row["speedup"] or 0.0 for row in self.rows.values())


class NoArchive:
    """The playbook generator reads no source of earlier attempts."""

    def source(self, attempt: str) -> str:
        return ""

    def verdict(self, attempt: str) -> Verdict:
        return NoCode(message=attempt)


def replay_main() -> None:
    """Search each recorded playbook, print and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", type=Path, help="default: all that are recorded")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    paths = arguments.sweeps or sorted(
        path for path in record.RESULTS.glob("playbook_*.json") if path.stem != "playbook_search"
    )
    figures = {}
    for path in paths:
        sweep = read_sweep(path)
        figures[sweep.task.name] = measure(sweep, arguments.seeds)
        print(sweep.task.name, json.dumps(figures[sweep.task.name]), flush=True)
    print(record.write("playbook_search", {"near": NEAR, "tasks": figures}, arguments.results))


def read_sweep(path: Path) -> Sweep:
    """Read one recorded sweep."""
    data = json.loads(path.read_text())
    rows = {row["sha"]: row for row in data["rows"]}
    task, hardware = as_swept(load_task(data["task"])), find_hardware(data["hardware"])
    able = Capabilities(full_isa=data["time_source"] == "measured")
    return Sweep(task, data["device"], hardware, able, rows)


def measure(sweep: Sweep, seeds: int) -> dict[str, Any]:
    """Count the kernels judged until one was near the best, for both kinds of search."""
    generator = PlaybookGenerator(sweep.task)
    searched = sorted(search(sweep, generator, seed) for seed in range(seeds))
    drawn = sorted(search_at_random(sweep, seed) for seed in range(10 * seeds))
    speedups = sorted(row["speedup"] or 0.0 for row in sweep.rows.values())
    return {
        "kernels": len(speedups),
        "best_speedup": round(speedups[-1], 3),
        "worst_speedup": round(next(one for one in speedups if one), 3),
        "near_the_best": sum(one >= sweep.goal for one in speedups),
        "searched": {"median": statistics.median(searched), "all": searched},
        "random": {"median": statistics.median(drawn), "seeds": len(drawn)},
    }


def search(sweep: Sweep, generator: PlaybookGenerator, seed: int) -> int:
    """Count the kernels that the generator needed."""
    attempts = list[Attempt]()
    while True:
        where = situation(sweep, seed, attempts)
        drafts = asyncio.run(ask_round(generator, where))
        if not drafts:
            msg = (
                f"{sweep.task.name}: the sweep holds kernels that the playbook does not; sweep anew"
            )
            raise SystemExit(msg)
        for index, draft in enumerate(drafts, 1):
            attempts.append(judged(sweep, draft, where.round, index))
            if (attempts[-1].speedup or 0.0) >= sweep.goal:
                return len(attempts)


def search_at_random(sweep: Sweep, seed: int) -> int:
    """Count the kernels that drawing without return needed."""
    speedups = [row["speedup"] or 0.0 for row in sweep.rows.values()]
    random.Random(seed).shuffle(speedups)
    return next(index for index, one in enumerate(speedups, 1) if one >= sweep.goal)


async def ask_round(generator: PlaybookGenerator, where: Situation) -> list[Draft]:
    """Return the kernels of one round; fewer where the playbook is used up."""
    briefs = [
        Brief(id=f"r{where.round}-c{index}", round=where.round, index=index, kind=Kind.IMPROVE)
        for index in range(1, CANDIDATES + 1)
    ]
    answers = await asyncio.gather(*(generator.generate(one, where) for one in briefs))
    return [one for one in answers if isinstance(one, Draft)]


def judged(sweep: Sweep, draft: Draft, round_: int, index: int) -> Attempt:
    """Look up a kernel in the sweep. Raises SystemExit where the playbook has changed since."""
    sha = normal_sha(draft.source)
    if sha not in sweep.rows:
        msg = f"{sweep.task.name}: the sweep lacks a kernel of the playbook; sweep anew"
        raise SystemExit(msg)
    row = sweep.rows[sha]
    return Attempt(
        id=f"r{round_}-c{index}",
        round=round_,
        index=index,
        kind=Kind.IMPROVE,
        written_by="playbook",
        normal_sha=sha,
        tunables=draft.tunables,
        code=row["code"],
        speedup=row["speedup"],
        limited_by=row["limited_by"],
    )


def situation(sweep: Sweep, seed: int, attempts: Sequence[Attempt]) -> Situation:
    """Return the search after `attempts`, with a hint on what limits the fastest."""
    best = max(
        (one for one in attempts if one.speedup), key=lambda one: one.speedup or 0.0, default=None
    )
    hints: tuple[Hint, ...] = ()
    if best and best.limited_by:
        hints = (Hint(round=attempts[-1].round, about=best.id, code=best.limited_by, text=""),)
    return Situation(
        task=sweep.task,
        hardware=sweep.hardware,
        device=sweep.device,
        capabilities=sweep.capabilities,
        plan=Plan(candidates=CANDIDATES, seed=seed),
        round=attempts[-1].round + 1 if attempts else 1,
        attempts=tuple(attempts),
        incumbent=best,
        performance_hints=hints,
        archive=NoArchive(),
    )


if __name__ == "__main__":
    record.dispatch({"sweep": sweep_main, "replay": replay_main})
