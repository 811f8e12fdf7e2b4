"""The orchestrator beside simulated workers: nothing is lost, nothing judged twice, and the same
seed does the same again.
"""

import asyncio
import json
import time
from typing import Any

import pytest
import record
from cluster_simulation import BARS, open_cluster, simulate_bench, simulate_runs
from recorded_works import KERNELS, RecordedWorks, number_source, read_works
from simulated_workers import Losses
from virtual_clock import run_virtual

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.duel import Contest, ContestOrder, contest
from cuda_llm.tools.validator.validate import Validated

OFTEN = Losses(share=0.02, away_s=5.0)
BENCH_MS, RUN_MS = 60.0, 1500.0
"""Processor time of a candidate at most, on a machine that has other work."""


@pytest.fixture(scope="module")
def works() -> RecordedWorks:
    return read_works()


@pytest.fixture(scope="module")
def timed_bench() -> tuple[dict[str, Any], float]:
    began_s = time.monotonic()
    figures = simulate_bench(50, per_worker=8, seed=1, losses=OFTEN)
    return figures, time.monotonic() - began_s


@pytest.fixture(scope="module")
def runs() -> dict[str, Any]:
    return simulate_runs(16, rounds=1, seed=1, losses=OFTEN)


def nothing_is_amiss(figures: dict[str, Any]) -> bool:
    amiss = ("verdicts_lost", "verdicts_doubled", "verdicts_unlike_the_recorded")
    return not any(figures[name] for name in amiss)


def test_each_candidate_has_one_verdict_though_workers_die(
    timed_bench: tuple[dict[str, Any], float],
) -> None:
    figures, _ = timed_bench
    assert figures["candidates"] == 50 * 8
    assert nothing_is_amiss(figures)
    assert figures["works_answered_twice"] == 0
    assert figures["workers_lost"] > 0


def test_workers_are_busy_while_there_is_work(timed_bench: tuple[dict[str, Any], float]) -> None:
    figures, _ = timed_bench
    assert figures["idle_share_of_devices"] < 0.05


def test_the_clock_is_virtual(timed_bench: tuple[dict[str, Any], float]) -> None:
    figures, wall_s = timed_bench
    assert wall_s < figures["candidates"] * figures["device_s_a_candidate"]


def test_a_candidate_takes_little_of_the_orchestrator(
    timed_bench: tuple[dict[str, Any], float], runs: dict[str, Any]
) -> None:
    assert timed_bench[0]["cpu_ms_a_candidate"] < BENCH_MS
    assert runs["cpu_ms_a_candidate"] < RUN_MS


def test_the_same_seed_does_the_same_and_another_does_not(
    timed_bench: tuple[dict[str, Any], float],
) -> None:
    first = timed_bench[0]["fingerprint"]
    assert simulate_bench(50, per_worker=8, seed=1, losses=OFTEN)["fingerprint"] == first
    assert simulate_bench(50, per_worker=8, seed=2, losses=OFTEN)["fingerprint"] != first


def test_whole_runs_share_the_workers_and_lose_nothing(runs: dict[str, Any]) -> None:
    assert runs["runs"] == 2
    assert runs["candidates"] >= 16
    assert nothing_is_amiss(runs)
    assert runs["simulated_s"] > 30


def test_whole_runs_repeat(runs: dict[str, Any]) -> None:
    again = simulate_runs(16, rounds=1, seed=1, losses=OFTEN)
    assert again["fingerprint"] == runs["fingerprint"]


def test_a_lost_worker_comes_back(works: RecordedWorks) -> None:
    cluster = open_cluster(20, works, 0, Losses(share=0.1, away_s=30.0))
    task, kernel = load_task("reduction"), works.kernels["reduction"][0]
    bench = cluster.bench(task, 0)

    async def validate(number: int) -> Any:
        built = await bench.compile(number_source(kernel.source, number), "source.cu")
        assert isinstance(built, Compiled)
        return await bench.validate(built)

    async def main() -> tuple[int, int]:
        found = await asyncio.gather(*map(validate, range(60)))
        assert all(isinstance(one, Validated) for one in found)
        away = 20 - len(cluster.group.devices)
        await asyncio.sleep(31.0)
        return away, len(cluster.group.devices)

    away, there = run_virtual(main())
    assert cluster.lost >= away > 0
    assert there == 20


def test_a_contest_is_decided_by_the_recorded_times(works: RecordedWorks) -> None:
    cluster = open_cluster(2, works, 0, Losses())
    task = load_task("reduction")
    passed = [one for one in works.kernels["reduction"] if "time" in one.answers]
    by_time = sorted(passed, key=lambda one: one.answers["time"].times[-1][1])

    async def main() -> Any:
        built = [
            await cluster.compile(task, number_source(one.source, number), "source.cu")
            for number, one in enumerate((by_time[0], by_time[-1]))
        ]
        fast, slow = (one for one in built if isinstance(one, Compiled))
        order = ContestOrder(contenders=(slow, fast), incumbent=slow)
        return await contest(task, cluster.group, order)

    found = run_virtual(main())
    assert isinstance(found, Contest)
    assert [one.outcome for one in found.duels] == ["tie", "faster"]  # type: ignore[union-attr]
    assert found.fastest == 1


def test_the_recorded_runs_keep_within_the_bars() -> None:
    recorded = json.loads((record.RESULTS / "cluster_simulation.json").read_text())
    most = {one["workers"]: one for one in recorded["runs"]}[1000]
    assert all(most[name] <= bar for name, bar in BARS.items())
    assert all(nothing_is_amiss(one) for one in (*recorded["runs"], *recorded["bench"]))


def test_every_kernel_that_a_task_has_was_recorded(works: RecordedWorks) -> None:
    recorded = {name: [one.file for one in every] for name, every in works.kernels.items()}
    assert recorded == {name: list(files) for name, files in KERNELS.items()}
