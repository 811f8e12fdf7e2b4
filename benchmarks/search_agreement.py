"""Does a search on the emulated device end with a kernel that is fast on the GPU?

    python benchmarks/search_agreement.py search --device emulated:H200 --limit-s 1200
    python benchmarks/search_agreement.py search --device cuda:0 --limit-s 480
    python benchmarks/search_agreement.py model --limit-s 1200
    python benchmarks/search_agreement.py compare

`search` searches the playbook of every task at its `bench` sizes, with the real generator and the
hint that the deterministic reflection would give. Each kernel is a line of the file of its task and
device the moment it is judged: a search may be stopped at any time and goes on where it was, and
`--shard` takes some of the tasks. A search on a GPU judges the winner of the recorded emulated
search, too. When every task is done, `results/search_modelled.json` or `search_measured.json` is
written; `model` models what the search on the GPU measured: kernels on which nothing was tuned, at
all `bench` sizes. `compare` reads all: how much faster than the emulated winner the measured one
is, both on the GPU, and how often pairs of measured kernels are put in the right order.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import record
from playbook_search import CANDIDATES, Row, Sweep, ask_round, judged, situation, to_row
from rank_agreement import agreement
from recorded_tasks import RECORDED_TASKS

from cuda_llm.agents.kernel_text.outline import normal_sha
from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.tunables.space import Point
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.search import Attempt
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device

SEED = 1
ROUNDS = 6
RESULTS = {"modelled": "search_modelled", "measured": "search_measured"}
MOST_SLOWER = 1.25
LEAST_APART = 0.05
"""Of two measured scores whose order is asked for."""


def main() -> None:
    """Search one shard of the tasks; write the result when all tasks are searched."""
    parser = _parser_of_shards()
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of {CANDIDATES} kernels each")
    arguments = parser.parse_args()
    deadline, device = _open(arguments)
    source = device.capabilities.time_source
    folder = arguments.lines or cache_folder(f"searches/{source}")
    folder.mkdir(parents=True, exist_ok=True)
    emulated = read_winners(record.RESULTS) if source == "measured" else {}
    for name in record.sharded(RECORDED_TASKS, arguments.shard):
        rows = search_task(
            load_task(name),
            device,
            folder / f"{name}.jsonl",
            rounds=arguments.rounds,
            deadline=deadline,
            also=emulated.get(name),
        )
        if rows is None:
            print(f"{name}: out of time")
            return
        (folder / f"{name}.json").write_text(json.dumps(rows))
    done = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    if set(done) == set(RECORDED_TASKS):
        hardware = {"device": device.name, "hardware": device.hardware.name}
        content = {"seed": SEED, "rounds": arguments.rounds, **hardware, "tasks": done}
        print(record.write(RESULTS[source], content, arguments.results))


def model_main() -> None:
    """Model what was measured of one shard of the tasks; write the result when all are modelled."""
    arguments = _parser_of_shards().parse_args()
    deadline, device = _open(arguments)
    folder = arguments.lines or cache_folder("searches/modelled")
    measured = read_tasks(arguments.results / f"{RESULTS['measured']}.json")
    for name in record.sharded(list(measured), arguments.shard):
        points = [row["point"] for row in measured_rows(measured[name])]
        rows = model_points(load_task(name), device, folder / f"{name}.jsonl", deadline, points)
        if rows is None:
            print(f"{name}: out of time")
            return
        (folder / f"{name}.measured").write_text(json.dumps(rows))
    done = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.measured")}
    if set(done) == set(measured):
        content = {"device": device.name, "hardware": device.hardware.name, "tasks": done}
        print(record.write("search_points_modelled", content, arguments.results))


def _parser_of_shards() -> argparse.ArgumentParser:
    """Return a parser of what a shard of the tasks needs, on whichever device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="emulated:H200")
    parser.add_argument("--shard", default="1/1", help="which of how many, from 1")
    parser.add_argument("--limit-s", type=float, default=600)
    parser.add_argument("--lines", type=Path, help="folder of the lines; default: in the cache")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    return parser


def _open(arguments: argparse.Namespace) -> tuple[float, Device]:
    """Return when to stop, and the device, which is ready."""
    deadline = time.monotonic() + arguments.limit_s
    device = open_device(arguments.device)
    device.prepare()
    return deadline, device


def measured_rows(found: Mapping[str, Any]) -> list[Row]:
    """Return each kernel that was measured, once."""
    rows = [*found["tried"], found["emulated_winner"]]
    return list({row["sha"]: row for row in rows}.values())


def model_points(
    task: Task, device: Device, lines: Path, deadline: float, points: Sequence[Point]
) -> list[Row] | None:
    """Return the row of each point on this device; None where the time is over first."""
    search = _Search(task, device, lines, deadline)
    return asyncio.run(search.judge_points(points))


