"""A resolved configuration means the same from any folder and at any time."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.resolve import name_run, resolve_config
from cuda_llm.run_config import RunConfig

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def test_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task").mkdir()
    asked = RunConfig(task="my_task", start="mine.cu", prompts="words", device="far.py:Far")
    settled = resolve_config(asked)
    assert settled.device == f"{tmp_path}/far.py:Far"
    assert settled.task == str(tmp_path / "my_task")
    assert settled.start == str(tmp_path / "mine.cu")
    assert settled.prompts == str(tmp_path / "words")
    assert settled.out == str(tmp_path / "traces/runs")


def test_a_shipped_task_is_meant_by_its_name_whatever_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "histogram").mkdir()
    assert resolve_config(RunConfig(task="histogram")).task == "histogram"
    assert resolve_config(RunConfig(task="./histogram")).task == str(tmp_path / "histogram")


def test_what_is_not_asked_for_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_MODEL", "small-model")
    monkeypatch.setenv("CUDA_LLM_DEVICE", "emulated:T4")
    settled = resolve_config(RunConfig(task="vector_add"))
    assert (settled.model, settled.device) == ("small-model", "emulated:T4")
    assert resolve_config(RunConfig(task="vector_add", model="mine")).model == "mine"


def test_settling_twice_changes_nothing() -> None:
    once = resolve_config(RunConfig(task="vector_add"))
    assert resolve_config(once) == once


def test_a_name_sorts_by_time_says_the_task_and_is_used_once() -> None:
    name = name_run("my task", NOON)
    assert name.startswith("20260131-120000-my-task-")
    assert name_run("my task", NOON) != name


@pytest.mark.parametrize("name", ["../up", ".hidden", "a/b", "-x", "a" * 101])
def test_a_name_that_is_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="run name"):
        resolve_config(RunConfig(task="vector_add", run_id=name))
