"""`run` and `resume` as a person and a script meet them: real kernels, real kills."""

import json
import shlex
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import Command, Ran
from tiny_tasks import tiny_task

from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import RunForked, RunInterrupted, RunResumed, RunStarted
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/run.schema.json").read_text())
WRITER = f"{ROOT / 'tests/support/scripted_writer.py'}:Writer"
OPTIONS = ("--generator", WRITER, "--tune", 0)
TWO_BY_TWO = (*OPTIONS, "--candidates", 2, "--rounds", 2)


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Vector addition whose judging takes less than the start of a command."""
    return tiny_task(tmp_path, "vector_add")


def document(ran: Ran) -> dict[str, Any]:
    """The JSON that was printed; fails the test where it is not what the schema says."""
    whole: dict[str, Any] = json.loads(ran.stdout)
    jsonschema.validate(whole, SCHEMA)
    return whole


def the_run(folder: Path) -> Path:
    (run,) = (folder / "traces/runs").iterdir()
    return run


def recorded_events(run: Path, kind: type) -> list[Any]:
    return [one.event for one in read_events(run / "events.jsonl") if isinstance(one.event, kind)]


def reaches(folder: Path, text: str) -> Callable[[], bool]:
    """Whether the one run below `folder` has recorded_events of `text`."""

    def found() -> bool:
        events = list(folder.glob("traces/runs/*/events.jsonl"))
        return bool(events) and text in events[0].read_text()

    return found


def test_a_run_prints_for_a_person_what_won_and_what_that_is_worth(
    command: Command, task: Path, tmp_path: Path
) -> None:
    ran = command("run", task, *OPTIONS, "--candidates", 1, "--rounds", 1)
    assert ran.code == 0, ran.stderr
    run = the_run(tmp_path)
    assert ran.stdout.startswith("vector_add · emulated RTX 3090 Ti (times are modelled)")
    assert "the baseline's speed over all sizes (modelled)" in ran.stdout
    assert "written by" in ran.stdout
    for file in ("best/solve.cu", "best/verify.sh"):
        assert f"traces/runs/{run.name}/{file}" in ran.stdout
        assert (run / file).is_file()
    assert f"cuda-llm trace show traces/runs/{run.name}" in ran.stdout
    verified = subprocess.run(["sh", run / "best/verify.sh"], capture_output=True, check=False)
    assert verified.returncode == 0, verified.stderr
    assert f"run {run.name}" in ran.stderr
    assert "r1-c1 " in ran.stderr


def test_a_run_prints_for_a_program_the_same_in_one_document(
    command: Command, task: Path, tmp_path: Path
) -> None:
    ran = command(*("run", task, *OPTIONS, "--candidates", 3, "--rounds", 1, "--json", "--seed", 3))
    assert ran.code == 0, ran.stderr
    whole = document(ran)
    assert whole["seed"] == 3
    assert whole["finished"] is True
    assert Path(whole["run_dir"]) == the_run(tmp_path)
    assert Path(whole["best"]["file"]).read_text() == whole["best"]["source"]
    candidates = [one for round_ in whole["rounds"] for one in round_["candidates"]]
    assert whole["best"]["candidate"] in [one["id"] for one in candidates]
    assert {one["code"] for one in candidates} >= {"PASSED", "WRONG_RESULT", "COMPILE_FAILED"}
    assert whole["seconds"]["compile"] > 0


def test_a_run_in_which_nothing_passes_says_so(command: Command, task: Path) -> None:
    nobody = WRITER.replace(":Writer", ":Bungler")
    ran = command(
        "run", task, *OPTIONS, "--generator", nobody, "--candidates", 2, "--rounds", 1, "--json"
    )
    assert ran.code == 1
    whole = document(ran)
    assert whole["best"] is None
    assert {one["code"] for one in whole["rounds"][0]["candidates"]} == {"COMPILE_FAILED"}


@pytest.mark.parametrize(("send", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_end_everything_and_the_run_goes_on_by_the_printed_command(
    process: Command,
    command: Command,
    task: Path,
    tmp_path: Path,
    send: signal.Signals,
    code: int,
) -> None:
    judged = reaches(tmp_path, '"kind":"attempt_judged"')
    ran = process("run", task, *TWO_BY_TWO, "--json", until=judged, send=send)
    assert ran.code == code
    program, *resume = shlex.split(ran.complaint.partition("go on with: ")[2])
    assert (program, resume[0]) == ("cuda-llm", "resume")
    assert document(ran)["finished"] is False
    run = the_run(tmp_path)
    assert len(recorded_events(run, RunInterrupted)) == 1
    listed = command("trace", "list", "--json")
    assert [one["state"] for one in json.loads(listed.stdout)["runs"]] == ["interrupted"]
    again = command(*resume, "--json")
    assert again.code == 0, again.stderr
    assert document(again)["finished"] is True
    assert len(recorded_events(run, RunResumed)) == 1
    third = command("resume", run.name, "--json")
    assert (third.code, document(third)) == (0, document(again))
    assert command("resume", run.name, "--hint", "x").code == 2


def test_a_killed_run_leaves_nobody_behind_and_goes_on_later(
    process: Command, command: Command, task: Path, tmp_path: Path
) -> None:
    stage = reaches(tmp_path, '"stage":"validate"')
    ran = process("run", task, *TWO_BY_TWO, until=stage, send=signal.SIGKILL)
    assert ran.code == -signal.SIGKILL
    again = command("resume", "latest", "--json")
    assert again.code == 0, again.stderr
    assert len(recorded_events(the_run(tmp_path), RunStarted)) == 1


def test_a_review_stops_before_a_round_and_resume_goes_on(
    command: Command, task: Path, tmp_path: Path
) -> None:
    ran = command("run", task, *OPTIONS, "--review", "--candidates", 1, "--rounds", 1)
    assert ran.code == 0
    assert "stopped for review" in ran.stderr
    again = command("resume", "latest", "--hint", "Keep it simple.", "--json")
    assert again.code == 0, again.stderr
    brief = RunFolder(the_run(tmp_path)).brief("r1-c1")
    assert brief is not None
    assert [hint.text for hint in brief.performance_hints] == ["Keep it simple."]


def test_a_fork_goes_another_way_with_the_hints_of_an_editor(
    command: Command,
    task: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert command("run", task, *TWO_BY_TWO).code == 0
    old = the_run(tmp_path)
    editor = tmp_path / "editor.sh"
    editor.write_text('#!/bin/sh\nprintf \'[[error_hints]]\\ntext = "Count."\\n\' > "$1"\n')
    editor.chmod(0o755)
    fork = ("resume", old.name, "--from-round", 1)
    ran = command(*fork, "--edit-hints", "--json", EDITOR=str(editor))
    assert ran.code == 0, ran.stderr
    new = Path(document(ran)["run_dir"])
    assert new != old
    brief = RunFolder(new).brief("r2-c1")
    assert brief is not None
    assert [hint.text for hint in brief.error_hints] == ["Count."]
    (event,) = recorded_events(new, RunForked)
    assert event == RunForked(of=old.name, round=1, edited_hints=True)

    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    none = command(*fork, "--edit-hints")
    assert (none.code, "set EDITOR" in none.complaint) == (3, True)
    broken = tmp_path / "hints.toml"
    broken.write_text("[[error_hints")
    bad = command(*fork, "--hints", broken)
    assert (bad.code, "hints.toml: is not TOML" in bad.complaint) == (2, True)
    late = command("resume", old.name, "--from-round", 7)
    assert (late.code, "there is 0 to 1" in late.complaint) == (2, True)
    assert len(list((tmp_path / "traces/runs").iterdir())) == 2