def search_task(
    task: Task, device: Device, lines: Path, *, rounds: int, deadline: float, also: Point | None
) -> dict[str, Row | list[Row]] | None:
    """Search the task's playbook, and judge the point `also`; None where the time is over first."""
    return asyncio.run(_Search(task, device, lines, deadline).run(rounds, also))


class _Search:
    """One search on one device, and the kernels judged so far, by hash."""

    def __init__(self, task: Task, device: Device, lines: Path, deadline: float) -> None:
        self._task, self._lines, self._deadline = task, lines, deadline
        self._bench = open_bench(task, device)
        self._rows: dict[str, Row] = {row["sha"]: row for row in record.read_rows(lines)}
        self._sweep = Sweep(task, device.name, device.hardware, device.capabilities, self._rows)

    async def run(self, rounds: int, also: Point | None) -> dict[str, Row | list[Row]] | None:
        generator = PlaybookGenerator(self._task)
        attempts: list[Attempt] = []
        for number in range(1, rounds + 1):
            drafts = await ask_round(generator, situation(self._sweep, SEED, attempts))
            points = {draft.source: draft.tunables or {} for draft in drafts}
            if not await self._judge_all(points):
                return None
            attempts += [
                judged(self._sweep, draft, number, index) for index, draft in enumerate(drafts, 1)
            ]
        tried = [self._rows[one.normal_sha] for one in attempts]
        found: dict[str, Row | list[Row]] = {"winner": winner_of(tried), "tried": tried}
        if also is not None:
            judged_also = await self.judge_points([also])
            if judged_also is None:
                return None
            (found["emulated_winner"],) = judged_also
        return found

    async def judge_points(self, points: Sequence[Point]) -> list[Row] | None:
        """Judge the kernels of these points; None if out of time."""
        assert self._task.playbook is not None
        playbook = self._task.playbook.read_text()
        sources = {write_point(playbook, point): point for point in points}
        if not await self._judge_all(sources):
            return None
        return [self._rows[normal_sha(source)] for source in sources]

    async def _judge_all(self, points: Mapping[str, Point]) -> bool:
        """Judge the kernels that have no row yet, compiled side by side; False if out of time."""
        left = {text: at for text, at in points.items() if normal_sha(text) not in self._rows}
        if not left:
            return True
        baseline = asyncio.ensure_future(self._bench.time_baseline())
        await asyncio.gather(baseline, *(self._bench.compile(text, "k.cu") for text in left))
        for source, point in left.items():
            if time.monotonic() > self._deadline:
                return False
            verdict = (await judge(self._bench, source, "k.cu", baseline=baseline)).verdict
            row = to_row(normal_sha(source), point, verdict)
            self._rows[row["sha"]] = row
            record.add_row(self._lines, row)
        return True


def winner_of(rows: Sequence[Row]) -> Row:
    """Return the row of the largest speed-up. Raises SystemExit where no kernel passed."""
    passed = [row for row in rows if row["speedup"]]
    if not passed:
        raise SystemExit("no kernel of the playbook passed")
    return max(passed, key=lambda row: row["speedup"])


def read_winners(results: Path) -> dict[str, Point]:
    """Return the point that won the recorded emulated search of each task; none without one."""
    path = results / f"{RESULTS['modelled']}.json"
    if not path.exists():
        return {}
    return {name: one["winner"]["point"] for name, one in read_tasks(path).items()}


def read_tasks(path: Path) -> dict[str, Any]:
    """Return what was found of each task."""
    tasks: dict[str, Any] = json.loads(path.read_text())["tasks"]
    return tasks


def compare_main() -> None:
    """Print by task what both searches found, all of it measured, and how well pairs agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    results = parser.parse_args().results
    measured = read_tasks(results / f"{RESULTS['measured']}.json")
    modelled = read_tasks(results / "search_points_modelled.json")
    for name, one in measured.items():
        slower = how_much_slower(one)
        said = "" if slower <= MOST_SLOWER else f"  more than {MOST_SLOWER}"
        print(f"{name:24} {slower:.3f}{said}  {points_agreement(one, modelled[name])}")


def points_agreement(found: Mapping[str, Any], modelled: Sequence[Row]) -> dict[str, float]:
    """Return how the kernels of one task agree, by what a search ranks: all sizes in one score."""
    of_model = {row["sha"]: row["speedup"] for row in modelled}
    pairs = [(row["speedup"], of_model[row["sha"]]) for row in measured_rows(found)]
    return agreement([(1 / gpu, 1 / model) for gpu, model in pairs if gpu and model], LEAST_APART)


def how_much_slower(found: Mapping[str, Row]) -> float:
    """Return the measured winner's speed-up over that of the emulated winner, both on the GPU."""
    emulated = found["emulated_winner"]["speedup"]
    return float("inf") if not emulated else found["winner"]["speedup"] / emulated


if __name__ == "__main__":
    record.dispatch({"search": main, "model": model_main, "compare": compare_main})
