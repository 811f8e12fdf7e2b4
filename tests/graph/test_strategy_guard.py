"""A strategy that breaks its protocol ends the run with one line, before it can harm the state."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_starts import asked, events, parts, the_run

from cuda_llm.agents.protocols import Choice
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.search import Kind
from cuda_llm.traces.events import RunInterrupted


def a_strategy(**steps: Callable[..., Any]) -> Fsr:
    """The one that ships, with steps of its own."""
    methods = {name: staticmethod(step) for name, step in steps.items()}
    mine: Fsr = type("Mine", (Fsr,), methods)()
    return mine


def rewritten(**fields: Any) -> Callable[..., Any]:
    """Writes the briefs that ship, with these fields."""
    return lambda situation: [replace(one, **fields) for one in Fsr().write_briefs(situation)]


def leave(*_: Any) -> Any:
    sys.exit(3)


@pytest.mark.parametrize(
    ("step", "does", "message"),
    [
        ("write_briefs", rewritten(id="r1-c1"), "brief 2 is r1-c1, round 1, index 2; expected"),
        ("write_briefs", rewritten(id="../../x"), "brief 1 is ../../x"),
        ("write_briefs", rewritten(round=9), "expected r1-c1 in order"),
        ("write_briefs", rewritten(kind=Kind.TUNE), "r1-c1 is of kind tune; expected one of first"),
        ("write_briefs", rewritten(kind=Kind.FIX, parent="r7-c7"), "r7-c7, which was never judged"),
        ("write_briefs", lambda _: (), "it wrote 0 briefs; expected 1 to 256"),
        ("write_briefs", lambda _: None, "TypeError: "),
        ("write_briefs", lambda _: ["r1-c1"], "answered with str; expected Brief"),
        ("choose", lambda *_: Choice(incumbent="r9-c9", reason=""), "r9-c9, which has not passed"),
        ("choose", lambda *_: None, "answered with NoneType; expected Choice"),
        ("choose", leave, "SystemExit: 3"),
        ("stop", lambda _: True, "it answered True; expected a reason, or '' to go on"),
    ],
)
def test_a_broken_strategy_is_refused_on_one_line(
    step: str, does: Callable[..., Any], message: str, tmp_path: Path
) -> None:
    brought = parts(strategy=a_strategy(**{step: does}))
    with pytest.raises(UsageError) as caught:
        asyncio.run(start(asked(tmp_path), brought=brought))
    line = str(caught.value)
    assert f"strategy fsr: {step} failed in round 1: " in line
    assert message in line
    (stopped,) = events(the_run(tmp_path), RunInterrupted)
    assert isinstance(stopped, RunInterrupted)
    assert message in stopped.reason


def test_the_run_resumes_with_a_mended_strategy(tmp_path: Path) -> None:
    broken = a_strategy(stop=lambda _: 1 / 0)
    with pytest.raises(UsageError, match="ZeroDivisionError"):
        asyncio.run(start(asked(tmp_path / "a"), brought=parts(strategy=broken)))
    resumed = asyncio.run(resume(the_run(tmp_path / "a"), brought=parts(strategy=Fsr())))
    whole = asyncio.run(start(asked(tmp_path / "b"), brought=parts(strategy=Fsr())))
    assert resumed.attempts and resumed.source == whole.source
    assert [one.id for one in resumed.attempts] == [one.id for one in whole.attempts]
