"""A person reviews a run at a terminal: what is shown, what they decide, and how they stop."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import ne
from pathlib import Path

import pytest
from commands import Command
from on_terminal import Terminal, on_terminal
from run_starts import asked, events, parts, the_run

from cuda_llm.cli.review import TerminalReviewer
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.traces.events import RoundBegan, RoundReviewed

PROMPT = "review> "
OWN = '''
from cuda_llm.extend import Draft


class Failing:
    """Writes kernels that do not compile, which costs least."""

    name, written_by = "failing", "model"

    async def generate(self, brief, situation):
        return Draft(source=f'extern "C" void solve() {{ missing_{brief.index}; }}', idea=brief.id)
'''


ORDER = (
    *("run", "vector_add", "--device", "emulated", "--generator", "own.py:Failing", "--review"),
    *("--candidates", "2", "--rounds", "2", "--tune", "0", "--out", "runs"),
)


@contextmanager
def reviewed(here: Path, **env: str) -> Iterator[Terminal]:
    """A run of two rounds of two on a terminal."""
    (here / "own.py").write_text(OWN)
    plain = {"EDITOR": "", "VISUAL": "", "LOGNAME": "ada"}
    with on_terminal(here, *ORDER, **{**plain, **env}) as shown:
        yield shown


def say(shown: Terminal, *lines: str, after: str = PROMPT) -> None:
    """Type each line when it is asked for."""
    for line in lines:
        shown.read_until(lambda text: text.endswith(after))
        before = shown.text
        os.write(shown.file, line.encode() + b"\n")
        # Its echo, so that the same question is not seen twice.
        shown.read_until(partial(ne, before))


def test_a_person_accepts_edits_and_rejects_and_the_trace_says_who(
    tmp_path: Path, command: Command
) -> None:
    with reviewed(tmp_path) as shown:
        say(
            shown,
            "r r1-c2",
            "",
            "r r9-h1",
            "r r1-h1",
            "p r2-c1 r7-c7",
            "p r2-c1 -",
            "d r2-c1 one thread an element",
            "r r2-c2",
            "+ Declare what you use.",
            "",
        )
        shown.read_to_end()
    assert shown.code == 1, shown.text
    first, second = shown.text.split("review before round 2 of 2")
    assert "review before round 1 of 2" in first
    assert "r1-c1  COMPILE_FAILED" in second
    assert "no hint or order 'r9-h1'" in shown.text
    assert "order r2-c1: parent is 'r7-c7'; expected one of r1-c1" in shown.text
    run = the_run(tmp_path / "runs")
    one, two = events(run, RoundReviewed)
    assert isinstance(one, RoundReviewed)
    assert isinstance(two, RoundReviewed)
    assert (one.by, one.accepted) == ("ada", ("r1-c1",))
    assert [(change.id, change.part) for change in two.changes] == [
        ("r1-h1", "hint"),
        ("r2-c1", "parent"),
        ("r2-c1", "direction"),
        ("r2-c2", "order"),
        ("", "hint"),
    ]
    begun = [event for event in events(run, RoundBegan) if isinstance(event, RoundBegan)]
    (brief,) = begun[1].briefs
    assert (brief.id, brief.kind, brief.parent) == ("r2-c1", "first", None)
    assert brief.direction == "one thread an element"
    assert [hint.text for hint in brief.performance_hints] == ["Declare what you use."]
    shown_again = command("trace", "show", str(run.path))
    assert "round 2   ada: r1-h1 rejected" in shown_again.stdout
    assert "ada: r2-c1: parent r1-c1 -> none" in shown_again.stdout


def typed(*lines: str | None) -> Callable[[str], Awaitable[str | None]]:
    """What a person types at each question; None is the end of their input."""
    left = iter(lines)

    async def read(_question: str) -> str | None:
        return next(left)

    return read


def reviewer(*lines: str | None) -> TerminalReviewer:
    def edit(_before: str) -> str:
        return "Say what is missing."

    return TerminalReviewer(nullcontext, edit, "ada", typed(*lines))


def test_a_person_leaves_in_every_way_and_the_run_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def reviews() -> None:
        request = asked(tmp_path, review=True)
        stopped = await start(request, brought=parts(), reviewer=reviewer("", "stop"))
        assert stopped.reason == "stopped for review"
        again = reviewer("each", "e", "", "", "", "huh", "r", "", "", "", None)
        await resume(the_run(tmp_path), brought=parts(), reviewer=again)
        last = reviewer("r r2-c2", "")
        assert (await resume(the_run(tmp_path), brought=parts(), reviewer=last)).finished

    asyncio.run(reviews())
    run = the_run(tmp_path)
    told = capsys.readouterr().err
    assert "'huh' is none of these" in told
    assert "changed" in told
    assert told.count("review before round 1") == 1
    assert "r2-c2" not in run.candidates()
    decided = [one for one in events(run, RoundReviewed) if isinstance(one, RoundReviewed)]
    assert [one.round for one in decided] == [1, 2]


def test_without_a_terminal_a_run_stops_for_its_review_and_a_file_decides(
    tmp_path: Path, command: Command
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    stopped = command(*ORDER)
    assert stopped.code == 0, stopped.stderr
    assert "review before round 1 of 2" in stopped.stderr
    assert stopped.stderr.count("go on with: cuda-llm resume") == 1
    run = the_run(tmp_path / "runs")
    decisions = tmp_path / "decisions.json"
    decisions.write_text('{"orders": {"r7-c7": "reject"}}')
    refused = command("resume", run.path, "--decisions", decisions)
    assert refused.code == 2
    there = "there is r1-c1, r1-c2"
    assert refused.complaint == f"error: no order 'r7-c7' is to be reviewed; {there}"
    decisions.write_text('{"orders": {"r1-c2": "reject"}, "by": "ada"}')
    second = command("resume", run.path, "--decisions", decisions)
    assert second.code == 0, second.stderr
    assert "review before round 2 of 2" in second.stderr
    judged = [one.id for one in map(run.attempt, run.candidates()) if one is not None]
    assert judged == ["r1-c1"]
