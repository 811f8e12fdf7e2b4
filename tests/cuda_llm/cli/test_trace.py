"""`cuda-llm trace`: what happened in a run, for people and for programs."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Command
from recorded_run import ATTEMPTS, beginning, ending, write_run

from cuda_llm.critique import CheckedCritique, Correction, Objection
from cuda_llm.predictions import Prediction
from cuda_llm.traces.events import AgentDecided, AttemptJudged


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A finished run and a killed one, where runs lie unless told otherwise."""
    folder = tmp_path / "traces/runs"
    write_run(folder / "first-run", *beginning(), *ending())
    write_run(folder / "second-run", *beginning())
    return folder


def test_list_shows_each_run_in_a_line(command: Command, runs: Path) -> None:
    ran = command("trace", "list")
    assert ran.code == 0
    first, second = (line.split() for line in ran.stdout.splitlines() if "-run" in line)
    assert {"first-run", "matrix_transpose", "finished", "2/2", "r2-c1", "3.40x"} <= {*first}
    assert {"second-run", "killed", "1/2", "r1-c1", "1.25x", "modelled", "$0.01"} <= {*second}


def test_list_as_json_is_one_document(command: Command, runs: Path) -> None:
    document = json.loads(command("trace", "list", "--out", runs, "--json").stdout)
    assert document["schema"] == 1
    assert [one["run_id"] for one in document["runs"]] == ["first-run", "second-run"]
    assert document["runs"][0]["spend"] == {
        **{"calls": 2, "input_tokens": 1200, "output_tokens": 300, "cached_tokens": 0, "usd": 0.01}
    }


def test_list_without_runs_says_how_to_make_one(command: Command, tmp_path: Path) -> None:
    ran = command("trace", "list")
    assert ran.code == 0
    assert ran.stdout == "no runs in traces/runs; start one: cuda-llm run vector_add\n"
    assert json.loads(command("trace", "list", "--json").stdout)["runs"] == []


@pytest.mark.parametrize("name", ["first", "first-run", "traces/runs/first-run"])
def test_show_describes_rounds_duels_and_the_winner(
    command: Command, runs: Path, name: str
) -> None:
    ran = command("trace", "show", name, "--long")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("run first-run\n")
    assert "3.40x the baseline's speed over all sizes" in ran.stdout


def test_show_as_json_holds_every_event(command: Command, runs: Path) -> None:
    document = json.loads(command("trace", "show", "latest", "--json").stdout)
    assert document["summary"]["run_id"] == "second-run"
    assert document["skipped"] == {"unknown": 0, "torn": 0}
    assert [one["kind"] for one in document["events"]] == [one.kind for one in beginning()]
    assert [one["seq"] for one in document["events"]] == list(range(1, len(beginning()) + 1))


def test_candidate_shows_one_whole(command: Command, runs: Path) -> None:
    ran = command("trace", "candidate", "first", "r2-c1")
    assert ran.code == 0
    assert "__global__ void transpose" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("show", "third"), "no run 'third' in traces/runs: there are first-run, second-run"),
        (("show", ""), "no run ''"),
        (("candidate", "first", "r7-c7"), "it has r1-c1, r1-c2, r1-c3, r2-c1"),
        (("candidate", "first", "../../x"), "it has r1-c1"),
        (("list", "--out", "nowhere"), "nowhere: no such folder"),
    ],
)
def test_a_wrong_name_is_one_line(
    command: Command, runs: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = command("trace", *arguments)
    assert ran.code == 2
    assert ran.stdout == ""
    assert complaint in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_run_of_a_newer_program_is_refused(command: Command, runs: Path) -> None:
    (runs / "first-run/run.json").write_text('{"version": 99}')
    ran = command("trace", "show", "first")
    assert ran.code == 2
    assert "use the cuda-llm that wrote it" in ran.stderr


def test_a_reader_that_closes_early_ends_it_quietly(runs: Path, tmp_path: Path) -> None:
    long = beginning() + tuple(
        AgentDecided(agent="a", round=1, decisions=(str(turn) * 90,)) for turn in range(2000)
    )
    write_run(runs / "long-run", *long)
    shown = f"{sys.executable} -P -m cuda_llm trace show long-run --long"
    done = subprocess.run(
        ["bash", "-c", f"{shown} | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("run long-run\n", "", 0)


def test_predictions_of_all_runs_are_compared_with_what_was_had(
    command: Command, tmp_path: Path
) -> None:
    aimed = replace(
        ATTEMPTS[-1],
        predicted=Prediction(code="bank_conflicts", time_us=40.0, saved_us=10.0, had_us=8.0),
    )
    folder = tmp_path / "traces/runs"
    write_run(folder / "a-run", *beginning(), AttemptJudged(attempt=aimed))
    shown = command("trace", "show", "a-run", "--long").stdout
    assert "predicted: 10.0 us of 40.0 us saved without bank conflicts; saved 8.00 us" in shown
    assert "1 time: 10.0 us predicted, 8.00 us had" in " ".join(shown.split())
    table = command("trace", "predictions").stdout
    assert "bank_conflicts" in table
    (kind,) = json.loads(command("trace", "predictions", "--json").stdout)["kinds"]
    assert (kind["code"], kind["tried"], kind["came_true"]) == ("bank_conflicts", 1, 1)


def test_what_a_check_dropped_of_a_critique_is_told(command: Command, tmp_path: Path) -> None:
    objection = Correction(part="change", why=Objection.HAS_ALREADY, said="Pad it")
    critique = CheckedCritique(
        about="r1-c1", bottleneck="bank_conflicts", change="Pad it", corrections=(objection,)
    )
    decided = AgentDecided(agent="reflection", round=1, decisions=(), critique=critique)
    expected = Prediction(
        code="bank_conflicts", time_us=40.0, saved_us=10.0, had_us=8.0, by="critique"
    )
    judged = AttemptJudged(attempt=replace(ATTEMPTS[-1], predicted=expected))
    write_run(tmp_path / "traces/runs/a-run", *beginning(), decided, judged)
    shown = command("trace", "show", "a-run", "--long").stdout
    assert "critique of r1-c1, dropped: bank_conflicts: Pad it" in shown
    assert "the change: the kernel has it already" in shown
    assert "predicted by a critique: 10.0 us of 40.0 us" in shown
    assert "by a critique, 1 time: 10.0 us predicted" in command("trace", "predictions").stdout


def test_without_a_prediction_there_is_no_table(command: Command, runs: Path) -> None:
    assert command("trace", "predictions").stdout.startswith("no predictions in 2 runs")
