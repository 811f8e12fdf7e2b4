"""A worker with a GPU whose machine has neither g++ nor nvcc gets our native parts sent to it.

Its driver stands in for a GPU's and names one. CuPy stands in, too, without CUDA's libraries: what
the worker has prepared is then looked at from a process of the same kind.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import Ran
from gpu_drivers import attributes_of, build_driver
from ray_cluster import first_in_path, ray_cluster

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.build import gpu_parts

GPU = find_hardware("H200")
CUPY = """
class cuda:
    class nvrtc:
        @staticmethod
        def getVersion():
            raise RuntimeError("libnvrtc.so.13 is not here")
"""
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Machine:
    """A machine with a driver and our package, and nothing else."""

    cache: Path
    environment: Mapping[str, str]

    def run(self, program: str, *arguments: str) -> Any:
        """Return what a program of ours prints there."""
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        environment = {**kept, **self.environment, "CUDA_LLM_CACHE": str(self.cache)}
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A machine without compilers, whose cache is empty."""
    folder = tmp_path / "machine"
    for name in ("driver", "packages", "programs", "cache"):
        (folder / name).mkdir(parents=True)
    built = Path(build_driver(folder / "driver", attributes_of(GPU)))
    built.rename(built.with_name("libcuda.so.1"))
    (folder / "packages/cupy.py").write_text(CUPY)
    # Ray starts workers through it.
    (folder / "programs/bash").symlink_to(Path("/bin/bash").resolve())
    environment = {
        **first_in_path(folder / "packages"),
        "PATH": str(folder / "programs"),
        "LD_LIBRARY_PATH": str(folder / "driver"),
        "CUDA_LLM_NVCC": str(folder / "programs/nvcc"),
    }
    return Machine(folder / "cache", environment)


@pytest.fixture
def device(bare: Machine) -> Iterator[str]:
    """The GPU of a cluster of that one machine."""
    with ray_cluster(bare.cache, nodes=1, environment=bare.environment, gpus=1) as cluster:
        yield f"ray:{cluster.address}"


COMPILERS = """
import json
from cuda_llm.tools.cluster.worker import find_nvcc_version
print(json.dumps(find_nvcc_version()))
"""
PARTS = """
import json, sys
from cuda_llm.errors import MissingError
from cuda_llm.tools.cuda.build import gpu_parts
try:
    print(json.dumps({name: str(file) for name, file in gpu_parts(sys.argv[1]).items()}))
except MissingError as error:
    print(json.dumps(str(error)))
"""
USE = """
import asyncio, ctypes, json, sys
from pathlib import Path
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.runner import start_gpu_runner
from cuda_llm.tools.cuda.site import launch_of
from cuda_llm.tools.sandbox.jail import Jail, run_jailed

async def use():
    folder = Path(sys.argv[1])
    jailed = await run_jailed(["/bin/sh", "-c", "exit 7"], Jail(folder=folder))
    launch = launch_of(find_hardware("H200"), "GPU-1")
    assert ctypes.CDLL(str(launch.shim)).cudaMalloc
    runner = start_gpu_runner(launch)
    try:
        ended = await runner.warm_up(60)
    finally:
        await runner.stop()
    print(json.dumps([jailed.exit_code, ended.final_reply.text]))

asyncio.run(use())
"""


TAMPERED = """
import asyncio, json, sys
from pathlib import Path
from cuda_llm.tools.cluster.parcel import pack, unpack
from cuda_llm.tools.cluster.worker import DeviceWorker, PrepareOrder

parcel = pack(PrepareOrder(parts={"jail": Path(sys.argv[1])}))
((key, files),) = parcel.contents(parcel.bundles.keys()).items()
changed = {name: contents + b"more" for name, contents in files.items()}
reply, _ = asyncio.run(DeviceWorker().prepare(parcel.payload, {key: changed}))
print(json.dumps(str(unpack(reply).error)))
"""


def test_a_part_that_was_changed_on_its_way_is_refused(bare: Machine, tmp_path: Path) -> None:
    part = tmp_path / "jail"
    part.write_bytes(b"a program of ours")
    assert bare.run(TAMPERED, str(part)) == "cluster: files did not arrive as they were sent"
    assert not list(bare.cache.glob("native/*/*")) + list(bare.cache.glob("travelled/*/*"))


@pytest.mark.evidence
def test_a_worker_without_compilers_prepares_its_gpu(
    bare: Machine, device: str, ask: Callable[..., Ran], tmp_path: Path
) -> None:
    assert bare.run(COMPILERS) == ""
    lacking = bare.run(PARTS, GPU.target)
    assert lacking == "g++ is missing; install it: apt-get install g++"

    kernel = ROOT / "tasks/vector_add/baseline.cu"
    ran = ask("evaluate", "vector_add", str(kernel), "--device", device)
    assert "CuPy lacks the libraries of a CUDA toolkit (NVRTC)" in ran.complaint, ran.stderr
    assert (ran.code, ran.complaint.count("\n")) == (3, 0)

    there = {name: Path(one) for name, one in bare.run(PARTS, GPU.target).items()}
    here = gpu_parts(GPU.target)
    assert there.keys() == here.keys()
    for name, file in there.items():
        assert file.is_relative_to(bare.cache)
        assert file.read_bytes() == here[name].read_bytes()

    folder = tmp_path / "private"
    folder.mkdir()
    exit_code, ended = bare.run(USE, str(folder))
    assert exit_code == 7, "the jail runs a program"
    assert "libcuda.so.1: cannot open shared object file" in ended, "the runner asks for the driver"
