"""What the statistics promise, on hundreds of simulated sessions of a noisy machine."""

import numpy as np
import pytest
from simulated_clock import SimulatedGPU, measure

from cuda_llm.tools.timing.estimate import estimate_median
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.timing.stopping import StoppingRule, rule_for

CONFIRM = rule_for(Tier.CONFIRM, sizes=5)
PRECISE = rule_for(Tier.PRECISE, sizes=5)
SCREEN = rule_for(Tier.SCREEN, sizes=5)
TRIALS = {5.0: 20, 50.0: 100, 1000.0: 20}
"""By microseconds of a call."""


@pytest.mark.parametrize("call_us", TRIALS)
def test_a_planted_slowdown_of_three_per_cent_is_called(call_us: float) -> None:
    trials = TRIALS[call_us]
    outcomes = [measure(seed, call_us * 1.03, call_us, PRECISE).outcome for seed in range(trials)]
    assert outcomes.count("slower") >= 0.95 * trials
    assert outcomes.count("faster") == 0


@pytest.mark.parametrize("call_us", TRIALS)
@pytest.mark.parametrize("rule", [PRECISE, CONFIRM, SCREEN], ids=["precise", "confirm", "screen"])
def test_a_kernel_is_not_called_faster_than_itself(call_us: float, rule: StoppingRule) -> None:
    outcomes = [measure(seed, call_us, call_us, rule).outcome for seed in range(TRIALS[call_us])]
    assert outcomes.count("faster") <= TRIALS[call_us] // 100


@pytest.mark.parametrize(("call_us", "within"), [(5.0, 0.03), (50.0, 0.01)])
def test_three_processes_agree(call_us: float, within: float) -> None:
    for first in range(0, 15, 3):
        seen = [
            measure(seed, call_us, call_us, PRECISE).first_us.value
            for seed in range(first, first + 3)
        ]
        assert max(seen) / min(seen) <= 1 + within


@pytest.mark.parametrize("blocks", [6, 12, 30])
def test_the_interval_holds_the_truth_nineteen_times_in_twenty(blocks: int) -> None:
    """Noise with tails, as that of machines has: Student's t of three degrees of freedom."""
    rng = np.random.default_rng(blocks)
    found = [estimate_median(rng.standard_t(3, blocks).tolist(), resamples=400) for _ in range(300)]
    assert sum(one.low <= 0 <= one.high for one in found) >= 0.92 * 300


@pytest.mark.parametrize(("spikes", "spike_us"), [(0.03, 30.0), (0.1, 8000.0), (0.3, 2000.0)])
def test_however_batches_are_held_up_no_call_takes_longer_than_the_most(
    spikes: float, spike_us: float
) -> None:
    """Nearly: what starts take at the quickest is all that could be taken off too much."""
    for seed in range(100):
        gpu = SimulatedGPU(seed, spikes=spikes, spike_us=spike_us)
        assert measure(seed, 200.0, 200.0, SCREEN, gpu=gpu).most_us > 0.95 * 200.0


def test_times_are_right_where_one_batch_in_ten_is_held_up_for_milliseconds() -> None:
    found = [
        measure(seed, 200.0, 200.0, SCREEN, gpu=SimulatedGPU(seed, spikes=0.1, spike_us=2000.0))
        for seed in range(60)
    ]
    assert sum(abs(one.first_us.value / 200.0 - 1) > 0.1 for one in found) <= 1
    assert {one.outcome for one in found} == {"tie"}


def test_a_call_that_takes_next_to_no_time_is_known_to() -> None:
    for seed in range(100):
        assert measure(seed, 2.0, 200.0, SCREEN).most_us < 20.0
