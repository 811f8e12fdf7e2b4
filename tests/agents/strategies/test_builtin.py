"""The strategies that ship: which briefs they write, what they choose, when they stop."""

from dataclasses import replace
from pathlib import Path

import pytest
from searches import attempt, situation

from cuda_llm.agents.protocols import Strategy
from cuda_llm.agents.strategies.builtin import (
    BUILTIN_STRATEGIES,
    BestOfN,
    Fsr,
    FsrPaper,
    find_strategy,
)
from cuda_llm.components import Components
from cuda_llm.errors import UsageError
from cuda_llm.search import Hint, Kind

FSR = Fsr()


def test_the_first_round_asks_for_first_kernels_in_different_directions() -> None:
    briefs = FSR.write_briefs(situation(candidates=4))
    assert [one.id for one in briefs] == ["r1-c1", "r1-c2", "r1-c3", "r1-c4"]
    assert {one.kind for one in briefs} == {Kind.FIRST}
    assert len({one.direction for one in briefs}) == 4


def test_while_nothing_passes_each_distinct_failure_is_retried() -> None:
    judged = [
        attempt("r1-c1", code="COMPILE_FAILED", summary='identifier "foo" is undefined'),
        attempt("r1-c2", code="WRONG_RESULT", summary="1 of 14 cases: n = 3"),
        attempt("r1-c3", code="WRONG_RESULT", summary="2 of 14 cases: n = 7"),
        attempt("r1-c4", code="NO_CODE", source_sha=""),
    ]
    briefs = FSR.write_briefs(situation(*judged, candidates=4))
    assert [one.kind for one in briefs] == [Kind.FIX] * 4
    assert [one.parent for one in briefs] == ["r1-c2", "r1-c1", "r1-c2", "r1-c1"]
    assert briefs[0].history == ("r1-c1", "r1-c2", "r1-c3", "r1-c4")


def test_failures_of_one_code_and_different_causes_are_retried_apart() -> None:
    last_tile = "WRONG_RESULT/C/located/last-elements"
    judged = [
        attempt("r1-c1", code="WRONG_RESULT", failure=last_tile, summary="1 of 14 cases: n = 3"),
        attempt("r1-c2", code="WRONG_RESULT", failure="WRONG_RESULT/C/zeros"),
        attempt("r1-c3", code="WRONG_RESULT", failure=last_tile, summary="2 of 14 cases: n = 7"),
    ]
    briefs = FSR.write_briefs(situation(*judged, candidates=2))
    assert [one.parent for one in briefs] == ["r1-c1", "r1-c2"]


def test_replies_without_code_leave_nothing_to_fix() -> None:
    judged = [attempt("r1-c1", code="NO_CODE", source_sha="")]
    assert {one.kind for one in FSR.write_briefs(situation(*judged))} == {Kind.FIRST}


def test_an_older_failure_is_fixed_when_the_last_round_left_no_code() -> None:
    judged = [attempt("r1-c1"), attempt("r2-c1", code="NO_CODE", source_sha="")]
    assert {one.parent for one in FSR.write_briefs(situation(*judged))} == {"r1-c1"}


def test_a_failure_of_our_own_parts_is_not_fixed() -> None:
    judged = [attempt("r1-c1", code="INFRA_RUNNER")]
    assert {one.kind for one in FSR.write_briefs(situation(*judged))} == {Kind.FIRST}


def test_once_something_passed_the_incumbent_is_improved() -> None:
    judged = [attempt("r1-c1"), attempt("r1-c2", 2.0)]
    briefs = FSR.write_briefs(situation(*judged, incumbent="r1-c2"))
    assert {(one.kind, one.parent) for one in briefs} == {(Kind.IMPROVE, "r1-c2")}


def test_after_rounds_without_gain_some_leave_the_structure() -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r2-c1", 1.0), attempt("r3-c1", 1.0)]
    briefs = FSR.write_briefs(situation(*judged, incumbent="r1-c1", candidates=6, patience=2))
    assert [one.kind for one in briefs] == [Kind.IMPROVE] * 4 + [Kind.DEPART] * 2
    assert len({one.direction for one in briefs}) == 6


def test_it_stops_after_twice_the_patience_without_gain() -> None:
    judged = [attempt(f"r{number}-c1", 2.0) for number in range(1, 4)]
    assert FSR.stop(situation(*judged, incumbent="r1-c1", patience=1)) == "2 rounds without gain"
    assert FSR.stop(situation(*judged, incumbent="r2-c1", patience=1)) == ""
    assert FSR.stop(situation(attempt("r1-c1"), patience=1)) == ""


