from searches import attempt, situation

from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.search import Components, Hint, Kind

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


def test_replies_without_code_leave_nothing_to_mend() -> None:
    judged = [attempt("r1-c1", code="NO_CODE", source_sha="")]
    assert {one.kind for one in FSR.write_briefs(situation(*judged))} == {Kind.FIRST}


def test_an_older_failure_is_mended_when_the_last_round_left_no_code() -> None:
    judged = [attempt("r1-c1"), attempt("r2-c1", code="NO_CODE", source_sha="")]
    assert {one.parent for one in FSR.write_briefs(situation(*judged))} == {"r1-c1"}


def test_our_own_breakdowns_are_nobodys_failure_to_mend() -> None:
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


def test_hints_of_other_attempts_stay_out_and_the_newest_come_first() -> None:
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
    off = Components(history=False, hints=False, diversity=False)
    given = (Hint(round=1, about="", code="latency", text="unroll"),)
    judged = [attempt("r1-c1", 2.0)]
    now = situation(*judged, incumbent="r1-c1", components=off, performance_hints=given)
    for brief in FSR.write_briefs(now):
        assert (brief.history, brief.performance_hints, brief.direction) == ((), (), "")
        assert not brief.components.history
