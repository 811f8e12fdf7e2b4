"""The log of real commands."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from commands import Command
from tiny_tasks import tiny_task

ROOT = Path(__file__).parents[3]
SMALL = ("--generator", "writer.py:Writer", "--candidates", 1, "--rounds", 1, "--tune", 0)
AGENT = """
import logging
import structlog

structlog.get_logger("mine").warning("my agent is loaded", colour="blue")

async def broken(situation):
    logging.getLogger("mine").warning("about to fail")
    raise ValueError("my own mistake, MY-OWN-KEY-123")
"""


def records(text: str, **wanted: object) -> list[dict[str, Any]]:
    """The records in JSON among the lines, that have these fields."""
    read = [json.loads(line) for line in text.splitlines() if line.startswith('{"timestamp"')]
    return [one for one in read if wanted.items() <= one.items()]


def write_new_kernels(file: Path) -> None:
    """A generator of kernels that no cache knows, so that nvcc runs whatever ran before."""
    scripted = (ROOT / "tests/support/scripted_writer.py").read_text()
    file.write_text(scripted.replace("__global__", f"// {uuid4()}\n__global__", 1))


def test_the_log_of_a_run_names_who_did_what_when(command: Command, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    log = tmp_path / "logs" / "run.jsonl"
    options = ("--log-file", log, "--log-format=json", "--log-level", "info")
    task = tiny_task(tmp_path, "vector_add")
    write_new_kernels(tmp_path / "writer.py")
    ran = command(
        *("run", task, *SMALL),
        "--agent",
        "agent.py:broken",
        "--json",
        *options,
        MY_KEY="MY-OWN-KEY-123",
    )
    assert ran.code == 0, ran.stderr
    document = json.loads(ran.stdout)
    text = log.read_text()
    assert len(records(text)) == len(text.splitlines())
    assert "MY-OWN-KEY-123" not in text
    run = document["run_id"]
    (first,) = records(text, event="run_started")
    assert (first["run_id"], first["seq"], first["logger"]) == (run, 1, "cuda_llm.events")
    (nvcc, *_) = records(text, event="nvcc has ended", run_id=run, candidate="r1-c1", round=1)
    assert nvcc["stage"] == "compiler"
    assert nvcc["seconds"] > 0
    assert records(text, event="my agent is loaded", logger="mine", colour="blue")
    (own, *_) = records(text, logger="mine", run_id=run)
    assert own["agent"] == own["stage"]
    failed = records(text, event="a part of the run failed", agent=own["agent"])
    assert failed[0]["exception"][0]["frames"][-1]["name"] == "broken"
    assert records(text, event="stage_left", candidate="r1-c1", stage="compile")
    assert records(text, event="run_finished", run_id=run)


def test_a_failed_command_is_a_record_in_a_file_and_one_line_on_stderr(
    command: Command, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    ran = command("tasks", "show", "nix", "--log-file", log, CUDA_LLM_LOG_FORMAT="json")
    assert ran.code == 2
    assert "no such task" in ran.complaint
    assert ran.stderr.count("\n") == 1
    assert "no such task" in records(log.read_text(), event="command failed")[0]["error"]


def test_the_log_goes_to_stderr_unless_a_file_is_named(command: Command) -> None:
    ran = command("--log-level", "debug", "--log-format", "json", "tasks", "list")
    assert records(ran.stderr, event="command has ended", exit_code=0)
    assert "timestamp" not in ran.stdout
    quiet = command("tasks", "list")
    assert quiet.stderr == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--log-level", "loud"), "--log-level"),
        (("--log-file", "/proc/nowhere"), "--log-file"),
        (("--log-format",), "--log-format"),
    ],
)
def test_a_log_option_that_does_not_fit_is_one_line(
    command: Command, options: tuple[str, ...], expected: str
) -> None:
    ran = command("tasks", "list", *options)
    assert ran.code == 2
    assert expected in ran.complaint


def test_what_follows_two_dashes_is_the_commands_own(command: Command) -> None:
    ran = command("tasks", "show", "--", "--log-level")
    assert ran.code == 2
    assert "--log-level: no such task" in ran.complaint
