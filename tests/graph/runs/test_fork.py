"""A run forked behind a round goes its own way; the old one stays as it is."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from run_starts import asked, events, parts, told_of

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.fork import Hints, fork, hints_at
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.search import Hint
from cuda_llm.traces.events import RoundBegan, RunForked, RunStarted
from cuda_llm.traces.run_folder import RunFolder

MINE = Hint(round=1, about="", code="USER", text="Unroll by four.", by="user")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of three rounds."""
    out = tmp_path_factory.mktemp("finished")
    asyncio.run(start(asked(out, run_id="old", rounds=3), brought=parts()))
    return out / "old"


@pytest.fixture
def old(finished: Path, tmp_path: Path) -> RunFolder:
    """The same run, in a folder to which forks are added."""
    return RunFolder(shutil.copytree(finished, tmp_path / "old"))


def forked(run: RunFolder, round_: int, hints: Hints | None = None) -> RunFolder:
    kept = asyncio.run(hints_at(run, round_))
    return asyncio.run(fork(run, round_, hints or kept))


def go_on(run: RunFolder) -> Result:
    return asyncio.run(resume(run, brought=parts()))


def files(run: RunFolder) -> dict[Path, bytes]:
    inside = run.path.rglob("*")
    return {one.relative_to(run.path): one.read_bytes() for one in inside if one.is_file()}


def test_a_fork_keeps_the_rounds_before_and_searches_the_rest_anew(old: RunFolder) -> None:
    new = forked(old, 1)
    assert [one.round for one in events(new, RoundBegan) if isinstance(one, RoundBegan)] == [1]
    result = go_on(new)
    was, now = read_result(old), result
    assert [one.id for one in now.attempts] == [one.id for one in was.attempts]
    assert now.best is not None
    assert sorted(told_of(new)) == sorted(told_of(old)) == sorted(one.id for one in now.attempts)
    assert new.source("r1-c1") == old.source("r1-c1")
    (started,) = events(new, RunStarted)
    (fork_event,) = events(new, RunForked)
    assert isinstance(started, RunStarted)
    assert started.run_id == new.name
    assert fork_event == RunForked(of="old", round=1, edited_hints=False)
    assert new.read_run()["forked_from"] == {"run": "old", "round": 1}


def test_the_old_run_is_not_touched(old: RunFolder) -> None:
    before = files(old)
    go_on(forked(old, 1))
    assert files(old) == before


def test_other_hints_reach_the_next_briefs(old: RunFolder) -> None:
    new = forked(old, 1, Hints(round=1, performance_hints=(MINE,)))
    go_on(new)
    brief = new.brief("r2-c1")
    assert brief is not None
    assert [hint.text for hint in brief.performance_hints] == ["Unroll by four."]
    assert brief.error_hints == ()
    (event,) = events(new, RunForked)
    assert event == RunForked(of="old", round=1, edited_hints=True)


def test_a_fork_behind_round_0_keeps_the_baseline_alone(old: RunFolder) -> None:
    new = forked(old, 0)
    assert new.candidates() == ()
    assert go_on(new).rounds == 3


def test_the_hints_of_a_round_are_those_that_the_next_one_saw(old: RunFolder) -> None:
    one, two = (asyncio.run(hints_at(old, number)) for number in (1, 2))
    assert {hint.round for hint in one.error_hints} == {1}
    assert {hint.round for hint in two.error_hints} == {1, 2}
    assert replace(two, round=1) != one


@pytest.mark.parametrize("round_", [-1, 3, 9])
def test_there_is_no_fork_where_no_round_followed(
    round_: int, old: RunFolder, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="there is 0 to 2"):
        asyncio.run(hints_at(old, round_))
    assert [one.name for one in tmp_path.iterdir()] == ["old"]
