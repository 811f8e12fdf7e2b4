"""`cuda-llm export`: what it writes, and how it refuses."""

import json
from pathlib import Path

import pytest
from commands import Command
from recorded_run import SOURCE, beginning, ending, write_run

from cuda_llm.traces.events import RunFinished


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A finished run, where runs lie unless told otherwise."""
    folder = tmp_path / "traces/runs"
    write_run(folder / "a-run", *beginning(), *ending())
    return folder


@pytest.mark.parametrize("to", ["cu", "cupy", "torch"])
def test_the_winner_is_written_with_its_proof(
    command: Command, runs: Path, tmp_path: Path, to: str
) -> None:
    ran = command("export", "latest", "--to", to)
    assert (ran.code, ran.stderr) == (0, "")
    assert "on emulated RTX 3090 Ti, whose times are" in ran.stdout
    folder = tmp_path / f"matrix_transpose_{to}"
    assert (folder / "solve.cu").read_text() == SOURCE
    proof = json.loads((folder / "proof.json").read_text())
    assert proof["kernel"]["written_by"] == "model"
    assert (proof["verdict"], proof["times"]) == ("PASSED", "modelled")
    assert proof["verify"] == (
        "cuda-llm evaluate matrix_transpose solve.cu --device emulated:rtx_3090_ti"
    )


def test_a_folder_that_exists_is_kept_unless_forced(
    command: Command, runs: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/solve.cu").write_text("mine")
    ran = command("export", "latest", "--out", "mine")
    assert ran.code == 2
    assert "mine: exists already; overwrite it with --force" in ran.stderr
    assert (tmp_path / "mine/solve.cu").read_text() == "mine"
    assert command("export", "latest", "--out", "mine", "--force").code == 0
    assert (tmp_path / "mine/solve.cu").read_text() == SOURCE


def test_a_run_without_a_winner_has_nothing_to_export(command: Command, tmp_path: Path) -> None:
    end = RunFinished(reason="rounds", best=None)
    write_run(tmp_path / "traces/runs/a-run", *beginning()[:5], end)
    ran = command("export", "latest")
    assert ran.code == 1
    assert "no candidate has passed; the baseline stands" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_best_so_far_of_a_run_says_that_it_is_no_more(command: Command, tmp_path: Path) -> None:
    write_run(tmp_path / "traces/runs/a-run", *beginning())
    ran = command("export", "latest")
    assert ran.code == 0
    assert "The run is killed, not finished: this is its best so far" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("latest", "--to", "numpy"), "numpy"),
        (("nothing",), "no run 'nothing'"),
        (("latest", "--to", "cupy", "--out", "not-a-name"), "Python cannot import that name"),
        (("latest", "--out", "traces/runs/a-run/run.json"), "is a file"),
        (("latest", "--out", "traces/runs/a-run/run.json/below"), "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    command: Command, runs: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = command("export", *arguments)
    assert ran.code == 2
    assert complaint in ran.stderr
    assert ran.stderr.count("\n") == 1
