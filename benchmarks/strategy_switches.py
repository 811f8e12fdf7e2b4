"""Which switches of the strategy `fsr` make a search better, at equal numbers of kernels judged?

    python benchmarks/strategy_switches.py search --limit-s 1200
    python benchmarks/strategy_switches.py judge matrix_multiplication

`search` runs `cuda-llm` as it is (graph, strategy, playbook generator, tuner, reflection) on every
task; only the bench answers from the recorded sweeps (`playbook_TASK.json`) instead of compiling,
so that a run takes seconds; the sizes are those of the sweeps. A composition of two kernels, which
no sweep holds, has the times of its parts; `judge` compiles, validates and times some of them, and
their parts beside them. The score of a run is the best speed-up among its first `JUDGED` kernels,
compositions counted, over that of `fsr` without switches at the same seed. Half the seeds choose
(`chosen`), the other half, looked at last, decide (`held_back`).
"""

import argparse
import asyncio
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import record
from playbook_search import Sweep, read_sweep

from cuda_llm.agents.kernel_text.composition import CompositionRefused
from cuda_llm.agents.kernel_text.outline import normal_sha
from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr, find_strategy
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.graph.runs.start import aoptimize
from cuda_llm.outcomes import NoCode, Passed, Verdict
from cuda_llm.profile import Bottleneck, Profile, SizeTime
from cuda_llm.search import Attempt
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.native import cache_folder
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

BASE = "fsr+no-composition+no-elites+no-pairs"
VARIANTS = {
    "composition": "fsr+composition+no-elites+no-pairs",
    "elites": "fsr+no-composition+elites+no-pairs",
    "pairs": "fsr+no-composition+no-elites+pairs",
    "composition and elites": "fsr+composition+elites+no-pairs",
    "all": "fsr+composition+elites+pairs",
}
SEEDS = 6
CANDIDATES, ROUNDS = 5, 4
JUDGED = (10, 15, 20)
"""So many kernels of a run count, by round and index; what follows is not looked at."""
Runs = dict[tuple[str, str, int], list[float]]
"""Best speed-up after each of `JUDGED` kernels, by task, variant and seed."""
SPLIT = re.compile(r"if \(\(long long\)(?P<product>[\w* ]+) < (?P<limit>\d+)LL\)")


@dataclass(frozen=True)
class NotingFsr(Fsr):
    """Notes the parts of each composition, for the bench."""

    made: dict[str, tuple[Attempt, Attempt]] = field(default_factory=dict)
    """By `normal_sha`."""
    sources: dict[str, str] = field(default_factory=dict)

    def compose(self, situation: Situation) -> Trial | CompositionRefused | None:
        """Put together as `Fsr` does."""
        trial = super().compose(situation)
        if isinstance(trial, Trial) and trial.second:
            parts = situation.attempt(trial.parent), situation.attempt(trial.second)
            sha = normal_sha(trial.draft.source)
            self.made[sha], self.sources[sha] = parts, trial.draft.source
        return trial


