"""Runs of schema 1, which held hints, briefs and attempts whole, go on in today's program.

Both were recorded by the last program that wrote them so: one a whole run of the playbook, one
ended in its second round.
"""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from run_starts import asked, events, parts

from cuda_llm.graph.runs.fork import fork, hints_at
from cuda_llm.graph.runs.record import task_digests
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.tasks.loader import load_task
from cuda_llm.traces.candidate_text import describe_candidate
from cuda_llm.traces.events import AttemptJudged, HintGiven, RoundBegan
from cuda_llm.traces.export.export import export
from cuda_llm.traces.export.winner import find_winner
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import describe_run
from cuda_llm.traces.summary import summarise

RUNS = Path(__file__).parents[2] / "fixtures/runs"
HINT = "Limited by the launches themselves"


@pytest.fixture
def whole() -> RunFolder:
    """A finished run; whoever reads it changes nothing."""
    return RunFolder(RUNS / "schema-1-whole")


@pytest.fixture
def half(tmp_path: Path) -> RunFolder:
    """A copy of the one that was ended, as of today's task: its files may have changed since."""
    run = RunFolder(tmp_path / "schema-1-half")
    shutil.copytree(RUNS / "schema-1-half", run.path)
    about = json.loads((run.path / "run.json").read_text())
    about["task_files"] = task_digests(load_task("vector_add"))
    (run.path / "run.json").write_text(json.dumps(about))
    return run


def undisturbed(out: Path) -> Result:
    """The same search, from its start."""
    request = asked(out, run_id="new", candidates=4, rounds=2, hints=("Try float4.",))
    return asyncio.run(start(request, overrides=parts()))


def result_after(result: Result) -> tuple[str, list[tuple[str, str, float | None]]]:
    """Winner and candidates."""
    return result.source, [(one.id, one.code, one.speedup) for one in result.attempts]


def test_the_result_of_an_older_run_is_read(whole: RunFolder) -> None:
    result = read_result(whole)
    assert result.finished
    assert result.best is not None
    assert (result.best.id, len(result.attempts), result.rounds) == ("r3-c4", 12, 3)
    assert summarise(whole).best == "r3-c4"


def test_an_older_run_is_shown(whole: RunFolder) -> None:
    text = " ".join(" ".join(describe_run(whole)).split())
    assert "learned speed, launch_overhead from r1-c4 (by diagnosis): " + HINT in text
    assert "r3-c4 picked from the playbook" in text
    assert "skipped" not in text
    assert HINT in "\n".join(describe_candidate(whole, "r3-c1"))


def test_the_kernel_of_an_older_run_is_exported(whole: RunFolder, tmp_path: Path) -> None:
    export(find_winner(whole), "cu", tmp_path / "package")
    assert whole.source("r3-c4") in (tmp_path / "package/solve.cu").read_text()


def test_an_older_run_resumes_to_the_same_result(half: RunFolder, tmp_path: Path) -> None:
    before = half.events.read_bytes()
    result = asyncio.run(resume(half, overrides=parts()))
    assert result_after(result) == result_after(undisturbed(tmp_path / "whole"))
    assert half.events.read_bytes().startswith(before), "a recorded event was lost"
    assert json.loads((half.path / "run.json").read_text())["version"] == 2
    learned = [one.hint for one in events(half, HintGiven) if isinstance(one, HintGiven)]
    assert [bool(one.id) for one in learned] == [False] * 5 + [True] * 4
    assert "skipped" not in "\n".join(describe_run(half))


def test_it_is_forked_with_other_hints(half: RunFolder) -> None:
    kept = asyncio.run(hints_at(half, 1))
    assert kept.performance_hints[0].text == "Try float4."
    new = asyncio.run(fork(half, 1, kept))
    same = asyncio.run(hints_at(new, 1))
    assert same == kept
    assert all(new.hint(one.id) == one for one in (*same.error_hints, *same.performance_hints))
    judged = [one for one in events(new, AttemptJudged) if isinstance(one, AttemptJudged)]
    assert [one.attempt.id for one in judged] == ["r1-c1", "r1-c2", "r1-c3", "r1-c4"]
    result = asyncio.run(resume(new, overrides=parts()))
    assert result.finished
    (*_, began) = (one for one in events(new, RoundBegan) if isinstance(one, RoundBegan))
    assert "Try float4." in [one.text for one in began.briefs[0].performance_hints]
