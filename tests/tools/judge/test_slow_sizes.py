"""What becomes of a kernel at a size that the emulated device does not finish in time."""

import asyncio
from dataclasses import replace

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import TimedOut, Verdict
from cuda_llm.settings import settings
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import HiddenSizes, Task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.judge import validate_compiled
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.validator.validate import Validated

MANY = 1 << 20
"""Blocks that take minutes where each does what the kernel has it do."""
SLOW = """
#include <cuda_runtime.h>
__global__ void add(const float* x, const float* y, float* z, int n, int turns)
{
    float s = 0.0f;
    for (int k = 0; k < turns; ++k) s = s * 0.5f + __int_as_float(k & 0x007fffff);
    if (blockIdx.x < n) z[blockIdx.x] = s == 77.0f ? s : x[blockIdx.x] + y[blockIdx.x];
}
extern "C" void solve(const float* x, const float* y, float* z, int n)
{
    add<<<n, 1>>>(x, y, z, n, TURNS);
}
"""


@pytest.fixture
def two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CALL_LIMIT_S", "2")
    assert settings().call_limit_s == 2


def sized(edge: tuple[int, ...]) -> Task:
    """Vector addition at these edge sizes, and one small emulated size."""
    task = load_task("vector_add")
    small = ({"n": 64},)
    sizes = replace(
        task.sizes,
        edge=tuple({"n": n} for n in edge),
        emulated=small,
        bench=small,
        large=(),
        hidden=HiddenSizes(dims={}),
    )
    return replace(task, sizes=sizes)


def validated(task: Task, source: str) -> Validated | Verdict | FailedCase:
    device = EmulatedDevice(find_hardware("RTX 3090 Ti"))

    async def run() -> Validated | Verdict | FailedCase:
        compiled = await compile_source(task, device, source, "slow.cu")
        assert isinstance(compiled, Compiled)
        return await validate_compiled(task, device, compiled)

    return asyncio.run(run())


@pytest.mark.usefixtures("two_seconds")
def test_a_size_at_which_blocks_keep_ending_is_left_out_and_named() -> None:
    outcome = validated(sized((1, 33, MANY)), SLOW.replace("TURNS", "n > 1000 ? 20000 : 10"))
    assert isinstance(outcome, Validated)
    assert [note for note in outcome.notes if f"{MANY:,}" in note]


@pytest.mark.usefixtures("two_seconds")
def test_a_loop_without_an_end_is_no_slow_size() -> None:
    outcome = validated(sized((1, 33)), SLOW.replace("TURNS", "n == 33 ? 2147483647 : 10"))
    assert isinstance(outcome, TimedOut)
    assert not outcome.only_slow
