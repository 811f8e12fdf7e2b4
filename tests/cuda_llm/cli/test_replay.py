"""`run --replay` as a person and a script meet it: no key, no GPU, no compiler."""

import asyncio
import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from commands import Command
from measured_runs import DuelTableBench
from replays import decisions
from run_starts import asked, parts

from cuda_llm.graph.runs.start import start
from cuda_llm.traces.run_folder import RunFolder

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs/schemas/run.schema.json").read_text())


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run in `traces/runs` of the current folder, whose bench is in no record."""
    monkeypatch.chdir(tmp_path)
    own = replace(parts(bench=DuelTableBench()), reflector=None, tuner=None)
    out = tmp_path / "traces/runs"
    result = asyncio.run(start(asked(out, run_id="first", strategy="best-of-n"), brought=own))
    return RunFolder(result.run_dir)


def others(run: RunFolder) -> list[RunFolder]:
    """The runs beside it."""
    return [RunFolder(one) for one in sorted(run.path.parent.iterdir()) if one != run.path]


def test_a_replay_says_how_far_the_record_answered(command: Command, recorded: RunFolder) -> None:
    ran = command("run", "--replay", "latest", "--json")
    assert ran.code == 0, ran.stderr
    whole: dict[str, Any] = json.loads(ran.stdout)
    jsonschema.validate(whole, SCHEMA)
    assert whole["replay"] == {
        "of": str(recorded.path),
        "measurements": True,
        "answered": 8,
        "unanswered": [],
        "prompts_differ": [],
        "unjudged": [],
    }
    (again,) = others(recorded)
    assert decisions(again) == decisions(recorded)


def test_what_is_typed_is_not_as_recorded(command: Command, recorded: RunFolder) -> None:
    typed = ("run", "vector_add", "--replay", "first")
    ran = command(*typed, "--rounds", "1", "--candidates", "5")
    assert ran.code == 0, ran.stderr
    assert "kernels, replies and measurements of first: nothing was asked" in ran.stdout
    assert "4 calls answered by the record, 1 not: candidates/r1-c5" in ran.stdout
    (again,) = others(recorded)
    request = again.read_run()["request"]
    assert (request["rounds"], request["candidates"], request["strategy"]) == (1, 5, "best-of-n")
    assert request["replay"] == str(recorded.path)


def test_the_command_that_is_printed_shows_what_was_asked_otherwise(
    command: Command, recorded: RunFolder
) -> None:
    brief = recorded.candidate("r1-c1") / "brief.json"
    brief.write_text(json.dumps({**json.loads(brief.read_text()), "direction": "elsewhere"}))
    ran = command("run", "--replay", "first")
    assert "1 prompt not as recorded" in ran.stdout
    line = next(one for one in ran.stdout.splitlines() if one.strip().startswith("diff -r"))
    shown = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert "elsewhere" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("run",), "no task is named"),
        (("run", "--replay", "second"), "no run 'second' in traces/runs: there are first"),
        (("run", "--replay", "first", "--model", "m"), "--model: a replay asks no model"),
        (("run", "reduction", "--replay", "first"), "a run of vector_add, not of reduction"),
        (("run", "--replay", "first", "--l2", "warm"), "--l2: nothing is timed"),
        (("run", "--replay", "first", "--device", "cuda:7"), "with its own bench, device; bring"),
    ],
)
def test_a_replay_that_cannot_be_is_refused_on_one_line(
    options: tuple[str, ...], message: str, command: Command, recorded: RunFolder
) -> None:
    ran = command(*options)
    assert ran.code == 2
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert not others(recorded)
