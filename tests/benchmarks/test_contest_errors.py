"""What contests promise, on simulated ones with the noise of an H200."""

import json
import statistics
from typing import Any

import pytest
from contest_errors import PLANTED, TASKS, read_noise, simulate
from record import RESULTS

TRIALS = 150


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """What two thousand contests of each came to."""
    found: dict[str, Any] = json.loads((RESULTS / "contest_errors.json").read_text())
    return found


@pytest.mark.parametrize("task", TASKS)
def test_a_kernel_is_hardly_ever_called_faster_than_itself(task: str) -> None:
    found = simulate(task, 0.0, TRIALS)
    assert found["faster"] <= 0.02
    assert found["tie"] >= 0.95


@pytest.mark.parametrize("task", TASKS)
def test_three_per_cent_are_called_and_one_is_never_called_wrong(task: str) -> None:
    assert simulate(task, 0.03, TRIALS)["slower"] >= 0.95
    assert simulate(task, 0.01, TRIALS)["faster"] <= 0.02
    assert simulate(task, -0.03, TRIALS)["faster"] >= 0.95


def test_a_clear_difference_costs_less_than_a_small_one() -> None:
    for task in TASKS:
        clear, small = simulate(task, 0.1, 30), simulate(task, 0.015, 30)
        assert clear["mean_blocks"] < small["mean_blocks"]


def test_the_noise_is_what_was_recorded() -> None:
    noise = read_noise()
    assert {name for sizes in TASKS.values() for name in sizes} <= noise.keys()
    assert 0.005 < noise["spinning 1 ms"].deviation < 0.01
    assert noise["vector_add 02_float4_tail.cu 4194304"].process > 0.005


def test_what_was_recorded_keeps_what_is_promised(recorded: dict[str, Any]) -> None:
    assert recorded["trials"] >= 1000
    assert recorded["tasks"].keys() == TASKS.keys()
    for rows in recorded["tasks"].values():
        by_planted = {row["planted_percent"]: row for row in rows}
        assert sorted(by_planted) == [100 * planted for planted in PLANTED]
        assert by_planted[0.0]["faster"] <= 0.01
        assert by_planted[1.0]["faster"] <= 0.05
        assert by_planted[3.0]["slower"] >= 0.95
        assert by_planted[0.0]["median_s"] <= 3.2
    seconds = [row["median_s"] for rows in recorded["tasks"].values() for row in rows]
    assert statistics.median(seconds) <= 3.0
