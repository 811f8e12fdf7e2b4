"""Each file of a run's folder in turn gone, empty, `{}`, half or binary: never a traceback."""

import asyncio
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import pytest
from graph_runs import TableBench
from run_starts import asked, parts

from cuda_llm.agents.prompting.templates import CHANNELS
from cuda_llm.errors import CudaLLMError
from cuda_llm.graph.runs.start import resume, start
from cuda_llm.traces.candidate_text import describe_candidate
from cuda_llm.traces.export.export import export
from cuda_llm.traces.export.winner import find_winner
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import describe_run
from cuda_llm.traces.summary import summarise
from cuda_llm.traces.terminal.difference import find_difference
from cuda_llm.traces.terminal.difference_text import describe_difference
from cuda_llm.traces.terminal.matches import find_matches
from cuda_llm.traces.terminal.short import describe_in_short

HARMS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda file: file.write_bytes(b""),
    "braces": lambda file: file.write_bytes(b"{}"),
    "half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "binary": lambda file: file.write_bytes(os.urandom(500)),
}


async def make_run(out: Path, at: Collection[str] = ()) -> None:
    """A run that ends once its bench has come to all of `at`; none to let it finish."""
    left, reached = set(at), asyncio.Event()

    def stuck(name: str) -> float:
        found = {one for one in at if one in name}
        left.difference_update(found)
        if not left:
            reached.set()
        return 60.0 if found else 0.0

    request = asked(out, run_id="r")
    work = asyncio.create_task(start(request, brought=parts(bench=TableBench(delay=stuck))))
    if at:
        await reached.wait()
        work.cancel()
    await asyncio.gather(work, return_exceptions=bool(at))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One finished, one ended while two candidates of its second round were at work."""
    here = tmp_path_factory.mktemp("runs")
    asyncio.run(make_run(here / "finished"))
    asyncio.run(make_run(here / "in_flight", ("validate // r2-c2", "profile // r2-c4")))
    return {one: here / one / "r" for one in ("finished", "in_flight")}


def readings(run: RunFolder, out: Path) -> Iterator[Callable[[], object]]:
    """Everything that shows a run."""
    yield run.read_run
    yield lambda: summarise(run)
    yield lambda: list(describe_run(run))
    yield lambda: list(describe_in_short(run))
    yield lambda: list(
        describe_difference(find_difference(run, "r1-c1", "r2-c2", CHANNELS), run.name)
    )
    yield lambda: list(find_matches([run], re.compile("a")))
    yield from (partial(show, run, name) for name in ("r1-c1", "r1-c2", "r2-c2"))
    yield lambda: export(find_winner(run), "cu", out, force=True)
    yield lambda: asyncio.run(resume(run, brought=parts()))


def show(run: RunFolder, name: str) -> list[str]:
    """What `trace candidate` prints."""
    return list(describe_candidate(run, name))


@pytest.mark.evidence
@pytest.mark.parametrize("of", ["finished", "in_flight"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_file_is_made_good_or_told_in_one_line(
    harm: str, of: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    whole = runs[of]
    files = [one.relative_to(whole) for one in sorted(whole.rglob("*")) if one.is_file()]
    assert len(files) > 20
    for number, file in enumerate(files):
        path = tmp_path / str(number) / "r"
        shutil.copytree(whole, path)
        HARMS[harm](path / file)
        for read in readings(RunFolder(path), tmp_path / "export"):
            told_in_one_line(read, f"{of}: {file} {harm}")
        shutil.rmtree(path.parent)


def told_in_one_line(work: Callable[[], object], what: str) -> str:
    """What an error of ours says, which names a remedy or a place; other errors fail the test."""
    try:
        work()
    except CudaLLMError as error:
        assert "\n" not in str(error), what
        return str(error)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    return ""
