import pytest
from measured_site import MeasuredSite
from timed_vector_adds import BASELINE_US, honest, small_bench, timed, timed_site

from cuda_llm.tools.device import Batch
from cuda_llm.tools.timing.options import MeasureOptions, Tier
from cuda_llm.tools.timing.slope import LONGEST_BATCH_US
from cuda_llm.tools.timing.times import KernelTimes

CONFIRM = MeasureOptions(tier=Tier.CONFIRM)


def calls_of(site: MeasuredSite, name: str) -> list[int]:
    """How many calls each batch had that timed `name`, in order."""
    orders: list[Batch] = site.session_of(name).orders
    return [len(batch.order) for batch in orders if batch.solve]


@pytest.mark.usefixtures("own_cache")
def test_a_kernel_much_slower_than_the_baseline_is_timed_in_few_calls() -> None:
    slow_us = 40 * BASELINE_US
    site = timed_site(honest(slow_us))
    outcome = timed(site, options=CONFIRM)
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[0][1] == pytest.approx(slow_us, rel=0.02)
    # The first block is as long as the baseline's speed suggests.
    later = calls_of(site, "candidate")[2:]
    assert max(later) * slow_us <= LONGEST_BATCH_US
    assert max(calls_of(site, "baseline")) > 5 * max(later)


@pytest.mark.usefixtures("own_cache")
def test_a_slow_baseline_is_not_called_as_often_as_the_quick_kernel_beside_it() -> None:
    site = timed_site(honest(10.0), baseline_us=4000.0)
    outcome = timed(site, small_bench(96, 128))
    assert isinstance(outcome, KernelTimes)
    assert outcome.times[1][1] == pytest.approx(10.0, rel=0.05)
    beside = calls_of(site, "baseline")
    assert max(beside) * 4000.0 <= 1.5 * LONGEST_BATCH_US
    assert max(calls_of(site, "candidate")) > 5 * max(beside)


@pytest.mark.usefixtures("own_cache")
def test_the_pace_at_one_size_spares_a_new_start_at_the_next() -> None:
    site = timed_site(honest(2.0), baseline_us=100.0)
    assert isinstance(timed(site, small_bench(96, 128, 160)), KernelTimes)
    captures = site.session_of("candidate").captures
    # One of the first size is done again with longer batches; nothing is done again afterwards.
    assert captures == 4
