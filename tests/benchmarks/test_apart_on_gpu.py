"""Honest kernels on an H200 whose keys were released step by step: none is near the limit."""

import json

from apart_on_gpu import summarise
from record import RESULTS

from cuda_llm.tools.timing.excess import ALLOWED_CALL_SHARE, ALLOWED_CALL_US


def test_stepwise_calls_of_honest_kernels_stay_well_below_the_limit() -> None:
    recorded = json.loads((RESULTS / "h200_apart.json").read_text())
    figures = summarise(recorded["rows"])
    assert {name: recorded[name] for name in figures} == figures
    assert figures["codes"] == {"PASSED": figures["sizes"]}
    assert figures["sizes"] >= 60
    for row in recorded["rows"]:
        allowed_us = ALLOWED_CALL_US + ALLOWED_CALL_SHARE * row["time_us"]
        assert row["stepwise_us"] - row["time_us"] <= 0.8 * allowed_us, row
