"""What a person reads when a run ends."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.agents.llm.budget import Spent
from cuda_llm.cli.run_output import report_rows, run_document, show_run
from cuda_llm.graph.runs.result import Result
from cuda_llm.search import Attempt, Kind
from cuda_llm.traces.events import WinnerRemeasured

FAST = Attempt(
    id="r1-c1",
    round=1,
    index=1,
    kind=Kind.FIRST,
    written_by="model",
    idea="tiles",
    code="PASSED",
    speedup=2.5,
    times_us=(4.0, 41.0),
)
BROKEN = replace(FAST, id="r1-c2", code="COMPILE_FAILED", speedup=None, summary="tile is undefined")
AGAIN = replace(BROKEN, id="r1-c3", code="DUPLICATE", summary="the same kernel as r1-c2")


def finished(best: Attempt | None, *attempts: Attempt) -> Result:
    return Result(
        run_id="a-run",
        run_dir=Path("a-run"),
        task="vector_add",
        device="emulated RTX 3090 Ti",
        hardware="RTX 3090 Ti",
        time_source="modelled",
        generator="llm",
        model="a-model",
        strategy="fsr",
        seed=0,
        note="",
        finished=True,
        reason="rounds",
        rounds=1,
        attempts=attempts,
        best=best,
        source="",
        remeasured=None,
        usage=Spent(),
        seconds={"total": 12.0},
    )


def shown(best: Attempt | None, *attempts: Attempt) -> str:
    run = finished(best, *attempts)
    return "\n".join(f"{label}: {text}" for label, text in report_rows(run))


def test_a_measured_result_says_what_l2_held(capsys: pytest.CaptureFixture[str]) -> None:
    measured = replace(finished(FAST, FAST), device="cuda:0", time_source="measured", l2="cold")
    show_run(measured)
    assert "vector_add · cuda:0 (times are measured, L2 cold) · fsr" in capsys.readouterr().out


def test_a_winner_comes_with_its_author_its_worth_and_where_it_lies() -> None:
    text = shown(FAST, FAST, BROKEN)
    assert (
        "best: 2.50x the baseline's speed over all sizes (modelled), 41.0 us at the largest" in text
    )
    assert "written by: the model a-model: r1-c1, tiles" in text
    assert "tried: 2 candidates in 1 round, 1 passed" in text
    assert "ended: its rounds were done" in text
    assert "kernel: a-run/best/solve.cu" in text
    assert "slower" not in text


def test_a_winner_slower_than_the_baseline_is_called_so() -> None:
    slow = replace(FAST, speedup=0.5)
    assert "slower than the baseline, which stays the answer" in shown(slow, slow)


@pytest.mark.parametrize(("speedup", "spread"), [(1.0, 0.0), (0.998, 0.0), (1.02, 0.03)])
def test_a_tie_with_the_baseline_is_no_win_and_says_what_to_do_next(
    speedup: float, spread: float
) -> None:
    tie = replace(FAST, speedup=speedup, spread=spread)
    text = shown(tie, tie)
    assert "nothing faster than the baseline was found: this is a tie" in text
    assert "next: more --rounds" in text
    by_tuner = replace(finished(tie, tie), generator="tuner")
    assert ("next", "declare tunables in the kernel (docs/playbook.md), or ask a model with "
            "--model NAME") in tuple(report_rows(by_tuner))  # fmt: skip


def test_without_a_winner_the_last_failure_that_is_no_repeat_is_shown() -> None:
    text = shown(None, BROKEN, AGAIN)
    assert "the baseline is still the answer" in text
    assert "r1-c2: COMPILE_FAILED, tile is undefined" in text
    assert "DUPLICATE" not in text


def test_a_winner_that_failed_its_last_check_is_told_with_the_reason() -> None:
    wrong = WinnerRemeasured(attempt="r1-c1", code="WRONG_RESULT", speedup=None, detail="1 of 9")
    rows = report_rows(replace(finished(None, FAST, BROKEN), remeasured=wrong))
    text = "\n".join(f"{label}: {text}" for label, text in rows)
    assert "best: no kernel passed its last check; the baseline is still the answer" in text
    assert ": r1-c1: WRONG_RESULT; 1 of 9" in text
    assert "tile is undefined" not in text


def test_the_document_says_after_how_many_launches_the_search_has_paid() -> None:
    """12 s of search; a launch saves 36 us less 12.8 us over both sizes, 5 and 103 us at each."""
    run = replace(finished(FAST, FAST), baseline_us=(9.0, 144.0), time_source="measured")
    assert json.loads(run_document(run))["launches_to_pay"] == {
        "time_source": "measured",
        "all_sizes": 517_381,
        "sizes": [2_400_000, 116_505],
    }
    without = replace(run, best=None)
    assert json.loads(run_document(without))["launches_to_pay"]["all_sizes"] is None
    slower = replace(run, baseline_us=(3.0, 44.0))
    assert json.loads(run_document(slower))["launches_to_pay"] == {
        "time_source": "measured",
        "all_sizes": None,
        "sizes": [None, 4_000_000],
    }
