"""Hints, attempts and briefs lie in one file each; everything else names them by id."""

import asyncio
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from graph_runs import Writer, numbered
from run_starts import asked, parts

from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.situation import Situation
from cuda_llm.graph.runs.start import start
from cuda_llm.search import Attempt, Hint
from cuda_llm.traces.run_folder import RunFolder

ROUNDS = 3


@dataclass(frozen=True)
class Teacher:
    """One hint of its own for each attempt."""

    name: str = "teacher"

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
        hints = [lesson(one) for one in judged]
        return Contribution(error_hints=tuple(hints[:2]), performance_hints=tuple(hints[2:]))


def lesson(attempt: Attempt) -> Hint:
    """Told to whoever comes next: about the whole round."""
    text = f"The lesson of {attempt.id}: pad the tile by one column."
    return Hint(round=attempt.round, about="", code=attempt.code, text=text)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Three rounds of four, with four hints each."""
    out = tmp_path_factory.mktemp("runs")
    brought = parts(generator=Writer(numbered), reflector=Teacher())
    result = asyncio.run(start(asked(out, rounds=ROUNDS), brought=brought))
    with sqlite3.connect(result.run_dir / "checkpoint.sqlite") as database:
        database.execute("pragma wal_checkpoint(truncate)")
    return RunFolder(result.run_dir)


def files_with(run: RunFolder, text: str) -> dict[str, int]:
    """How often a text stands in each file that holds it; prompts quote hints."""
    found = {
        str(path.relative_to(run.path)): path.read_bytes().count(text.encode())
        for path in run.path.rglob("*")
        if path.is_file() and path.name != "prompt.md"
    }
    return {name: times for name, times in found.items() if times}


def test_each_hint_is_stored_once_in_its_own_file(run: RunFolder) -> None:
    hints = [run.hint(path.stem) for path in (run.path / "hints").iterdir()]
    assert len(hints) == ROUNDS * 4
    for hint in hints:
        assert hint is not None
        assert files_with(run, hint.text) == {f"hints/{hint.id}.json": 1}


def test_hints_reach_the_briefs_that_name_them(run: RunFolder) -> None:
    brief = run.brief("r3-c1")
    assert brief is not None
    texts = [one.text for one in (*brief.error_hints, *brief.performance_hints)]
    assert sorted(texts) == sorted(
        f"The lesson of r{round_}-c{index}: pad the tile by one column."
        for round_ in (1, 2)
        for index in range(1, 5)
    )


def test_attempts_and_briefs_are_stored_only_in_the_folder_of_their_candidate(
    run: RunFolder,
) -> None:
    assert len(run.candidates()) == ROUNDS * 4
    for name in run.candidates():
        brief, attempt = run.brief(name), run.attempt(name)
        assert brief is not None
        assert attempt is not None
        for text in filter(None, (brief.direction, attempt.source_sha, attempt.normal_sha)):
            assert {file.split("/")[0] for file in files_with(run, text)} == {"candidates"}, text
