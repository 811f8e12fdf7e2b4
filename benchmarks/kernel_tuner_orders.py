"""In which order does a strategy of Kernel Tuner try the points of a recorded space?

    python -m venv kt && kt/bin/pip install kernel-tuner
    kt/bin/python benchmarks/kernel_tuner_orders.py SPACE.csv.gz STRATEGY --seeds 100 --most 400

It needs Kernel Tuner alone, so it runs in an environment of its own; `tuning_replay.py
--kernel-tuner kt/bin/python` calls it. Printed is a line of JSON for each seed: the rows of the
table, counted from 0, in the order of their first evaluation in Kernel Tuner's simulation mode,
with its default options. Its spaces are the valid points alone, as ours are.
"""

import argparse
import csv
import gzip
import json
import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    """Print the order of each seed."""
    from kernel_tuner import interface
    from kernel_tuner.runners import simulation

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("space", type=Path)
    parser.add_argument("strategy")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=400, help="evaluations of a search")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")
    with gzip.open(asked.space, "rt") as file:
        (*names, _), *rows = csv.reader(file)
    places = {",".join(row[:-1]): at for at, row in enumerate(rows)}
    order = list[int]()

    class Recorder(simulation.SimulationRunner):  # type: ignore[misc]
        """The simulation, which notes each point that it evaluates for the first time."""

        def run(self, points: Any, options: Any) -> Any:
            points = list(points)
            known = set(self.visited_results)
            results = super().run(points, options)
            for key in (",".join(map(str, one)) for one in points):
                if key in self.visited_results and key not in known:
                    known.add(key)
                    order.append(places[key])
            return results

    simulation.SimulationRunner = Recorder
    spaces = list[Any]()
    build = interface.Searchspace

    def build_once(*arguments: Any, **options: Any) -> Any:
        if not spaces:
            spaces.append(build(*arguments, **options))
        return spaces[0]

    interface.Searchspace = build_once
    valid = {tuple(map(int, row[:-1])) for row in rows}

    def holds(*values: Any) -> bool:
        point = [values[0][name] for name in names] if isinstance(values[0], dict) else values
        return tuple(point) in valid

    values = {name: sorted({one[at] for one in valid}) for at, name in enumerate(names)}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(_cache(names, values, rows)))
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds):
            random.seed(seed)
            np.random.seed(seed)
            order.clear()
            interface.tune_kernel(
                *("k", "__global__ void k() {}", [1], [], values),
                restrictions=holds,
                lang="CUDA",
                cache=str(cache),
                simulation_mode=True,
                strategy=asked.strategy,
                strategy_options={"max_fevals": asked.most},
                quiet=True,
            )
            print(json.dumps(order), flush=True)


def _cache(
    names: Sequence[str], values: dict[str, list[int]], rows: Sequence[Sequence[str]]
) -> dict[str, Any]:
    """Return the table as a cache file of Kernel Tuner."""
    return {
        "device_name": "recorded",
        "kernel_name": "k",
        "problem_size": [1],
        "tune_params_keys": names,
        "tune_params": values,
        "objective": "time",
        "cache": {",".join(point): dict(_entry(names, point, time)) for *point, time in rows},
    }


def _entry(names: Sequence[str], point: Sequence[str], time: str) -> Iterator[tuple[str, Any]]:
    yield from zip(names, map(int, point), strict=True)
    yield "time", float(time) if time else "CompilationFailedConfig"
    yield "times", [float(time)] if time else []
    if not time:
        yield "__error__", "CompilationFailedConfig"
    for part in ("compile", "verification", "benchmark", "strategy", "framework"):
        yield f"{part}_time", 0


if __name__ == "__main__":
    main()
