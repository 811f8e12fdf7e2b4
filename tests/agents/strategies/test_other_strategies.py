from dataclasses import replace
from pathlib import Path

import pytest
from searches import attempt, situation

from cuda_llm.agents.protocols import Strategy
from cuda_llm.agents.strategies.builtin import BUILTIN_STRATEGIES, BestOfN, FsrPaper, find_strategy
from cuda_llm.errors import UsageError
from cuda_llm.search import Components, Hint, Kind

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


def test_the_paper_mends_one_failed_kernel() -> None:
    judged = [attempt("r1-c1", code="COMPILE_FAILED"), attempt("r1-c2", code="WRONG_RESULT")]
    briefs = FsrPaper().write_briefs(situation(*judged))
    assert {(one.kind, one.parent) for one in briefs} == {(Kind.FIX, "r1-c2")}


def test_the_paper_returns_the_last_rounds_winner_even_when_it_is_slower() -> None:
    judged = [attempt("r2-c1", 1.0), attempt("r2-c2", 1.2)]
    now = situation(attempt("r1-c1", 3.0), *judged, incumbent="r1-c1")
    assert FsrPaper().choose(now, judged).incumbent == "r2-c2"
    assert FsrPaper().choose(now, [attempt("r2-c3")]).incumbent == "r1-c1"


def test_best_of_n_never_looks_back() -> None:
    judged = [attempt("r1-c1", 2.0), attempt("r1-c2")]
    briefs = BestOfN().write_briefs(situation(*judged, incumbent="r1-c1"))
    assert {(one.kind, one.parent, one.history) for one in briefs} == {(Kind.FIRST, None, ())}
    assert not briefs[0].components.hints


@pytest.mark.parametrize("strategy", [BestOfN(), FsrPaper()])
def test_what_the_user_says_reaches_also_those_who_are_told_nothing_learned(
    strategy: Strategy,
) -> None:
    learned = Hint(round=1, about="", code="PASSED", text="learned")
    said = replace(learned, code="USER", text="said", by="user")
    now = replace(situation(attempt("r1-c1", 2.0)), performance_hints=(learned, said))
    for brief in strategy.write_briefs(now):
        assert brief.performance_hints == (said,)


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
    ("name", "told"),
    [
        ("fast", "unknown strategy 'fast'; there are fsr, fsr-paper, best-of-n"),
        ("nowhere.at:All", "cannot import nowhere.at: ModuleNotFoundError"),
        ("nowhere/at.py:All", "no such file nowhere/at.py"),
        ("cuda_llm.search:Nothing", "cuda_llm.search has no 'Nothing'"),
    ],
)
def test_an_unknown_strategy_is_told_with_what_there_is(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        find_strategy(name)
