"""A run whose files were damaged comes to the same winner, or says in one line what to fix."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_runs import TableBench
from run_starts import asked, parts, the_run

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.traces.run_folder import RunFolder

Harm = Callable[[Path], object]


def result_after(result: Result) -> tuple[Any, ...]:
    """Winner and candidates."""
    kept = (result.run_dir / "best/solve.cu").read_text()
    tried = [(one.id, one.code, one.speedup) for one in result.attempts]
    return result.finished, result.source, kept, tried


async def interrupted(out: Path, at: str) -> Path:
    """The folder of a run that was ended when its bench came to `at`."""
    reached = asyncio.Event()

    def stuck(name: str) -> float:
        if at not in name:
            return 0.0
        reached.set()
        return 60.0

    bench = TableBench(delay=stuck)
    work = asyncio.create_task(start(asked(out, run_id="r"), brought=parts(bench=bench)))
    await reached.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    return out / "r"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run finished, one ended in its second round, one in its first."""
    here = tmp_path_factory.mktemp("runs")
    asyncio.run(start(asked(here / "whole", run_id="r"), brought=parts()))
    return {
        "whole": here / "whole/r",
        "half": asyncio.run(interrupted(here / "half", "// r2-")),
        "early": asyncio.run(interrupted(here / "early", "validate // r1-c3")),
    }


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Harm:
    """Harm to the trace."""

    def harm(run: Path) -> None:
        events = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
        (run / "events.jsonl").write_bytes(b"".join(change(events)))

    return harm


def overwritten(name: str, data: bytes) -> Harm:
    return lambda run: (run / name).write_bytes(data)


def removed(pattern: str) -> Harm:
    def harm(run: Path) -> None:
        for path in run.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def changed(**fields: Any) -> Harm:
    """Harm to run.json; `...` takes a key away."""

    def harm(run: Path) -> None:
        whole = json.loads((run / "run.json").read_text()) | fields
        kept = {key: value for key, value in whole.items() if value is not ...}
        (run / "run.json").write_text(json.dumps(kept))

    return harm


def garble_values(run: Path) -> None:
    with sqlite3.connect(run / "checkpoint.sqlite") as database:
        database.execute("update checkpoints set checkpoint = x'ff00ff'")


@pytest.mark.parametrize(
    ("of", "harm"),
    [
        ("half", removed("checkpoint.sqlite*")),
        ("half", removed("best")),
    ],
)
def test_a_damaged_run_resumes_to_the_same_result(
    of: str, harm: Harm, runs: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(runs[of], tmp_path / "r")
    harm(tmp_path / "r")
    resumed = asyncio.run(resume(the_run(tmp_path), brought=parts()))
    assert result_after(resumed) == result_after(read_result(RunFolder(runs["whole"])))


def test_an_older_checkpoint_gives_way_to_the_folder(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["half"], tmp_path / "r")
    removed("checkpoint.sqlite*")(tmp_path / "r")
    for path in runs["early"].glob("checkpoint.sqlite*"):
        shutil.copy(path, tmp_path / "r")
    resumed = asyncio.run(resume(the_run(tmp_path), brought=parts()))
    assert result_after(resumed) == result_after(read_result(RunFolder(runs["whole"])))


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_steps_done_but_never_checkpointed_are_not_repeated(
    lost: int, runs: dict[str, Path], tmp_path: Path
) -> None:
    """So a kill, or a disk that is full, leaves a run between two steps."""
    shutil.copytree(runs["half"], tmp_path / "r")
    newest = "select checkpoint_id from checkpoints where checkpoint_ns = '' order by 1 desc"
    with sqlite3.connect(tmp_path / "r/checkpoint.sqlite") as database:
        database.execute(f"delete from checkpoints where checkpoint_id in ({newest} limit {lost})")
    resumed = asyncio.run(resume(the_run(tmp_path), brought=parts()))
    assert result_after(resumed) == result_after(read_result(RunFolder(runs["whole"])))


REMOVE = "remove .*checkpoint.sqlite: resume works the run out again"


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (overwritten("checkpoint.sqlite", b"no database" * 99), "not a database.*; remove it"),
        (garble_values, "checkpoint.sqlite: broken .*; remove it: resume works the run out again"),
        (removed("candidates"), f"brief.json: gone; .*{REMOVE}"),
        (removed("hints/r1-h1.json"), f"hints/r1-h1.json: gone; .*{REMOVE}"),
        (removed("run.json"), "no run.json; expected the folder of a run"),
        (
            changed(version=99),
            "version 99, this program reads version 2; use the cuda-llm that wrote it",
        ),
        (changed(request=...), "run.json: lacks request; expected what a run writes"),
        (
            changed(request={"task": "vector_add", "rounds": "many"}),
            "request: rounds='many': expected a whole number",
        ),
    ],
)
def test_damage_beyond_repair_is_one_line_with_its_mend(
    harm: Harm, message: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(runs["half"], tmp_path / "r")
    harm(tmp_path / "r")
    with pytest.raises(UsageError, match=message) as caught:
        asyncio.run(resume(RunFolder(tmp_path / "r"), brought=parts()))
    assert "\n" not in str(caught.value)


def test_the_mend_that_is_named_works(runs: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(runs["half"], tmp_path / "r")
    removed("hints")(tmp_path / "r")
    removed("checkpoint.sqlite*")(tmp_path / "r")
    resumed = asyncio.run(resume(the_run(tmp_path), brought=parts()))
    assert result_after(resumed) == result_after(read_result(RunFolder(runs["whole"])))


def test_a_fork_without_its_checkpoint_is_to_be_forked_again(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(runs["half"], tmp_path / "r")
    changed(forked_from={"run": "other", "round": 1})(tmp_path / "r")
    removed("checkpoint.sqlite*")(tmp_path / "r")
    again = f"fork again with: cuda-llm resume {tmp_path / 'other'} --from-round 1"
    with pytest.raises(UsageError, match=again):
        asyncio.run(resume(the_run(tmp_path), brought=parts()))
