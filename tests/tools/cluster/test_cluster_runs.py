"""A run on a real local Ray cluster ends as the same run on this machine, whatever is killed."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import pytest
from commands import Ran
from corpus_sample import is_whole
from ray_cluster import RayCluster, below, wait_until
from tiny_tasks import tiny_task

from cuda_llm.cli.app import run as main
from cuda_llm.graph.runs.result import read_result
from cuda_llm.traces.run_folder import RunFolder

Outcome: TypeAlias = "tuple[str, list[tuple[str, str, float | None]]]"
GPU = "RTX 3090 Ti"
ROUNDS = 3 if is_whole() else 1
BENCHED = ("vector_add", "relu")
SETTINGS = ("--candidates", "2", "--rounds", str(ROUNDS), "--tune", "0", "--seed", "5")
LIMIT_S = 900.0
"""Generous: on a busy machine our native parts alone take minutes to build."""


def outcome_of(run: RunFolder) -> Outcome:
    """The winner's source, and every candidate with its verdict and speed-up."""
    result = read_result(run)
    assert result.finished
    return result.source, [(one.id, one.code, one.speedup) for one in result.attempts]


def run_in(out: Path) -> RunFolder:
    (found,) = [one for one in out.iterdir() if one.is_dir()]
    return RunFolder(found)


def events(run: RunFolder) -> list[dict[str, Any]]:
    """What the run has recorded so far; a line that is being written is left for later."""
    lines = run.events.read_text().split("\n")[:-1] if run.events.exists() else []
    return [json.loads(one) for one in lines]


def judged_rounds(out: Path) -> set[str]:
    """Rounds of which a candidate is being validated or was, as `r1`."""
    if not out.exists() or not any(out.iterdir()):
        return set()
    return {
        one["candidate"].partition("-")[0]
        for one in events(run_in(out))
        if one["kind"] == "stage_entered" and one["stage"] == "validate"
    }


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A transpose at small sizes: what is judged often is judged fast, and no first kernel is at
    the hardware's limit, which would end the run."""
    return str(tiny_task(tmp_path_factory.mktemp("tasks"), "tiny", of="matrix_transpose"))


@pytest.fixture(scope="module")
def undisturbed(task: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The outcome of the same run in this process, without a cluster."""
    out = tmp_path_factory.mktemp("undisturbed") / "runs"
    assert main(["run", task, "--device", f"emulated:{GPU}", *SETTINGS, "--out", str(out)]) == 0
    return outcome_of(run_in(out))


def kill_a_worker(cluster: RayCluster) -> list[psutil.Process]:
    """Kill one whose device runs a kernel; return it with all that it had started."""
    families: list[list[psutil.Process]] = []

    def one_is_busy() -> bool:
        families[:] = [[one, *below(one)] for one in cluster.workers()]
        return any(len(family) > 1 for family in families)

    wait_until(one_is_busy, 240)
    family = max(families, key=len)
    family[0].send_signal(signal.SIGKILL)
    return family


def test_a_run_with_a_worker_killed_in_each_round_ends_as_without(
    cluster: RayCluster,
    device: str,
    start: Callable[..., Any],
    task: str,
    undisturbed: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "runs"
    process = start("run", task, "--device", device, *SETTINGS, "--out", str(out))
    killed: dict[str, list[psutil.Process]] = {}
    while process.poll() is None:
        for name in judged_rounds(out) - killed.keys():
            killed[name] = kill_a_worker(cluster)
        time.sleep(0.02)
    stdout, stderr = process.communicate()

    assert process.returncode == 0, stderr
    assert sorted(killed) == [f"r{number + 1}" for number in range(ROUNDS)]
    assert outcome_of(run_in(out)) == undisturbed
    foreign = [one for one in (stdout + stderr).splitlines() if "raylet" in one or "ray::" in one]
    assert not foreign and "Traceback" not in stderr
    _, alive = psutil.wait_procs([one for family in killed.values() for one in family], 60)
    assert not alive, "what a killed worker had started ends with it"
    wait_until(lambda: not cluster.workers(), 240)


@pytest.mark.evidence
def test_an_orchestrator_that_is_killed_leaves_no_worker_and_its_run_goes_on(
    cluster: RayCluster,
    device: str,
    start: Callable[..., Any],
    ask: Callable[..., Ran],
    task: str,
    undisturbed: Outcome,
    tmp_path: Path,
) -> None:
    out = tmp_path / "runs"
    process = start("run", task, "--device", device, *SETTINGS, "--out", str(out))
    wait_until(lambda: "r2" in judged_rounds(out), LIMIT_S)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not cluster.workers(), 60)

    resumed = ask("resume", str(run_in(out).path))
    assert resumed.code == 0, resumed.stderr
    assert outcome_of(run_in(out)) == undisturbed


@pytest.mark.evidence
def test_a_kernel_is_judged_through_the_client_port_as_here(
    cluster: RayCluster, ask: Callable[..., Ran], tmp_path: Path
) -> None:
    kernel = Path(__file__).parents[2] / "fixtures/honest/reduction/02_warp_shuffle.cu"
    found = []
    for device in (f"{cluster.client}/emulated:RTX 3090 Ti", "emulated:RTX 3090 Ti"):
        ran = ask("evaluate", "reduction", str(kernel), "--device", device, "--json")
        assert ran.code == 0, ran.stderr
        (result,) = json.loads(ran.stdout)["results"]
        found.append((result["verdict"]["code"], result["speedup"], result["sizes"]))
    assert found[0] == found[1]


@pytest.mark.evidence
def test_a_benchmark_on_a_cluster_has_the_table_of_one_machine(
    device: str, ask: Callable[..., Ran], tmp_path: Path
) -> None:
    found = []
    for name, where in (("cluster", device), ("here", "emulated:RTX 3090 Ti")):
        out = tmp_path / name
        ran = ask("bench", *BENCHED, "--quick", "--candidates", "1", "--seed", "3",
                  "--device", where, "--out", str(out), "--json")  # fmt: skip
        assert ran.code == 0, ran.stderr
        rows = json.loads(ran.stdout)["rows"]
        found.append([(one["task"], one["speedup"], one["sizes"]) for one in rows])
    assert found[0] == found[1]
