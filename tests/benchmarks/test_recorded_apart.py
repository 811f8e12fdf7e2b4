"""Honest kernels on an H200, keys handed out step by step: nobody is near an accusation."""

import json
from pathlib import Path

import pytest

from cuda_llm.tools.measure.excess import ALLOWED_CALL_SHARE, ALLOWED_CALL_US

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_what_honest_calls_take_more_is_well_below_what_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from apart_on_gpu import summarise  # type: ignore[import-not-found, unused-ignore]

    recorded = json.loads((BENCHMARKS / "results/h200_apart.json").read_text())
    figures = summarise(recorded["rows"])
    assert {name: recorded[name] for name in figures} == figures
    assert figures["codes"] == {"PASSED": figures["sizes"]}
    assert figures["sizes"] >= 60
    for row in recorded["rows"]:
        allowed_us = ALLOWED_CALL_US + ALLOWED_CALL_SHARE * row["time_us"]
        assert row["stepwise_us"] - row["time_us"] <= 0.8 * allowed_us, row
