"""A Ray cluster of two node processes, and our commands on it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import Ran
from ray_cluster import RayCluster, ray_cluster

GPU = "RTX 3090 Ti"
LIMIT_S = 900.0
Start = Callable[..., "subprocess.Popen[str]"]
Ask = Callable[..., Ran]


@pytest.fixture(scope="package")
def cluster(shared_cache: Path) -> Iterator[RayCluster]:
    """Two nodes with a core each, whose workers share a cache."""
    with ray_cluster(shared_cache, nodes=2) as running:
        yield running


@pytest.fixture
def device(cluster: RayCluster) -> str:
    """The emulated device on the cluster's cores."""
    return f"ray:{cluster.address}/emulated:{GPU}"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `cuda-llm` with these arguments; whatever still runs is killed."""
    running: list[subprocess.Popen[str]] = []

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "cuda-llm"), *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        return process

    yield begin
    for one in running:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


@pytest.fixture
def ask(start: Start) -> Ask:
    """Run `cuda-llm` to its end."""

    def run(*arguments: str) -> Ran:
        process = start(*arguments)
        stdout, stderr = process.communicate(timeout=LIMIT_S)
        return Ran(process.returncode, stdout, stderr)

    return run
