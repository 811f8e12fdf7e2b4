"""Runners live in the most confined way in which CUDA works, and what is missing is said."""

import asyncio
from dataclasses import replace

import pytest

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.isolation import GpuIsolation
from cuda_llm.tools.cuda.memory import HostMemory, Memory
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.cuda.runner import Namespaces, RunnerLaunch
from cuda_llm.tools.cuda.site import find_confinement

FULL = GpuIsolation(shared_by=SharedBy.IPC, spaces=Namespaces.ALL, landlock_abi=7)


def lend() -> Memory:
    return HostMemory(4096)


def test_where_nothing_comes_up_the_reason_is_told(launch: RunnerLaunch) -> None:
    dead = replace(launch, device="dead")
    with pytest.raises(InfrastructureError, match=r"none comes up: .*status=4"):
        asyncio.run(find_confinement(dead, lend, 1 << 20))


def test_what_is_missing_is_said_in_words() -> None:
    assert FULL.missing == ()
    assert not FULL.is_tested
    assert replace(FULL, attempts=()).is_tested
    poor = replace(FULL, shared_by=SharedBy.HOST, spaces=Namespaces.NETWORK, landlock_abi=0)
    missing = " ".join(replace(poor, attempts=("forking",)).missing)
    for word in ("host memory", "process namespace", "Landlock", "forking"):
        assert word in missing
    assert "network namespace" not in missing


def test_one_line_sums_it_up() -> None:
    assert FULL.summary == "user, pid, network, ipc namespaces; Landlock 7; seccomp; CUDA IPC"
    assert replace(FULL, attempts=()).summary.endswith("CUDA IPC; self-test passed")
    bare = replace(FULL, spaces=Namespaces.NONE, landlock_abi=0, shared_by=SharedBy.HOST)
    assert bare.summary == "no namespaces; no Landlock; seccomp; host-shared memory"
