"""Kills at random moments, of workers and of whole nodes, lose nothing and leave nothing."""

import random
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from corpus_sample import is_whole
from ray_cluster import RayCluster, below, kill_tree, ray_cluster, wait_until, works_on

KILLS = 30 if is_whole() else 6
NODES_KILLED = {KILLS // 3 - 1, KILLS * 2 // 3 - 1}
"""Which of the kills take a whole node, with all its processes; another one joins then."""
LIMIT_S = 900.0
SEED = 17
CODES = {"right": "PASSED", "wrong": "WRONG_RESULT"}
pytestmark = pytest.mark.evidence


def test_kills_lose_nothing_and_leave_nothing(shared_cache: Path) -> None:
    rng = random.Random(SEED)
    with ray_cluster(shared_cache, nodes=3) as cluster:
        spec = f"ray:{cluster.address}/emulated:RTX 3090 Ti"
        with works_on(spec, stderr=subprocess.PIPE) as process:
            answers, families, killed = harass(cluster, process, rng)
        wait_until(lambda: not cluster.workers(), 60)

    numbers = [int(number) for number, _, _ in answers]
    assert Counter(killed) == {"worker": KILLS - len(NODES_KILLED), "node": len(NODES_KILLED)}
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), "each once, and none is missing"
    assert len(numbers) >= KILLS
    assert {(name, code) for _, name, code in answers} == set(CODES.items())
    _, alive = psutil.wait_procs(families, 10)
    assert not alive, "what killed workers had started ends with them"


def wait_for_lines(process: "subprocess.Popen[str]", lines: list[str], count: int) -> None:
    """Wait until the process has printed that many lines, or has ended."""
    wait_until(lambda: len(lines) >= count or process.poll() is not None, LIMIT_S)


def harass(
    cluster: RayCluster, process: "subprocess.Popen[str]", rng: random.Random
) -> tuple[list[list[str]], list[psutil.Process], list[str]]:
    """Kill until all kills are made, then let the process end its works; return its answers."""
    assert process.stdout is not None and process.stdin is not None and process.stderr is not None
    lines: list[str] = []
    stdout, stderr = process.stdout, process.stderr
    reading = threading.Thread(target=lambda: lines.extend(iter(stdout.readline, "")))
    errors: list[str] = []
    noting = threading.Thread(target=lambda: errors.extend(iter(stderr.readline, "")))
    reading.start()
    noting.start()
    wait_for_lines(process, lines, 1)
    families: list[psutil.Process] = []
    killed: list[str] = []
    for number in range(KILLS):
        # On a slow machine the same work would lose its workers one after the other, and break off.
        wait_for_lines(process, lines, len(lines) + len(cluster.nodes))
        wait_until(lambda: bool(cluster.workers()) or process.poll() is not None, 60)
        time.sleep(rng.uniform(0.1, 1.5))
        assert process.poll() is None, "".join(errors)
        if number in NODES_KILLED:
            node = cluster.nodes.pop(rng.randrange(1, len(cluster.nodes)))
            families += [node, *below(node)]
            kill_tree(node)
            cluster.add_node()
            killed.append("node")
            continue
        wait_until(lambda: bool(cluster.workers()), 60)
        worker = rng.choice(cluster.workers())
        families += [worker, *below(worker)]
        worker.send_signal(signal.SIGKILL)
        killed.append("worker")
    process.stdin.close()
    process.wait(LIMIT_S)
    reading.join()
    noting.join()
    assert process.returncode == 0, "".join(errors)
    return [line.split() for line in lines[1:]], families, killed
