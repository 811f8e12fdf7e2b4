"""How a run ended: a winner that fails its last check is told, with the reason."""

from pathlib import Path

import pytest
from recorded_run import beginning, ending, write_run

from cuda_llm.traces.ending_text import describe_ending
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import Event, RunFinished, WinnerRemeasured
from cuda_llm.traces.find import find_run, spell_run
from cuda_llm.traces.history import read_history
from cuda_llm.traces.report.gather import gather
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import state_of

REASON = "2 of 9 cases: rows = 5, cols = 3, output[1] is 4, should be 5; 3 of 15 elements are wrong"
WRONG = WinnerRemeasured(attempt="r2-c1", code="WRONG_RESULT", speedup=None, detail=REASON)
NEXT = WinnerRemeasured(attempt="r1-c1", code="PASSED", speedup=1.24, times_us=(8.1, 33.0))
NOBODY = RunFinished(reason="rounds", best=None)
SECOND = RunFinished(reason="rounds", best="r1-c1", speedup=1.24, written_by="model")


def ended(path: Path, *events: Event) -> tuple[RunFolder, str]:
    """A run that ended with these events, and what is told of its end."""
    run = write_run(path, *beginning(), *ending()[:-2], *events)
    history, _ = read_history(run)
    lines = describe_ending(run, history, state_of(run, history))
    return run, " ".join(" ".join(lines).split())


def test_a_winner_that_failed_its_last_check_is_told_with_the_reason(tmp_path: Path) -> None:
    run, text = ended(tmp_path / "a-run", WRONG, NOBODY)
    assert "result no kernel passed its last check; the baseline stands" in text
    assert "r2-c1 had passed, then in a fresh process on new inputs: WRONG_RESULT; 2 of 9" in text
    assert REASON in text
    report = gather(run).run
    assert report.result == "no kernel passed its last check; the baseline stands"
    assert [text for label, text in report.facts if label == "last check"] == [
        f"r2-c1, in a fresh process on new inputs: WRONG_RESULT; {REASON}"
    ]


def test_the_next_best_wins_because_the_first_failed(tmp_path: Path) -> None:
    _, text = ended(tmp_path / "a-run", WRONG, NEXT, SECOND)
    assert "winner r1-c1 (a short name), written by model: 1.24x" in text
    assert "because r2-c1 failed its last check" in text
    assert "WRONG_RESULT" in text
    assert "measured once more, in a fresh process on new inputs: PASSED, 1.24x" in text
    assert "8.10 us, baseline 10.0 us" in text


def test_a_run_in_which_nothing_ever_passed_says_that(tmp_path: Path) -> None:
    _, text = ended(tmp_path / "a-run", NOBODY)
    assert "no candidate passed; the baseline stands" in text
    assert "last check" not in text


@pytest.mark.parametrize("place", ["traces/runs/a-run", "else where/a-run", "../b-run"])
def test_a_run_is_spelled_as_commands_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    run = write_run((here / place).resolve(), *beginning())
    spelled = spell_run(run)
    assert find_run(spelled.strip("'")).path == run.path
    assert read_events(run.events)
    assert spelled in {"a-run", "'else where/a-run'", str(run.path)}