def test_briefs_hold_hints_on_their_parent_alone_newest_first() -> None:
    def hint(round_number: int, about: str) -> Hint:
        return Hint(round=round_number, about=about, code="latency", text="unroll")

    given = (hint(1, "r1-c1"), hint(1, "r1-c2"), hint(2, ""))
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2", 1.0)]
    briefs = FSR.write_briefs(situation(*judged, incumbent="r1-c1", performance_hints=given))
    assert [(one.round, one.about) for one in briefs[0].performance_hints] == [
        (2, ""),
        (1, "r1-c1"),
    ]


def test_what_the_user_switched_off_is_not_in_the_briefs() -> None:
    off = ("history", "hints", "diversity")
    given = (Hint(round=1, about="", code="latency", text="unroll"),)
    judged = [attempt("r1-c1", 2.0)]
    now = situation(*judged, incumbent="r1-c1", without=off, performance_hints=given)
    for brief in FSR.write_briefs(now):
        assert (brief.history, brief.performance_hints, brief.direction) == ((), (), "")
        assert not brief.components.history


MINE = """
class Mine:
    name, deduplicate, components = "mine", True, None
    def write_briefs(self, situation): return ()
    def choose(self, situation, judged): ...
    def stop(self, situation): return "at once"
half = object()
"""


def test_the_paper_gives_all_candidates_one_prompt_of_latency_alone() -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2", 3.0)]
    briefs = FsrPaper().write_briefs(situation(*judged, incumbent="r1-c2"))
    assert {(one.kind, one.parent, one.direction) for one in briefs} == {
        (Kind.IMPROVE, "r1-c2", "")
    }
    shown = briefs[0].components
    assert shown == Components(hints=False, profile=False, baseline=False, diversity=False)


def test_the_paper_fixes_one_failed_kernel() -> None:
    judged = [attempt("r1-c1", code="COMPILE_FAILED"), attempt("r1-c2", code="WRONG_RESULT")]
    briefs = FsrPaper().write_briefs(situation(*judged))
    assert {(one.kind, one.parent) for one in briefs} == {(Kind.FIX, "r1-c2")}


def test_the_paper_returns_the_last_rounds_winner_even_when_it_is_slower() -> None:
    judged = [attempt("r2-c1", 1.0), attempt("r2-c2", 1.2)]
    now = situation(attempt("r1-c1", 3.0), *judged, incumbent="r1-c1")
    assert FsrPaper().choose(now, judged).incumbent == "r2-c2"
    assert FsrPaper().choose(now, [attempt("r2-c3")]).incumbent == "r1-c1"


def test_best_of_n_gives_no_history_and_no_hints() -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2")]
    briefs = BestOfN().write_briefs(situation(*judged, incumbent="r1-c1"))
    assert {(one.kind, one.parent, one.history) for one in briefs} == {(Kind.FIRST, None, ())}
    assert not briefs[0].components.hints


@pytest.mark.parametrize("strategy", [BestOfN(), FsrPaper()])
def test_a_users_hint_is_in_the_briefs_of_every_strategy(
    strategy: Strategy,
) -> None:
    learned = Hint(round=1, about="", code="PASSED", text="learned")
    from_user = replace(learned, code="USER", text="wanted", by="user")
    now = replace(situation(attempt("r1-c1", 2.0)), performance_hints=(learned, from_user))
    for brief in strategy.write_briefs(now):
        assert brief.performance_hints == (from_user,)


def test_best_of_n_keeps_the_best_ever_and_uses_its_whole_budget() -> None:
    slower = [attempt("r2-c1", 1.0)]
    now = situation(attempt("r1-c1", 3.0), *slower, incumbent="r1-c1", patience=1)
    assert BestOfN().choose(now, slower).incumbent == "r1-c1"
    assert BestOfN().stop(now) == ""


@pytest.mark.parametrize("name", BUILTIN_STRATEGIES)
def test_every_shipped_strategy_is_found_by_its_own_name(name: str) -> None:
    assert find_strategy(name).name == name


def test_a_users_own_strategy_is_found_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    assert find_strategy(f"{file}:Mine").stop(situation()) == "at once"
    with pytest.raises(
        UsageError, match="lacks name, deduplicate, components, write_briefs, choose, stop"
    ):
        find_strategy(f"{file}:half")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fast", "unknown strategy 'fast'; there are fsr, fsr-paper, best-of-n"),
        ("nowhere.at:All", "cannot import nowhere.at: ModuleNotFoundError"),
        ("nowhere/at.py:All", "no such file nowhere/at.py"),
        ("cuda_llm.search:Nothing", "cuda_llm.search has no 'Nothing'"),
    ],
)
def test_an_unknown_strategy_is_refused_with_the_known_names(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_strategy(name)
