"""How soon does the search of tunables come near the best point of a space that was measured whole?

    python benchmarks/tuning_replay.py SPACE.csv.gz [SPACE.csv.gz ...] [--strategy ours random ...]
    python benchmarks/tuning_replay.py SPACE.csv.gz --kernel-tuner kt/bin/python

A space is a table: the tunables, and `time_ms`, empty for a point that failed; each row is a valid
point. Tables are made from https://github.com/AutoTuningAssociation/benchmark_hub (Kernel Tuner's
measurements of whole spaces). No GPU is needed. `ours` asks `--at-once` points before it sees their
times, from a random default; Kernel Tuner's strategies ask one after another or by generations.

Printed for each space and strategy, over the seeds: the median of the evaluations until a point
within 5 % of the optimum, and the median of the optimum's time over the best found after 50, 100
and 200 evaluations. A failure is an evaluation. With `--results` they are written as JSON too.
"""

import argparse
import csv
import gzip
import json
import random
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import inf, log
from pathlib import Path
from types import MappingProxyType
from typing import Any

import record

from cuda_llm.agents.playbook.history import History, TriedPoint
from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.playbook.point_table import PointTable, tabulate
from cuda_llm.agents.playbook.propose import propose
from cuda_llm.agents.tunables.space import Point, Space, Tunable

NEAR = 1.05
SHARES_AFTER = (50, 100, 200)
KERNEL_TUNER = (
    *("genetic_algorithm", "pso", "diff_evo", "simulated_annealing", "dual_annealing", "mls"),
    *("greedy_ils", "greedy_mls", "ordered_greedy_mls", "firefly_algorithm", "hybrid_vndx"),
    *("adaptive_tabu_greywolf", "bayes_opt"),
)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A space that was measured whole."""

    name: str
    points: tuple[dict[str, int], ...]
    times_ms: tuple[float | None, ...]
    """None for a point that failed."""


class RecordedKernel(TunableKernel):
    """Stands for a kernel whose valid points are those of a table."""

    def __init__(self, recorded: Recorded) -> None:
        columns = {name: [one[name] for one in recorded.points] for name in recorded.points[0]}
        tunables = [
            Tunable(name=name, default=values[0], values=tuple(sorted(set(values))))
            for name, values in columns.items()
        ]
        super().__init__("", Space(tunables=tuple(tunables)))
        self._table = tabulate(self.space, recorded.points)

    def sha(self, point: Point) -> str:
        """Return a text that no other point has."""
        return str(tuple(point.values()))

    def table(self, rng: random.Random, near: Iterable[Point] = ()) -> PointTable:
        """Return all points."""
        return self._table


def main() -> None:
    """Replay every strategy on every space."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spaces", type=Path, nargs="+")
    parser.add_argument("--strategy", nargs="+", choices=(*OURS, *KERNEL_TUNER))
    parser.add_argument("--kernel-tuner", metavar="PYTHON", help="an interpreter that has it")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=1, help="points that ours asks at once")
    parser.add_argument("--most", type=int, default=400, help="evaluations of a search")
    parser.add_argument("--results", type=Path, help="JSON file to keep the figures in")
    asked = parser.parse_args()
    theirs = KERNEL_TUNER if asked.kernel_tuner else ()
    strategies = asked.strategy or (*OURS, *theirs)
    for path in asked.spaces:
        recorded = read_space(path)
        for strategy in strategies:
            orders: Iterator[Iterable[int]]
            if strategy in theirs:
                orders = order_theirs(asked.kernel_tuner, path, strategy, asked.seeds, asked.most)
            else:
                search = OURS[strategy]
                kernel = RecordedKernel(recorded)
                orders = (
                    islice(search(recorded, kernel, seed, asked.at_once), asked.most)
                    for seed in range(asked.seeds)
                )
            figures = summarise(recorded, orders, asked.most)
            print(recorded.name, strategy, json.dumps(figures), flush=True)
            if asked.results:
                keep(asked.results, recorded.name, strategy, figures)


def read_space(path: Path) -> Recorded:
    """Read a table of points and times."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    times = tuple(float(one.pop("time_ms") or "nan") for one in rows)
    return Recorded(
        name=path.name.removesuffix(".csv.gz"),
        points=tuple({name: int(value) for name, value in one.items()} for one in rows),
        times_ms=tuple(None if time != time else time for time in times),
    )


def order_ours(
    recorded: Recorded, kernel: RecordedKernel, seed: int, at_once: int
) -> Iterator[int]:
    """Yield the points in the order in which our search asks for them, until the optimum."""
    places = {kernel.sha(one): at for at, one in enumerate(recorded.points)}
    fastest = min(time for time in recorded.times_ms if time)
    start = random.Random(seed).choice(recorded.points)
    tunables = [replace(one, default=start[one.name]) for one in kernel.space.tunables]
    kernel.space = replace(kernel.space, tunables=tuple(tunables))
    tried, round = list[TriedPoint](), 0
    while True:
        round += 1
        asked = list(
            islice(propose(kernel, History(tried=tuple(tried)), f"{seed}/{round}"), at_once)
        )
        if not asked:
            return
        for point in asked:
            at = places[kernel.sha(point)]
            time = recorded.times_ms[at]
            tried.append(TriedPoint(point=point, score=None if time is None else -log(time)))
            yield at
            if time == fastest:
                return


def order_randomly(
    recorded: Recorded, kernel: RecordedKernel, seed: int, at_once: int
) -> Iterator[int]:
    """Yield all points in random order."""
    count = len(recorded.points)
    return iter(random.Random(seed).sample(range(count), count))


OURS = MappingProxyType({"ours": order_ours, "random": order_randomly})


def order_theirs(
    python: str, path: Path, strategy: str, seeds: int, most: int
) -> Iterator[Sequence[int]]:
    """Yield the orders of a strategy of Kernel Tuner, seed by seed."""
    program = str(Path(__file__).with_name("kernel_tuner_orders.py"))
    command = [python, program, str(path), strategy, "--seeds", str(seeds), "--most", str(most)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        yield from map(json.loads, child.stdout)


def summarise(recorded: Recorded, orders: Iterable[Iterable[int]], most: int) -> dict[str, Any]:
    """Return the figures of a strategy: medians over its searches."""
    fastest = min(time for time in recorded.times_ms if time)
    found, shares = list[float](), list[list[float]]()
    for order in orders:
        times = [recorded.times_ms[at] or inf for at in order]
        near = (count for count, time in enumerate(times, 1) if time <= NEAR * fastest)
        found.append(next(near, inf))
        shares.append([fastest / min(times[:count]) for count in SHARES_AFTER])
    median = statistics.median(found) if found else inf
    return {
        "searches": len(found),
        "evaluations_to_5_percent": median if median < inf else f"over {most}",
        "found_within_200": sum(one <= 200 for one in found),
        **{
            f"share_after_{count}": round(statistics.median(share), 3)
            for count, share in zip(SHARES_AFTER, zip(*shares, strict=True), strict=True)
        },
    }


def keep(path: Path, space: str, strategy: str, figures: Mapping[str, Any]) -> None:
    """Write the figures of one strategy on one space into the file of results."""
    known: dict[str, Any] = {"benchmark": "tuning_replay", "spaces": {}}
    if path.exists():
        known = json.loads(path.read_text())
    known |= {"commit": record.commit(), "machine": record.machine()}
    known["spaces"].setdefault(space, {})[strategy] = figures
    path.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
