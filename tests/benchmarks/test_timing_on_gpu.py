"""Timing trials: repeated times agree, and planted differences are found."""

import json
import math
from typing import Any

import pytest
from record import RESULTS
from timing_kernels import TURNS
from timing_on_gpu import agreement, like_unrolled, summarise


@pytest.fixture
def recorded() -> dict[str, Any]:
    """Rows of all trials on an H200, and the summary of that day."""
    found: dict[str, Any] = json.loads((RESULTS / "h200_timing.json").read_text())
    return found


@pytest.fixture
def figures(recorded: dict[str, Any]) -> dict[str, Any]:
    """The summary of the same rows by today's benchmark."""
    return summarise(recorded["rows"])


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


def test_a_planted_loop_is_unrolled_as_the_incumbents() -> None:
    """By the largest power of two, up to 64, that divides its turns."""
    for turns in TURNS.values():
        for share in (0.028, 0.03, 0.0417, 0.06):
            planted = like_unrolled(turns, turns * share)
            assert math.gcd(planted, 64) == math.gcd(turns, 64) == math.gcd(3 * turns, 64)
            assert planted / turns - 1 == pytest.approx(share, abs=0.0025)


def test_duels_are_counted_by_kernel() -> None:
    def row(part: str, trial: str, outcome: str) -> dict[str, Any]:
        ended = {"outcome": outcome, "seconds": 1.0, "first_us": 5.0, "process": 0}
        return {"part": part, "trial": trial, "gpu": "GPU-1", **ended}

    rows = [
        row("repeat", "spinning 5 us", "tie"),
        row("repeat", "conv2d", "slower"),
        row("aa", "5 us #0", "tie"),
        row("aa", "1 ms #1", "faster"),
        {"part": "aa", "trial": "1 ms #2", "fault": {"first": "TIMED_OUT"}},
    ]
    figures = summarise(rows)
    assert figures["repeat_outcomes"]["tie"] == figures["repeat_outcomes"]["slower"] == 1
    assert (figures["aa"]["trials"], figures["aa"]["faults"]) == (2, 1)
    by_kernel = figures["aa"]["by_kernel"]
    assert (
        by_kernel["5 us"]["tie"] == by_kernel["1 ms"]["faster"] == by_kernel["1 ms"]["faults"] == 1
    )


def test_times_of_processes_are_compared_on_one_gpu_alone() -> None:
    times = {("GPU-1", 0): 100.0, ("GPU-1", 1): 101.0, ("GPU-2", 2): 150.0}
    rows = [
        {"trial": "spinning", "gpu": gpu, "process": process, "first_us": time_us}
        for (gpu, process), time_us in times.items()
    ]
    (agreed,) = agreement(rows)
    assert agreed["times_us"] == [100.0, 101.0]
    assert agreed["apart_percent"] == pytest.approx(1.0, abs=0.01)
