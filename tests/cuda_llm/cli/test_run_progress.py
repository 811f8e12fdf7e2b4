"""A run while it works: what its status holds, what a log says, what a terminal shows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from cuda_llm.cli.run_progress import (
    LiveRunProgress,
    PlainRunProgress,
    RunStatus,
    event_lines,
)
from cuda_llm.search import Attempt, Brief, Kind
from cuda_llm.traces.events import (
    AttemptJudged,
    AttemptRepeated,
    CandidateLate,
    Event,
    IncumbentChosen,
    ModelCalled,
    ModelRetried,
    RoundBegan,
    RunStarted,
    StageEntered,
    StageLeft,
    WinnerRemeasured,
)
from cuda_llm.traces.text import duration


def judged(index: int, code: str = "PASSED") -> AttemptJudged:
    fields: dict[str, Any] = (
        {"speedup": 2.5, "times_us": (4.0, 41.0)} if code == "PASSED" else {"summary": "bad"}
    )
    attempt = Attempt(
        id=f"r1-c{index}",
        round=1,
        index=index,
        kind=Kind.FIRST,
        written_by="model",
        code=code,
        idea="tiles",
        **fields,
    )
    return AttemptJudged(attempt=attempt)


STARTED = RunStarted(
    run_id="mine",
    task="vector_add",
    device="emulated",
    hardware="x",
    time_source="modelled",
    generator="llm",
    strategy="fsr",
    candidates=3,
    rounds=5,
    seed=0,
    note="no model is named",
)
BRIEFS = tuple(Brief(id=f"r1-c{n}", round=1, index=n, kind=Kind.FIRST) for n in (1, 2, 3))
ROUND = (
    STARTED,
    RoundBegan(round=1, incumbent=None, briefs=BRIEFS),
    StageEntered(candidate="r1-c1", stage="generate"),
    StageEntered(candidate="r1-c2", stage="compile"),
    StageLeft(candidate="r1-c3", stage="compile", outcome="COMPILE_FAILED", seconds=1.0),
)
CALL = ModelCalled(
    call="c", agent="generator", model="m", outcome="ok", input_tokens=9000, output_tokens=3000
)
BEST = "best 2.50x over all sizes, 41.0 us at the largest (r1-c1)"
CHOSEN = IncumbentChosen(round=1, before=None, incumbent="r1-c1", reason="it is the first")


def after(events: Sequence[Event]) -> RunStatus:
    status = RunStatus()
    for event in events:
        status(event)
    return status


def log(events: Sequence[Event]) -> str:
    status = RunStatus()
    shown: list[str] = []
    for event in events:
        status(event)
        shown += event_lines(event, status)
    return "\n".join(shown)


def test_each_candidate_stands_where_it_is() -> None:
    rows = after(ROUND).rows
    assert rows == {"r1-c1": "generating", "r1-c2": "compiling", "r1-c3": "COMPILE_FAILED"}


def test_the_headline_says_round_best_and_spend() -> None:
    status = after([*ROUND, judged(1), CHOSEN, CALL])
    assert status.headline.startswith(f"round 1/5, reflecting  {BEST}  spent 12k")
    assert "price unknown" in status.headline
    assert "no kernel has passed yet" in after(ROUND).headline


def test_a_round_without_a_kernel_that_passed_says_so_once() -> None:
    nothing = replace(CHOSEN, incumbent=None, reason="nothing has passed yet")
    assert log([*ROUND, nothing]).splitlines()[-1] == "round 1/5: nothing has passed yet"


def test_a_resumed_run_is_shown_from_where_it_stood(capsys: pytest.CaptureFixture[str]) -> None:
    show = PlainRunProgress([*ROUND, judged(1), CHOSEN])
    show(replace(CHOSEN, round=2, before="r1-c1", reason="r1-c1 stays"))
    shown = capsys.readouterr().err
    assert shown == f"round 2/5: {BEST}; r1-c1 stays\n"


def test_the_best_so_far_is_what_has_landed_until_a_choice_says_otherwise() -> None:
    landed = after([*ROUND, judged(1), judged(2)])
    assert landed.best is not None
    assert landed.best.id == "r1-c1"
    repeated = AttemptRepeated(attempt=replace(judged(2).attempt, code="DUPLICATE", speedup=None))
    after_choice = after([*ROUND, judged(1), judged(2), repeated, replace(CHOSEN, incumbent=None)])
    assert after_choice.best is None, "a round may end without one"
    assert after_choice.rows["r1-c2"] == "DUPLICATE"
    failed = WinnerRemeasured(attempt="r1-c1", code="WRONG_RESULT", speedup=None)
    assert after([*ROUND, judged(1), CHOSEN, failed]).best is None


def test_what_is_built_first_stands_on_the_board_until_the_run_begins() -> None:
    live = LiveRunProgress()
    live.report("building the native parts, once")
    assert live.status.headline.startswith("building the native parts, once  no kernel")
    live(STARTED)
    assert "building" not in live.status.headline


def test_a_resumed_run_has_spent_what_it_took_before() -> None:
    assert "spent 2 min 5 s" in LiveRunProgress((), 125.2).status.headline


def test_a_price_is_shown_while_every_price_is_known() -> None:
    priced = ModelCalled(call="c", agent="g", model="m", outcome="ok", usd=0.06, input_tokens=10)
    assert "$0.12" in after([*ROUND, priced, priced]).headline


def test_a_log_says_what_matters_and_nothing_else() -> None:
    late = CandidateLate(candidate="r1-c2", stage="compile")
    retried = ModelRetried(call="candidates/r1-c2", attempt=1, reason="HTTP 429", wait_s=2.0)
    shown = log([*ROUND, retried, judged(1), judged(3, "COMPILE_FAILED"), late, CHOSEN])
    assert shown.splitlines() == [
        "run mine",
        "times are modelled on emulated",
        "no model is named",
        "round 1/5: 3 candidates",
        "candidates/r1-c2: HTTP 429; asking again in 2 s",
        "r1-c1  2.50x over all sizes, 41.0 us at the largest  (tiles)",
        "r1-c3  COMPILE_FAILED: bad  (tiles)",
        "r1-c2  cut off at compile: the minutes are over",
        f"round 1/5: {BEST}; it is the first",
    ]


def test_a_terminal_shows_the_status_and_no_markup_of_strangers() -> None:
    live = LiveRunProgress()
    for event in (*ROUND, StageEntered(candidate="r1-c1", stage="[red]odd")):
        live(event)
    console = Console(width=100)
    with console.capture() as shown:
        console.print(live)
    text = shown.get()
    assert "round 1/5" in text
    assert "r1-c2  compiling" in text
    assert "[red]odd" in text


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0 s"), (59.4, "59 s"), (130, "2 min 10 s")])
def test_durations_read_well(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
