"""What the statistics promise, on hundreds of simulated sessions of a noisy machine."""

import pytest
from simulated_clock import measure

from cuda_llm.tools.timing.stopping import Rule, rule_for
from cuda_llm.tools.timing.tier import Tier

CONFIRM = rule_for(Tier.CONFIRM, sizes=5)
SCREEN = rule_for(Tier.SCREEN, sizes=5)
TRIALS = 100


@pytest.mark.parametrize("call_us", [5.0, 50.0, 1000.0])
def test_a_planted_slowdown_of_three_per_cent_is_called(call_us: float) -> None:
    outcomes = [measure(seed, call_us * 1.03, call_us, CONFIRM).outcome for seed in range(TRIALS)]
    assert outcomes.count("slower") >= 95
    assert outcomes.count("faster") == 0


@pytest.mark.parametrize("call_us", [5.0, 50.0, 1000.0])
@pytest.mark.parametrize("rule", [CONFIRM, SCREEN], ids=["confirm", "screen"])
def test_a_kernel_is_not_called_faster_than_itself(call_us: float, rule: Rule) -> None:
    outcomes = [measure(seed, call_us, call_us, rule).outcome for seed in range(TRIALS)]
    assert outcomes.count("faster") <= 1


@pytest.mark.parametrize(("call_us", "within"), [(5.0, 0.03), (50.0, 0.01)])
def test_three_processes_agree(call_us: float, within: float) -> None:
    for first in range(0, 30, 3):
        seen = [
            measure(seed, call_us, call_us, CONFIRM).first_us.value
            for seed in range(first, first + 3)
        ]
        assert max(seen) / min(seen) <= 1 + within
