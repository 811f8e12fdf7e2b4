"""Batches of large calls begin when what moved memory before them is over."""

import asyncio

import pytest
from measured_site import Call, MeasuredSession
from simulated_loop import run_simulated
from timed_vector_adds import honest, small_bench

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.timing.batches import (
    LARGE_BYTES,
    SETTLE_S,
    BatchRules,
    run_pair,
    secret_rng,
    settle_s_for,
)
from cuda_llm.tools.timing.options import L2
from cuda_llm.tools.timing.slope import BatchLengths, BatchPair, start_us
from cuda_llm.tools.timing.slots import InputPlan, PreparedKernel, prepare_kernel
from cuda_llm.tools.validator.oracle import reference_oracle

SLOW_S = 0.005
CALL_US, LOST_US = 1400.0, 400.0
LENGTHS = BatchLengths(short=(1, 1), long=(2, 2))


def starts_us(settle_s: float) -> list[float]:
    """What batches seem to begin with where a single call is slow soon after another one.

    Waits are simulated: a busy machine adds none.
    """
    ended_s = 0.0
    add = honest(CALL_US)

    def slow_after_work(call: Call) -> float:
        nonlocal ended_s
        add(call)
        now_s = asyncio.get_running_loop().time()
        is_slow = call.calls == 1 and now_s - ended_s < SLOW_S
        ended_s = now_s
        return CALL_US + LOST_US * is_slow

    async def run() -> list[float]:
        task = small_bench(96)
        inputs = InputPlan(task=task, dims={"n": 96}, arrays=HOST)
        session = MeasuredSession(slow_after_work)
        kernel = await prepare_kernel(session, inputs, 2, trusted=False)
        assert isinstance(kernel, PreparedKernel)
        rules = BatchRules(
            oracle=reference_oracle(task),
            rng=secret_rng(),
            l2=L2.COLD,
            limit_s=2.0,
            settle_s=settle_s,
        )
        pairs = [await run_pair(kernel, LENGTHS, rules) for _ in range(4)]
        return [start_us(pair) for pair in pairs if isinstance(pair, BatchPair)]

    return run_simulated(run())[0]


def test_a_first_call_is_slow_soon_after_other_work() -> None:
    assert all(start > LOST_US for start in starts_us(0.0)[1:])


def test_it_is_as_quick_as_the_next_ones_after_a_wait() -> None:
    found = starts_us(SETTLE_S)
    assert len(found) == 4 and all(start < LOST_US / 2 for start in found)


@pytest.mark.parametrize(
    ("n", "waits_s"), [(1 << 20, 0.0), (LARGE_BYTES // 12, SETTLE_S), (LARGE_BYTES // 16, 0.0)]
)
def test_only_large_calls_wait(n: int, waits_s: float) -> None:
    """A sum of vectors has three buffers of four bytes an element."""
    assert settle_s_for(load_task("vector_add"), {"n": n}) == waits_s
