from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reflection_scenes import judged, passed
from searches import attempt, situation

from cuda_llm.agents.strategies.acceptance import TIE, choose_fastest
from cuda_llm.outcomes import Passed
from cuda_llm.profile import SizeTime


def test_the_first_kernel_that_passes_becomes_the_incumbent() -> None:
    judged = [attempt("r1-c1"), attempt("r1-c2", 0.8), attempt("r1-c3", 1.5)]
    choice = choose_fastest(situation(*judged), judged)
    assert choice.incumbent == "r1-c3"
    assert choice.verdicts == {"r1-c3": "won", "r1-c2": "slower"}


def test_there_is_no_incumbent_while_nothing_passes() -> None:
    judged = [attempt("r1-c1"), attempt("r1-c2")]
    choice = choose_fastest(situation(*judged), judged)
    assert choice.incumbent is None
    assert choice.reason == "nothing has passed yet"


def test_a_round_in_which_nothing_passes_keeps_the_incumbent_and_says_why_alone() -> None:
    before, failed = attempt("r1-c1", 2.0), attempt("r2-c1")
    choice = choose_fastest(situation(before, failed, incumbent="r1-c1"), [failed])
    assert choice.incumbent == "r1-c1"
    assert choice.reason == "nothing of this round passed"


def test_a_tie_keeps_the_incumbent() -> None:
    before, contender = attempt("r1-c1", 2.0), attempt("r2-c1", 2.03)
    choice = choose_fastest(situation(before, contender, incumbent="r1-c1"), [contender])
    assert choice.incumbent == "r1-c1"
    assert choice.verdicts == {"r2-c1": "tie"}


@pytest.mark.parametrize(("spread", "outcome"), [(0.06, "tie"), (0.03, "won")])
def test_a_gain_within_the_doubt_of_both_scores_is_a_tie(spread: float, outcome: str) -> None:
    """Two sizes that are known within 3 % make a score that is known within 2.1 %."""
    before, contender = (
        attempt(name, speedup, spread=spread) for name, speedup in (("r1-c1", 2.0), ("r2-c1", 2.1))
    )
    at = situation(before, contender, incumbent="r1-c1")
    assert len(at.sizes) == 2
    assert choose_fastest(at, [contender]).verdicts == {"r2-c1": outcome}


@pytest.mark.parametrize(("spreads", "outcome"), [((0.06, 0.06), "tie"), ((0.06, 0.01), "won")])
def test_each_size_counts_with_its_own_doubt(spreads: tuple[float, ...], outcome: str) -> None:
    """A size that was hard to time leaves the score of both sizes known well enough."""
    kept = [
        (attempt(name, speedup, spread=max(spreads)), "", timed_within(spreads))
        for name, speedup in (("r1-c1", 2.0), ("r2-c1", 2.1))
    ]
    at = judged(*kept, incumbent="r1-c1")
    assert choose_fastest(at, [at.attempt("r2-c1")]).verdicts == {"r2-c1": outcome}


def timed_within(spreads: tuple[float, ...]) -> Passed:
    """A verdict with intervals of these relative half-widths around the times at two sizes."""
    verdict = passed()
    sizes = tuple(
        SizeTime(dims={"rows": n}, time_us=1.0, baseline_us=2.0, source="measured", spread=one)
        for n, one in enumerate(spreads, 1)
    )
    assert verdict.profile is not None
    return replace(verdict, profile=replace(verdict.profile, sizes=sizes))


def test_a_size_that_becomes_much_slower_keeps_the_incumbent_and_is_named() -> None:
    before = attempt("r1-c1", 2.0, times_us=(50.0, 100.0))
    contender = attempt("r2-c1", 4.0, times_us=(60.0, 10.0))
    choice = choose_fastest(situation(before, contender, incumbent="r1-c1"), [contender])
    assert choice.incumbent == "r1-c1"
    assert choice.verdicts["r2-c1"].startswith("regression: 1.20x the time at rows = ")
    assert choice.reason == "the others were a regression"


def test_the_next_fastest_wins_when_the_fastest_regresses() -> None:
    before = attempt("r1-c1", 2.0, times_us=(50.0, 100.0))
    regresses = attempt("r2-c1", 4.0, times_us=(60.0, 10.0))
    sound = attempt("r2-c2", 3.0)
    judged = [regresses, sound]
    choice = choose_fastest(situation(before, *judged, incumbent="r1-c1"), judged)
    assert choice.incumbent == "r2-c2"
    assert choice.verdicts["r2-c2"] == "won"


def test_among_equals_the_earlier_index_wins() -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2", 2.0)]
    choice = choose_fastest(situation(*judged), list(reversed(judged)))
    assert choice.incumbent == "r1-c1"
    assert choice.verdicts["r1-c2"] == "tie"


@given(
    before=st.none() | st.floats(0.1, 50),
    speedups=st.lists(st.none() | st.floats(0.1, 50), min_size=1, max_size=6),
)
def test_the_incumbent_never_becomes_slower(
    before: float | None, speedups: list[float | None]
) -> None:
    held = [] if before is None else [attempt("r1-c1", before)]
    judged = [attempt(f"r2-c{index}", one) for index, one in enumerate(speedups, start=1)]
    now = situation(*held, *judged, incumbent="r1-c1" if held else None)
    choice = choose_fastest(now, judged)
    after = None if choice.incumbent is None else now.attempt(choice.incumbent).speedup
    best = max((one for one in (before, *speedups) if one is not None), default=None)
    assert (after is None) == (best is None)
    if after is not None and best is not None:
        assert after >= best * (1 - TIE)
        assert before is None or after >= before


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_order_of_judging_does_not_matter(order: tuple[int, ...]) -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2", 3.0), replace(attempt("r1-c3"), code="TIE")]
    now = situation(*judged)
    assert choose_fastest(now, [judged[i] for i in order]) == choose_fastest(now, judged)
