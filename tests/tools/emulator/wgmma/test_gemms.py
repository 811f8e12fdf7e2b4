"""Matrix products on warpgroups, end to end."""

import asyncio

import numpy as np
import pytest
from device_calls import Called, call_once, compiled
from recorded_tensor import recorded
from wgmma_gemms import GEMM, GEMMS, M, N, gemm_expected, gemm_operands

from cuda_llm.tools.device import CallOptions, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated


@pytest.fixture(scope="module")
def gemms() -> Compiled:
    return asyncio.run(compiled(GEMM, open_emulated("H200").hardware.target))


def call(code: Compiled, mode: int, options: CallOptions) -> Called:
    values = {"in": gemm_operands(mode), "out": np.full((M, N), np.nan, np.float32)}

    async def once() -> Called:
        async with open_emulated("H200").open(code) as session:
            assert isinstance(session, Session), session
            return await call_once(session, values, ["out"], [mode], options)

    return asyncio.run(once())


@pytest.mark.parametrize("mode", range(len(GEMMS)), ids=GEMMS)
def test_a_product_on_warpgroups_agrees_with_numpy_and_the_hardware(
    gemms: Compiled, mode: int
) -> None:
    for level, seed in [(Level.CHECK, 0), (Level.ACCOUNT, 0), (Level.FULL, 0), (Level.FULL, 5)]:
        called = call(gemms, mode, CallOptions(level=level, schedule_seed=seed, limit_s=20.0))
        assert called.report
        out = called.outputs["out"]
        np.testing.assert_array_equal(out, gemm_expected(mode))
        np.testing.assert_array_equal(out, recorded(f"gemm{mode}", out))
