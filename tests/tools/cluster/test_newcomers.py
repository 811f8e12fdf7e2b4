"""Machines that join a cluster while a run goes on."""

import time
from pathlib import Path

import pytest
from ray_cluster import below, ray_cluster, wait_until, works_on

from cuda_llm.tools.cluster.newcomers import LOOK_S

GPU = "RTX 3090 Ti"
START_S = 60.0
pytestmark = pytest.mark.evidence


def test_a_machine_that_joins_takes_works_unless_the_run_has_as_many_as_it_may(
    shared_cache: Path,
) -> None:
    with ray_cluster(shared_cache, nodes=1) as cluster:
        spec = f"ray:{cluster.address}/emulated:{GPU}?max_gpus=2"
        with works_on(spec, "3") as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            (first,) = cluster.workers()
            cluster.add_node()
            wait_until(lambda: len(cluster.workers()) == 2, LOOK_S + START_S)
            (second,) = [one for one in cluster.workers() if one.pid != first.pid]
            wait_until(lambda: bool(below(second)), START_S)
            cluster.add_node()
            time.sleep(LOOK_S + 5)
            assert len(cluster.workers()) == 2
            process.stdin.close()
            answers = [line.split() for line in process.stdout]
    assert process.returncode == 0
    assert sorted(int(number) for number, _, _ in answers) == list(range(1, len(answers) + 1))
    assert {(name, code) for _, name, code in answers} == {
        ("right", "PASSED"),
        ("wrong", "WRONG_RESULT"),
    }
