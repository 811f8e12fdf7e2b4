"""What becomes of a candidate when the device breaks under it, and what its verdict says."""

import asyncio
from dataclasses import replace

import pytest

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import ElementKind, InfraFailed, Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import Device, ForwardingDevice, T, Work
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.judge import assemble_passed, judge, open_bench, validate_compiled
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

TASK = load_task("vector_add")


class BreakingDevice(ForwardingDevice):
    """Raises `errors`, one a work, and is sound afterwards."""

    def __init__(self, device: Device, errors: list[Exception]) -> None:
        super().__init__(device)
        self.errors = errors

    async def carry_out(self, work: Work[T]) -> T:
        if self.errors:
            raise self.errors.pop()
        return await super().carry_out(work)


def judged(*errors: Exception) -> Judged:
    device = BreakingDevice(EmulatedDevice(find_hardware("RTX 3090 Ti")), list(errors))

    async def timed() -> KernelTimes:
        raise AssertionError("nothing was timed")

    async def whole() -> Judged:
        baseline = asyncio.ensure_future(timed())
        try:
            source = TASK.baseline.read_text(encoding="utf-8")
            return await judge(open_bench(TASK, device), source, "mine.cu", baseline=baseline)
        finally:
            baseline.cancel()

    return asyncio.run(whole())


def test_a_candidate_that_breaks_a_sound_device_twice_gets_a_verdict() -> None:
    died = BrokenByWork("device", "cuda:0: it ended with status -9")
    result = judged(died, died)
    assert result.verdict.code == "INFRA_DEVICE"
    assert result.compiled is not None


def test_machinery_that_stays_broken_costs_its_own_candidate_alone() -> None:
    result = judged(*[InfrastructureError("runner", "did not start")] * 3)
    assert result.verdict == InfraFailed(component="referee", detail="runner: did not start")


@pytest.mark.parametrize(
    "error", [DeviceLost("device", "cuda:0 is in quarantine"), ZeroDivisionError("a bug of ours")]
)
def test_a_lost_device_and_a_bug_are_raised(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        judged(error)


@pytest.mark.parametrize(("timed_on", "name"), [("cuda:1 H", "cuda:1 H"), ("", "emulated ")])
def test_a_verdict_says_on_which_device_it_was_timed(timed_on: str, name: str) -> None:
    device = EmulatedDevice(find_hardware("RTX 3090 Ti"))
    timing = KernelTimes(times=(({"n": 1}, 2.0),), launches=(), bottlenecks=(), device=timed_on)

    async def verdict() -> Passed:
        compiled = await compile_source(
            TASK, device, TASK.baseline.read_text(encoding="utf-8"), "mine.cu"
        )
        assert isinstance(compiled, Compiled)
        return assemble_passed(TASK, device, compiled, Validated(), timing, timing)

    profile = asyncio.run(verdict()).profile
    assert profile is not None
    assert profile.device.startswith(name)


ADD = """
#include <cuda_fp16.h>
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = VALUE;
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
    add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ("(a[i] + b[i]) * 1.0003f", None),
        ("__half2float(__float2half(a[i] + b[i]))", ElementKind.ROUNDED_TO_TF32),
    ],
)
def test_rounding_to_a_short_type_is_suspected_only_where_the_code_has_one(
    value: str, pattern: ElementKind | None
) -> None:
    device = open_emulated("H200")
    task = load_task("vector_add")
    narrow = [
        replace(one, distributions=("uniform(1, 2)",)) if one.distributions else one
        for one in task.arguments
    ]
    task = replace(task, arguments=tuple(narrow))

    async def validated() -> object:
        compiled = await compile_source(task, device, ADD.replace("VALUE", value), "solve.cu")
        assert isinstance(compiled, Compiled), compiled
        return await validate_compiled(task, device, compiled)

    found = asyncio.run(validated())
    assert isinstance(found, WrongResult), found
    seen = found.looks_like
    assert (None if seen is None else seen.kind) == pattern
