from pathlib import Path

from searches import attempt, situation

from cuda_llm.agents.strategies.builtin import find_strategy
from cuda_llm.search import Kind

FILE = Path(__file__).parents[2] / "examples/beam_search.py"
BEAM = find_strategy(f"{FILE}:BeamSearch")


def test_the_fastest_of_each_family_are_the_parents() -> None:
    judged = [
        attempt("r1-c1", 2.0),
        attempt("r1-c2", 1.5),
        attempt("r1-c3"),
        attempt("r2-c1", 2.5, parent="r1-c1", kind=Kind.IMPROVE),
        attempt("r2-c2", 2.2, parent="r1-c1", kind=Kind.IMPROVE),
    ]
    briefs = BEAM.write_briefs(situation(*judged, incumbent="r2-c1", candidates=5))
    assert [one.parent for one in briefs] == ["r2-c1", "r1-c2", "r2-c1", "r1-c2", "r2-c1"]


def test_failures_are_mended_while_nothing_passes() -> None:
    briefs = BEAM.write_briefs(situation(attempt("r1-c1"), candidates=2))
    assert [(one.kind, one.parent) for one in briefs] == [(Kind.FIX, "r1-c1")] * 2


def test_it_stops_when_a_round_changed_nothing() -> None:
    held = attempt("r1-c1", 2.0)
    assert BEAM.stop(situation(held, incumbent="r1-c1")) == ""
    slower = attempt("r2-c1", 1.0, parent="r1-c1")
    assert BEAM.stop(situation(held, slower, incumbent="r1-c1")) == "the beam has not changed"
