"""How often does a contest err, and how long does it take? Simulated with the noise of an H200.

    python benchmarks/contest_errors.py --trials 2000

The noise is that of `results/h200_timing.json`: what one block of each kernel scatters by, and what
the same kernel in two processes differs by. Tails are those of Student's t with four degrees of
freedom, and one block in fifty is held up, ten times as far. A task has five sizes whose kernels
stand for its times. What is planted is the same at all sizes. Seconds are those of that file's
contests a block, and some for opening kernels and laying a size out: a guess within a factor of
two.
"""

import argparse
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import record

from cuda_llm.tools.timing import sequential
from cuda_llm.tools.timing.stopping import ContestRule

PLANTED = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
SPIN_US, SPIN_50_US, SPIN_MS = "spinning 5 us", "spinning 50 us", "spinning 1 ms"
TRANSPOSE = "matrix_transpose 01_tiled_padded.cu {0} x {0}"
ADD = "vector_add 02_float4_tail.cu {}"
TASKS: Mapping[str, tuple[str, ...]] = {
    "vector_add": (SPIN_US, *2 * (ADD.format(4194304),), *2 * (ADD.format(67108864),)),
    "matrix_transpose": (TRANSPOSE.format(1024), *4 * (TRANSPOSE.format(4096),)),
    "reduction": 5 * (SPIN_US,),
    "histogram": (*2 * (SPIN_US,), SPIN_50_US, TRANSPOSE.format(4096), ADD.format(4194304)),
    "one size of 5 us": (SPIN_US,),
    "one size of 50 us": (SPIN_50_US,),
    "one size of 1 ms": (SPIN_MS,),
}
"""By task: the recorded kernel that stands for each size."""
OPENED_S, LAID_OUT_S, LOOKED_AT_S = 0.5, 0.1, 0.9
"""For opening the kernels, for each visit of a size, and for all but the blocks of a recorded
duel."""
LONGER_THEN = (TRANSPOSE.format(4096), ADD.format(67108864))
"""Recorded in batches twice as long as those of a contest: what one call more adds to a batch was
known twice as well by a clock, and better by half where calls differ. The former is assumed, and
that a block costs what it did."""
DEGREES, HELD_UP, FARTHER = 4.0, 0.02, 10.0


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Of one kernel against itself."""

    deviation: float
    """Of the logarithm of the ratio of one block."""
    process: float
    """The same of what two processes differ by."""
    block_s: float


def read_noise(file: Path = record.RESULTS / "h200_timing.json") -> dict[str, Noise]:
    """Return the noise of each kernel that was timed against itself."""
    rows = defaultdict(list)
    for row in json.loads(file.read_text())["rows"]:
        if row["part"] in ("aa", "repeat") and "ratio" in row:
            name = row["trial"].partition(" #")[0]
            rows[name if row["part"] == "repeat" else f"spinning {name}"].append(row)
    noise = {name: noise_of(found) for name, found in rows.items()}
    shorter = {
        name: replace(noise[name], deviation=2 * noise[name].deviation) for name in LONGER_THEN
    }
    return {**noise, **shorter}


def noise_of(rows: Sequence[Mapping[str, Any]]) -> Noise:
    """Return the noise that these contests of a kernel with itself show.

    The interval of a median of n values is 1.96 times 1.2533 d / sqrt(n) wide on either side.
    """
    errors = [math.log(row["high"] / row["low"]) / 2 / 1.96 for row in rows]
    blocks = [row["blocks"] for row in rows]
    apart = statistics.fmean(math.log(row["ratio"]) ** 2 for row in rows)
    each = zip(errors, blocks, strict=True)
    seconds = [row["seconds"] - LOOKED_AT_S for row in rows]
    block_s = statistics.median(s / n for s, n in zip(seconds, blocks, strict=True))
    return Noise(
        deviation=statistics.median(error * math.sqrt(n) / 1.2533 for error, n in each),
        process=math.sqrt(max(0.0, apart - statistics.fmean(error**2 for error in errors))),
        # Those had four pairs of batches a block; a contest of two kernels has three.
        block_s=0.75 * max(0.02, block_s),
    )


def contest(
    sizes: Sequence[Noise], planted: float, rng: np.random.Generator, rule: ContestRule
) -> tuple[str, float, int]:
    """Hold one contest; return its outcome, seconds and blocks."""
    middles = [math.log1p(planted) + rng.normal(0, one.process) for one in sizes]
    logs: list[list[float]] = [[] for _ in sizes]
    spent_s, looks = OPENED_S, 0

    def visit(at: int, blocks: int) -> float:
        noise = rng.standard_t(DEGREES, blocks) / math.sqrt(DEGREES / (DEGREES - 2))
        noise *= np.where(rng.random(blocks) < HELD_UP, FARTHER, 1.0)
        logs[at] += (middles[at] + sizes[at].deviation * noise).tolist()
        return LAID_OUT_S + blocks * sizes[at].block_s

    spent_s += sum(visit(at, rule.first_blocks) for at in range(len(sizes)))
    while True:
        looks += 1
        scores = [sequential.score_size(one) for one in logs]
        whole = sequential.join_sizes(scores, ())
        outcome = sequential.decide(whole, looks)
        if outcome is None and (spent_s >= OPENED_S + rule.wall_s or whole.is_settled):
            outcome = sequential.decide_at_last(whole, looks)
        if outcome is not None:
            return outcome, spent_s, sum(map(len, logs))
        for at, blocks in enumerate(
            sequential.plan_pass(scores, (), [one.block_s for one in sizes])
        ):
            if blocks and spent_s < OPENED_S + rule.wall_s:
                spent_s += visit(at, blocks)


def simulate(task: str, planted: float, trials: int, seed: int = 0) -> dict[str, Any]:
    """Return how so many contests of a task end."""
    noise = read_noise()
    sizes = [noise[name] for name in TASKS[task]]
    rng = np.random.default_rng([seed, list(TASKS).index(task), round((1 + planted) * 1000)])
    held = [contest(sizes, planted, rng, ContestRule()) for _ in range(trials)]
    counted = Counter(outcome for outcome, _, _ in held)
    return {
        "planted_percent": 100 * planted,
        **{one: counted[one] / trials for one in ("faster", "tie", "slower")},
        "mean_s": round(statistics.fmean(seconds for _, seconds, _ in held), 2),
        "median_s": round(statistics.median(seconds for _, seconds, _ in held), 2),
        "mean_blocks": round(statistics.fmean(blocks for _, _, blocks in held), 1),
    }


def main() -> None:
    """Simulate every task at every planted difference, print and record the shares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    asked = parser.parse_args()
    tasks = {}
    for task in TASKS:
        tasks[task] = [simulate(task, planted, asked.trials) for planted in PLANTED]
        print(task, *map(json.dumps, tasks[task]), sep="\n", flush=True)
    figures = {"source": "simulated", "trials": asked.trials, "tasks": tasks}
    print(record.write("contest_errors", figures, asked.results))


if __name__ == "__main__":
    main()