@dataclass(frozen=True)
class RecordedBench:
    """Judges the kernels of one sweep as it did, and two of them in one by the times of both."""

    sweep: Sweep
    baseline: KernelTimes
    made: Mapping[str, tuple[Attempt, Attempt]]

    async def time_baseline(self) -> KernelTimes:
        """Return the baseline's times."""
        return self.baseline

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """Return a candidate that was compiled when the sweep was made."""
        here = Path("/nowhere")
        return Compiled(
            key="", name=name, source=source, target="sm_86", library=here, ptx=here, kernels=()
        )

    async def validate(self, compiled: Compiled) -> Validated | Verdict:
        """Return what the sweep found."""
        row = self.sweep.rows.get(normal_sha(compiled.source))
        if row is not None and row["code"] != "PASSED":
            return NoCode(message=row["summary"])
        return Validated(checked={"sizes": 1})

    async def profile(
        self, compiled: Compiled, validated: Validated, baseline: KernelTimes
    ) -> Verdict:
        """Return the recorded times."""
        sha = normal_sha(compiled.source)
        row = self.sweep.rows.get(sha)
        if row is not None:
            return self._passed(row["times_us"], row["limited_by"])
        small, large = self.made[sha]
        split = SPLIT.search(compiled.source)
        assert split, "a composition chooses by size"
        names = split["product"].split(" * ")
        below = (
            math.prod(dims[name] for name in names) < int(split["limit"])
            for dims, _ in self.baseline.times
        )
        pairs = zip(below, small.times_us, large.times_us, strict=True)
        times = [one if is_small else other for is_small, one, other in pairs]
        return self._passed(times, small.limited_by)

    def with_fresh_inputs(self) -> Bench:
        """Return itself."""
        return self

    def _passed(self, times_us: Sequence[float], limited_by: str) -> Passed:
        sizes = tuple(
            SizeTime(dims=dims, time_us=time_us, baseline_us=baseline_us, source="modelled")
            for (dims, baseline_us), time_us in zip(self.baseline.times, times_us, strict=True)
        )
        pairs = zip(self.baseline.times, times_us, strict=True)
        score = statistics.fmean(math.log(before / time_us) for (_, before), time_us in pairs)
        found = Bottleneck(code=limited_by, share=0.5, explanation="", advice="")
        return Passed(
            profile=Profile(
                device=self.sweep.device,
                hardware=self.sweep.hardware.name,
                source="modelled",
                sizes=sizes,
                speedup=math.exp(score),
                bottlenecks=(found,) if limited_by else (),
            )
        )


