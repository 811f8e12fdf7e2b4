"""What was measured on an H200, put together anew: times repeat, and differences are told."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def recorded() -> dict[str, Any]:
    """Rows of all trials, and what was made of them then."""
    found: dict[str, Any] = json.loads((BENCHMARKS / "results/h200_timing.json").read_text())
    return found


@pytest.fixture
def figures(recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the benchmark makes of the rows now."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from timing_on_gpu import summarise  # type: ignore[import-not-found, unused-ignore]

    assert "timing_on_gpu" in sys.modules
    made: dict[str, Any] = summarise(recorded["rows"])
    return made


def test_the_analysis_gives_what_was_recorded(
    recorded: dict[str, Any], figures: dict[str, Any]
) -> None:
    assert {name: recorded[name] for name in figures} == figures


def test_processes_agree_on_a_time(figures: dict[str, Any]) -> None:
    for one in figures["repeat"]:
        allowed = 1.0 if one["median_us"] >= 49.5 else 3.0
        assert one["apart_percent"] <= allowed, one


def test_a_kernel_ties_with_itself_and_a_planted_slow_down_is_called(
    figures: dict[str, Any],
) -> None:
    assert figures["aa"]["faster"] <= figures["aa"]["trials"] / 100
    assert figures["repeat_outcomes"]["faster"] == 0
    assert figures["planted"]["slower"] >= 0.95 * figures["planted"]["trials"]
