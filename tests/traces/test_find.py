"""Runs are found by id, by its beginning, by path, or as the latest."""

from pathlib import Path

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.traces.event_line import to_line
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.events import RunResumed
from cuda_llm.traces.find import find_run, list_runs
from cuda_llm.traces.run_folder import RunFolder

RUNS = {"alpha-1": "2026-01-03", "alpha-2": "2026-01-01", "beta": "2026-01-02"}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Three runs, whose age is not the order of their names, and a folder that is none."""
    for name, day in RUNS.items():
        run = RunFolder(tmp_path / name)
        run.write_run({"task": "vector_add"})
        run.events.write_bytes(to_line(RunResumed(round=1), 1, f"{day}T00:00:00.000Z"))
    (tmp_path / "no-run").mkdir()
    return tmp_path


def test_runs_are_listed_oldest_first(out: Path) -> None:
    assert [run.name for run in list_runs(out)] == ["alpha-2", "beta", "alpha-1"]


def test_a_run_whose_events_cannot_be_read_hides_no_other(out: Path) -> None:
    events = out / "beta" / "events.jsonl"
    events.unlink()
    events.mkdir()
    assert {run.name for run in list_runs(out)} == set(RUNS)


@pytest.mark.parametrize(
    ("name", "found"),
    [("beta", "beta"), ("b", "beta"), ("alpha-1", "alpha-1"), ("latest", "alpha-1")],
)
def test_a_run_is_found_by_its_name(out: Path, name: str, found: str) -> None:
    assert find_run(name, out).name == found


def test_a_run_is_found_by_its_path(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_run(str(out / "beta")).name == "beta"
    monkeypatch.chdir(out / "beta")
    assert find_run(".").path == out / "beta"


def test_an_id_that_is_the_beginning_of_another_is_itself(out: Path) -> None:
    RunFolder(out / "beta-2").write_run({})
    assert find_run("beta", out).name == "beta"


def test_a_run_at_work_that_has_no_event_yet_is_the_latest(out: Path) -> None:
    new = RunFolder(out / "a-new-one")
    new.write_run({})
    recorder = Recorder(new.events)
    try:
        assert find_run("latest", out).name == "a-new-one"
    finally:
        recorder.close()


def test_a_folder_that_a_run_left_before_it_began_is_never_the_latest(out: Path) -> None:
    RunFolder(out / "left-over").write_run({})
    left = RunFolder(out / "zzz-left-over")
    left.write_run({})
    left.events.touch()
    assert [run.name for run in list_runs(out)][:2] == ["left-over", "zzz-left-over"]
    assert find_run("latest", out).name == "alpha-1"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("alpha", "beginning of 2 runs: alpha-2, alpha-1"),
        ("gamma", "there are alpha-2, beta, alpha-1"),
        ("", "there are alpha-2"),
        ("no-run", "there are"),
        ("../..", "there are"),
    ],
)
def test_an_unknown_run_is_refused_with_a_list_of_the_known(
    out: Path, name: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as raised:
        find_run(name, out)
    assert "\n" not in str(raised.value)


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are none"):
        find_run("latest", tmp_path)
    assert list_runs(tmp_path / "nowhere") == ()
