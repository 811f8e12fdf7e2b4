"""How soon the playbook generator finds a kernel near the best of all, against random search.

Replays the sweeps that `playbook_sweep.py` recorded: no device is needed, and the times may be
modelled or measured. The generator is the real one; it gets the hint that the deterministic
reflection would give, the dominating bottleneck of the incumbent. Bars: over 20 seeds the median
search comes within 5 % of the sweep's best in at most a third of its kernels, and sooner than the
median random search.
"""

import argparse
import asyncio
import json
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record

from cuda_llm.agents.kernel_text.normal_form import normal_sha
from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.situation import Plan, Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode, Verdict
from cuda_llm.search import Attempt, Brief, Draft, Hint, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task

NEAR = 0.95
CANDIDATES = 5

Row = Mapping[str, Any]


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
        """The speed-up to reach."""
        return NEAR * max(row["speedup"] or 0.0 for row in self.rows.values())


class NoArchive:
    """The playbook generator reads no source of earlier attempts."""

    def source(self, attempt: str) -> str:
        return ""

    def verdict(self, attempt: str) -> Verdict:
        return NoCode(reason=attempt)


def main() -> None:
    """Search each recorded playbook, print and record the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweeps", nargs="*", type=Path, help="default: all that are recorded")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    paths = arguments.sweeps or sorted(
        path for path in record.RESULTS.glob("playbook_*.json") if path.stem != "playbook_search"
    )
    figures = {}
    for path in paths:
        sweep = read_sweep(path)
        figures[sweep.task.name] = measure(sweep, arguments.seeds)
        print(sweep.task.name, json.dumps(figures[sweep.task.name]), flush=True)
    print(record.write("playbook_search", {"near": NEAR, "tasks": figures}, arguments.out))


def read_sweep(path: Path) -> Sweep:
    """One recorded sweep."""
    data = json.loads(path.read_text())
    rows = {row["sha"]: row for row in data["rows"]}
    task, hardware = load_task(data["task"]), find_hardware(data["hardware"])
    able = Capabilities(full_isa=data["time_source"] == "measured")
    return Sweep(task, data["device"], hardware, able, rows)


def measure(sweep: Sweep, seeds: int) -> dict[str, Any]:
    """Kernels judged until one was near the best, for both kinds of search."""
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
    """Kernels that the generator needed."""
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
            attempts.append(judge(sweep, draft, where.round, index))
            if (attempts[-1].speedup or 0.0) >= sweep.goal:
                return len(attempts)


def search_at_random(sweep: Sweep, seed: int) -> int:
    """Kernels that drawing without return needed."""
    speedups = [row["speedup"] or 0.0 for row in sweep.rows.values()]
    random.Random(seed).shuffle(speedups)
    return next(index for index, one in enumerate(speedups, 1) if one >= sweep.goal)


async def ask_round(generator: PlaybookGenerator, where: Situation) -> list[Draft]:
    """The kernels of one round; fewer where the playbook is used up."""
    briefs = [
        Brief(id=f"r{where.round}-c{index}", round=where.round, index=index, kind=Kind.IMPROVE)
        for index in range(1, CANDIDATES + 1)
    ]
    answers = await asyncio.gather(*(generator.generate(one, where) for one in briefs))
    return [one for one in answers if isinstance(one, Draft)]


def judge(sweep: Sweep, draft: Draft, round_: int, index: int) -> Attempt:
    """What the sweep says of a kernel. Raises SystemExit where the playbook has changed since."""
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
    """The search after `attempts`, with a hint on what limits the fastest."""
    best = max(
        (one for one in attempts if one.speedup), key=lambda one: one.speedup or 0.0, default=None
    )
    hints = ()
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
    main()