def main() -> None:
    """Run what is not in the cache yet; write the result when all is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--limit-s", type=float, default=1200)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    deadline = time.monotonic() + arguments.limit_s
    lines = cache_folder("strategy_switches") / "runs.jsonl"
    known = read_lines(lines)
    searched = [(one, PlaybookGenerator(one.task)) for one in sweeps()]
    variants = {"none": BASE, **VARIANTS}
    for seed, (sweep, generator), variant in product(range(arguments.seeds), searched, variants):
        key = (sweep.task.name, variant, seed)
        if key in known:
            continue
        if time.monotonic() > deadline:
            print("out of time")
            return
        noting = NotingFsr(**vars(find_strategy(variants[variant])))
        known[key] = asyncio.run(search(sweep, noting, seed, generator))
        with lines.open("a") as file:
            file.write(json.dumps([*key, known[key]]) + "\n")
        print(*key, known[key], flush=True)
    print(write(known, arguments.seeds, arguments.results))


def baseline_of(sweep: Sweep) -> KernelTimes:
    """Return times of a baseline over which every kernel has the speed-up that was recorded.

    The sweeps timed the sizes that a task calls `emulated`, and kept no time of the baseline: here
    it is the slowest kernel, made faster or slower by one factor.
    """
    passed = [row for row in sweep.rows.values() if row["code"] == "PASSED"]
    slowest = min(passed, key=lambda row: float(row["speedup"] or 0.0))
    times = (one * float(slowest["speedup"] or 1.0) for one in slowest["times_us"])
    sizes = (dict(dims) for dims in sweep.task.sizes.emulated)
    return KernelTimes(times=tuple(zip(sizes, times, strict=True)), launches=(), bottlenecks=())


def sweeps() -> list[Sweep]:
    """Read the recorded sweeps."""
    paths = sorted(record.RESULTS.glob("playbook_*.json"))
    return [read_sweep(path) for path in paths if path.stem != "playbook_search"]


def read_lines(path: Path) -> Runs:
    """Read the runs made so far."""
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {(task, variant, seed): best for task, variant, seed, best in rows}


async def search(
    sweep: Sweep, noting: NotingFsr, seed: int, generator: PlaybookGenerator
) -> list[float]:
    """Return the best speed-up among the first `JUDGED` kernels of one run."""
    with tempfile.TemporaryDirectory() as folder:
        result = await aoptimize(
            sweep.task,
            device="emulated",
            generator=generator,
            strategy=noting,
            bench=RecordedBench(sweep, baseline_of(sweep), noting.made),
            candidates=CANDIDATES,
            rounds=ROUNDS,
            patience=ROUNDS,
            seed=seed,
            out=folder,
        )
        judged = [one for one in result.attempts if one.code not in ("DUPLICATE", "NO_CODE")]
    return [max(one.speedup or 0.0 for one in judged[:count]) for count in JUDGED]


def compare(runs: Runs, tasks: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """Return for each variant and each of `JUDGED` its gain over `fsr` without switches.

    The gain is a geometric mean over tasks and seeds, its spread that over the seeds.
    """
    return {
        variant: {
            f"at {count}": _gain(runs, variant, at, tasks, seeds) for at, count in enumerate(JUDGED)
        }
        for variant in VARIANTS
    }


def _gain(
    runs: Runs, variant: str, at: int, tasks: Sequence[str], seeds: Sequence[int]
) -> dict[str, float]:
    by_seed = [
        statistics.fmean(
            math.log(runs[task, variant, seed][at] / runs[task, "none", seed][at]) for task in tasks
        )
        for seed in seeds
    ]
    spread = statistics.stdev(by_seed) / math.sqrt(len(by_seed))
    return {
        "mean": round(math.exp(statistics.fmean(by_seed)), 4),
        "within_95": round(1.96 * spread, 4),
        "worst_seed": round(math.exp(min(by_seed)), 4),
        "best_seed": round(math.exp(max(by_seed)), 4),
    }


def write(runs: Runs, seeds: int, results: Path = record.RESULTS) -> Path:
    """Write how much each variant gains over `fsr` without switches."""
    tasks = sorted({task for task, _, _ in runs})
    half = seeds // 2
    content = {
        "candidates": CANDIDATES,
        "rounds": ROUNDS,
        "judged": JUDGED,
        "seeds": seeds,
        "strategies": {"none": BASE, **VARIANTS},
        "chosen": compare(runs, tasks, range(half)),
        "held_back": compare(runs, tasks, range(half, seeds)),
        "by_task": {task: compare(runs, [task], range(seeds)) for task in tasks},
    }
    return record.write("strategy_switches", content, results)


def judge_main() -> None:
    """Compile, validate and time the compositions of one task's first runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--most", type=int, default=4, help="compositions judged")
    arguments = parser.parse_args()
    (sweep,) = (one for one in sweeps() if one.task.name == arguments.task)
    for row in asyncio.run(judge_compositions(sweep, arguments.most)):
        print(json.dumps(row), flush=True)


async def judge_compositions(sweep: Sweep, most: int) -> list[dict[str, Any]]:
    """Return what each composition came to, and at each size its time over that of its part."""
    bench = open_bench(sweep.task, open_device("emulated"))
    baseline = await bench.time_baseline()
    noting = NotingFsr(**vars(find_strategy(VARIANTS["composition"])))
    generator, seed = PlaybookGenerator(sweep.task), 0
    while len(noting.made) < most and seed < SEEDS:
        await search(sweep, noting, seed, generator)
        seed += 1
    rows = []
    for sha, source in list(noting.sources.items())[:most]:
        written = (source_of(sweep, part) for part in noting.made[sha])
        texts = {"composition": source, **dict(zip(("small", "large"), written, strict=True))}
        times = {}
        for name, text in texts.items():
            found = (await judge(bench, text, name, baseline=baseline)).verdict
            sizes = found.profile.sizes if isinstance(found, Passed) and found.profile else ()
            times[name] = [size.time_us for size in sizes]
        rows.append({"sha": sha[:8], "times_us": times})
    return rows


def source_of(sweep: Sweep, attempt: Attempt) -> str:
    """Write the playbook's kernel at the point of an attempt."""
    assert sweep.task.playbook, "a sweep is of a playbook"
    return write_point(sweep.task.playbook.read_text(), dict(attempt.tunables))


if __name__ == "__main__":
    record.dispatch({"search": main, "judge": judge_main})
