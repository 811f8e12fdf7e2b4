"""A search stops where the hardware has nothing left to give."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from graph_runs import context_in
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import MARGIN, at_the_limit, find_strategy
from cuda_llm.graph.view import situation_of
from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.sizes import least_time

SIZES = ({"n": 1 << 20}, {"n": 1 << 24})


@pytest.fixture(scope="module")
def nothing_yet(tmp_path_factory: pytest.TempPathFactory) -> Situation:
    folder: Path = tmp_path_factory.mktemp("limit")
    situation = situation_of({"task": "vector_add"}, context_in(folder))
    return replace(situation, sizes=SIZES)


def attainable_us(situation: Situation, dims: Mapping[str, int]) -> float:
    return least_time(situation.task, situation.hardware, dims).attainable_us


def at(situation: Situation, *factors: float) -> Situation:
    """With an incumbent that takes so many times the least time at each size."""
    times = (f * attainable_us(situation, d) for f, d in zip(factors, SIZES, strict=True))
    incumbent = Attempt(
        id="r1-c1",
        round=1,
        index=1,
        kind=Kind.FIRST,
        written_by="model",
        code="PASSED",
        times_us=tuple(times),
    )
    return replace(situation, incumbent=incumbent)


def test_vector_add_cannot_beat_its_bytes(nothing_yet: Situation) -> None:
    """Three floats an element at nine tenths of 1,008 GB/s, and a launch."""
    bytes_us = 3 * 4 * (1 << 24) / (0.9 * 1008e3)
    assert attainable_us(nothing_yet, {"n": 1 << 24}) == pytest.approx(bytes_us + 1.0, rel=1e-3)


@given(st.floats(1 / MARGIN + 1e-6, MARGIN - 1e-6))
def test_a_kernel_at_its_roofline_ends_the_search(nothing_yet: Situation, factor: float) -> None:
    assert at_the_limit(at(nothing_yet, factor, factor)) == "r1-c1 runs at the hardware's limit"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("fsr", "r1-c1 runs at the hardware's limit"), ("fsr-paper", ""), ("best-of-n", "")],
)
def test_only_fsr_stops_at_the_hardwares_limit(
    nothing_yet: Situation, name: str, reason: str
) -> None:
    assert find_strategy(name).stop(at(nothing_yet, 1.0, 1.0)) == reason


@given(st.floats(MARGIN + 1e-6, 100))
def test_a_kernel_slower_than_its_roofline_does_not_end_the_search(
    nothing_yet: Situation, factor: float
) -> None:
    assert at_the_limit(at(nothing_yet, factor, factor)) == ""


def test_a_kernel_faster_than_its_roofline_may_become_faster_still(
    nothing_yet: Situation,
) -> None:
    assert at_the_limit(at(nothing_yet, 0.5, 0.5)) == ""


def test_without_an_incumbent_nothing_is_at_its_limit(nothing_yet: Situation) -> None:
    assert at_the_limit(nothing_yet) == ""
