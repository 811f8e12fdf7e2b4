"""Nothing in the protocol touches device memory in a way that CuPy would refuse."""

import pytest
from measured_site import MeasuredSite, Script
from strict_arrays import strict_arrays
from timed_vector_adds import (
    honest,
    late,
    late_in_one_call,
    overruns,
    small_bench,
    timed,
    timed_site,
    writes_an_input_in_one_call,
    writes_its_input,
    wrong_in_the_last_call,
)

from cuda_llm.outcomes import InputMutated, LateWrite
from cuda_llm.tools.timing.times import KernelTimes

pytestmark = pytest.mark.usefixtures("own_cache")


def strict_site(script: Script) -> MeasuredSite:
    arrays, _ = strict_arrays()
    plain = timed_site(script)
    return MeasuredSite(hardware=plain.hardware, scripts=plain.scripts, arrays=arrays)


def test_an_honest_kernel_is_timed() -> None:
    outcome = timed(strict_site(honest(25.0)))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(25.0, rel=0.02)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (wrong_in_the_last_call, "WRONG_RESULT"),
        (late, "LATE_WRITE"),
        (late_in_one_call, "LATE_WRITE"),
        (writes_its_input, "INPUT_MUTATED"),
        (writes_an_input_in_one_call, "INPUT_MUTATED"),
        (overruns, "GUARD_OVERWRITTEN"),
    ],
)
def test_tricks_end_in_their_verdicts(script: Script, code: str) -> None:
    outcome = timed(strict_site(script), small_bench(96))
    assert getattr(outcome, "code", None) == code


def test_a_fault_in_one_slot_of_many_is_blamed_on_its_buffer() -> None:
    site = strict_site(writes_an_input_in_one_call)
    assert timed(site) == InputMutated(buffer="B")
    assert max(len(one.order) for one in site.session_of("candidate").orders) > 1
    assert timed(strict_site(late_in_one_call)) == LateWrite(buffer="C")


def test_a_batch_is_looked_at_in_few_transfers() -> None:
    """Each waits for the device, so that a batch of many calls must not ask call by call."""
    site = strict_site(honest(2.0))
    assert isinstance(timed(site), KernelTimes)
    batches = site.session_of("candidate").orders
    calls = sum(len(batch.order) for batch in batches)
    assert calls > 10 * len(batches)
    assert site.arrays.xp.waits < 30 * len(batches) < calls * 3
