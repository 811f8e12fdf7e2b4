"""A person reviews a run at a terminal: what is shown, what they decide, and how they stop."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import ne
from pathlib import Path

from commands import Command
from on_terminal import CTRL_C, Terminal, on_terminal
from run_starts import events, the_run

from cuda_llm.traces.events import RoundBegan, RoundReviewed, RunInterrupted

END_OF_INPUT = b"\x04"
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
    tmp_path: Path, cuda_llm: Command
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
    shown_again = cuda_llm("trace", "show", str(run.path))
    assert "round 2   ada: r1-h1 rejected" in shown_again.stdout
    assert "ada: r2-c1: parent r1-c1 -> none" in shown_again.stdout


def test_a_person_leaves_in_every_way_and_the_run_goes_on_where_it_stopped(
    tmp_path: Path, cuda_llm: Command
) -> None:
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nsed -i "s/.*/Say what missing_1 is./" "$1"\n')
    editor.chmod(0o755)
    with reviewed(tmp_path) as shown:
        say(shown, "", "stop")
        shown.read_to_end()
    assert shown.code == 0, shown.text
    run = the_run(tmp_path / "runs")
    with on_terminal(tmp_path, "resume", str(run.path), EDITOR=str(editor)) as again:
        say(again, "each")
        say(again, "e", "", "huh", "r", after="]: ")
        again.read_until(lambda text: text.endswith(PROMPT))
        os.write(again.file, END_OF_INPUT)
        again.read_to_end()
    assert again.code == 0, again.text
    assert "review before round 1" not in again.text
    assert "'huh' is none of these" in again.text
    assert "r1-h1 changed" in again.text
    with on_terminal(tmp_path, "resume", str(run.path)) as last:
        last.read_until(lambda text: text.endswith(PROMPT))
        os.write(last.file, CTRL_C)
        last.read_to_end()
    assert last.code == 130, last.text
    for one in (shown, again, last):
        assert "Traceback" not in one.text
        assert one.text.count("go on with: cuda-llm resume") == 1
        assert isinstance(events(run)[-1], RunInterrupted)
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"orders": {"r7-c7": "reject"}}')
    refused = cuda_llm("resume", str(run.path), "--decisions", str(wrong))
    assert refused.code == 2
    there = "there is r2-c1, r2-c2"
    assert refused.complaint == f"error: no order 'r7-c7' is to be reviewed; {there}"
    right = tmp_path / "right.json"
    right.write_text('{"orders": {"r2-c2": "reject"}, "by": "ada"}')
    ended = cuda_llm("resume", str(run.path), "--decisions", str(right))
    assert ended.code == 1, ended.stderr
    judged = [one.id for one in map(run.attempt, run.candidates()) if one is not None]
    assert judged == ["r1-c1", "r1-c2", "r2-c1"]
    rounds = [one.round for one in events(run, RoundReviewed) if isinstance(one, RoundReviewed)]
    assert rounds == [1, 2]


def test_without_a_terminal_a_run_shows_what_is_to_be_reviewed_and_stops(
    tmp_path: Path, cuda_llm: Command
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    stopped = cuda_llm(*ORDER, cwd=tmp_path)
    assert stopped.code == 0, stopped.stderr
    assert "review before round 1 of 2" in stopped.stderr
    assert stopped.stderr.count("go on with: cuda-llm resume") == 1
