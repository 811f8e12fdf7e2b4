"""What a run cannot do is one clear line with the right exit code; nothing is left (conftest)."""

from pathlib import Path

import pytest
from commands import Command

ROOT = Path(__file__).parents[3]


def bare_task(folder: Path) -> Path:
    """A task without a playbook."""
    shipped = ROOT / "tasks/vector_add"
    folder.mkdir()
    for name in ("task.toml", "description.md", "reference.py", "baseline.cu"):
        (folder / name).write_bytes((shipped / name).read_bytes())
    return folder


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["vector_sum"], "vector_sum: no such task or folder; did you mean vector_add?"),
        (["vector_add", "--device", "gpu0"], "unknown device 'gpu0'"),
        (["vector_add", "--device", "ray:"], "'ray:' names no cluster"),
        (["vector_add", "--strategy", "greedy"], "unknown strategy 'greedy'"),
        (["vector_add", "--generator", "gpt"], "unknown generator 'gpt'"),
        (["vector_add", "--generator", "no.such.module:Writer"], "no.such.module"),
        (["vector_add", "--agent", "nobody"], "nobody"),
        (["vector_add", "--candidates", "-2"], "--candidates -2: expected a whole number from 1"),
        (["vector_add", "--rounds", "0"], "--rounds 0"),
        (["vector_add", "--budget-usd", "-1"], "--budget-usd -1: expected a number above 0"),
        (["vector_add", "--max-minutes", "nan"], "--max-minutes nan"),
        (["vector_add", "--start", "nowhere.cu"], "nowhere.cu: No such file"),
        (["vector_add", "--prompts", "nowhere"], "nowhere"),
        (["vector_add", "--candidates", "many"], "--candidates"),
        (["vector_add", "--hardware-context", "half"], "half"),
    ],
)
def test_what_makes_no_sense_is_a_mistake(
    command: Command, tmp_path: Path, options: list[str], expected: str
) -> None:
    ran = command("run", *options)
    assert ran.code == 2
    assert expected in ran.complaint
    assert ran.stdout == ""
    assert not (tmp_path / "traces").exists()


def test_nobody_to_write_kernels_is_something_missing(command: Command, tmp_path: Path) -> None:
    task = bare_task(tmp_path / "bare")
    ran = command("run", task)
    assert ran.code == 3
    assert "has no playbook and no model is named; name one with --model" in ran.complaint


def test_a_model_without_a_key_is_something_missing(command: Command) -> None:
    ran = command("run", "vector_add", "--model", "gpt-5", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert ran.code == 3
    assert "OPENAI_API_KEY" in ran.complaint


def test_an_endpoint_that_does_not_answer_is_something_missing(
    command: Command, tmp_path: Path
) -> None:
    nobody = "http://127.0.0.1:9/v1"
    ran = command("run", "vector_add", "--model", "any", "--base-url", nobody)
    assert ran.code == 3
    assert "127.0.0.1:9" in ran.complaint
    assert not (tmp_path / "traces").exists()


def test_a_folder_for_runs_that_is_none(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = command("run", "vector_add", "--out", "file")
    assert ran.code == 2
    assert "choose another folder with --out" in ran.complaint


def test_a_run_that_is_not_there(command: Command) -> None:
    ran = command("resume", "yesterday")
    assert ran.code == 2
    assert "no run 'yesterday'" in ran.complaint


def test_hints_without_a_round_to_fork_from(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "traces/runs/mine"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"version": 1}')
    ran = command("resume", "mine", "--edit-hints")
    assert ran.code == 2
    assert "--from-round" in ran.complaint


def test_a_run_with_a_broken_run_json(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "traces/runs/mine"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{")
    ran = command("resume", "mine")
    assert ran.code == 2
    assert "run.json" in ran.complaint


def test_a_run_of_a_newer_version(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "traces/runs/mine"
    run.mkdir(parents=True)
    (run / "run.json").write_text('{"version": 99}')
    ran = command("resume", "mine")
    assert ran.code == 2
    assert "use the cuda-llm that wrote it" in ran.complaint
