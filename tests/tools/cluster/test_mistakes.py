"""What is wrong with a cluster is told in one line with its remedy."""

import shutil
import socket
import subprocess
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import Ran
from ray_cluster import RayCluster, first_in_path, free_port, ray_cluster

from cuda_llm.cli.app import run as main

ROOT = Path(__file__).parents[3]
Ask = Callable[..., Ran]


def evaluate(ask: Ask, device: str) -> Ran:
    return ask("evaluate", "vector_add", str(ROOT / "tasks/vector_add/baseline.cu"),
               "--device", device)  # fmt: skip


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run `cuda-llm` in this process, which Ray does not get to know."""

    def run(*arguments: str) -> Ran:
        return Ran(main([*arguments]), *capsys.readouterr())

    return run


def test_an_address_where_nothing_listens(here: Ask) -> None:
    ran = evaluate(here, f"ray:127.0.0.1:{free_port()}")
    assert ran.code == 3
    assert "no Ray cluster answers at 127.0.0.1:" in ran.complaint
    assert "ray start --head" in ran.complaint


@pytest.mark.evidence
def test_an_address_of_something_else(ask: Ask) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ran = evaluate(ask, f"ray:127.0.0.1:{other.getsockname()[1]}")
    assert ran.code == 3
    assert "no Ray cluster answers at 127.0.0.1:" in ran.complaint


def test_an_address_without_a_port(here: Ask) -> None:
    ran = evaluate(here, "ray://somewhere")
    assert ran.code == 2
    assert "names no port; expected HOST:10001 or HOST:6379" in ran.complaint


@pytest.mark.evidence
def test_a_cluster_without_a_gpu(ask: Ask, cluster: RayCluster) -> None:
    ran = evaluate(ask, f"ray:{cluster.address}")
    assert ran.code == 3
    assert "the cluster has no GPU: 2 machines with 2 cores" in ran.complaint
    assert "ray:auto/emulated:RTX 3090 Ti" in ran.complaint


@pytest.mark.evidence
def test_a_gpu_that_nobody_has_described(ask: Ask, cluster: RayCluster) -> None:
    ran = evaluate(ask, f"ray:{cluster.address}/emulated:RTX 9999")
    assert ran.code == 2
    assert "RTX 9999" in ran.complaint


@pytest.mark.evidence
def test_a_machine_with_other_code_of_ours(ask: Ask, shared_cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(
        ROOT / "src/cuda_llm", other / "cuda_llm", ignore=shutil.ignore_patterns("__pycache__")
    )
    with (other / "cuda_llm/errors.py").open("a") as file:
        file.write("# Another version.\n")
    with ray_cluster(shared_cache, nodes=1, environment=first_in_path(other)) as cluster:
        ran = evaluate(ask, f"ray:{cluster.address}/emulated:RTX 3090 Ti")
    assert ran.code == 2
    assert "runs other code of cuda-llm" in ran.complaint
    assert "install the same version there" in ran.complaint


@pytest.mark.evidence
@pytest.mark.parametrize("by_client", [True, False])
def test_a_cluster_of_another_ray(
    ask: Ask, shared_cache: Path, tmp_path: Path, by_client: bool
) -> None:
    older = tmp_path / "older"
    older.mkdir()
    (older / "sitecustomize.py").write_text("import ray\nray.__version__ = '2.41.0'\n")
    with ray_cluster(shared_cache, nodes=1, environment=first_in_path(older)) as cluster:
        address = cluster.client if by_client else f"ray:{cluster.address}"
        ran = evaluate(ask, f"{address}/emulated:RTX 3090 Ti")
    assert ran.code == 2
    assert "is of another version: Version mismatch" in ran.complaint
    assert "Ray: 2.41.0" in ran.complaint
    assert (
        f"install the Ray and the Python that it runs (here Ray {version('ray')}" in ran.complaint
    )
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.evidence
def test_a_machine_without_this_package(ask: Ask, shared_cache: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "cuda_llm").mkdir(parents=True)
    (hidden / "cuda_llm/__init__.py").write_text("raise ModuleNotFoundError('no cuda_llm here')\n")
    with ray_cluster(shared_cache, nodes=1, environment=first_in_path(hidden)) as cluster:
        ran = evaluate(ask, f"ray:{cluster.address}/emulated:RTX 3090 Ti")
    assert ran.code == 3, subprocess.list2cmdline(ran.stderr.splitlines())
    assert "pip install 'cuda-llm[ray]'" in ran.complaint
