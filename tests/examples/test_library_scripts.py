"""The scripts that show the library run as they are, from any folder."""

import re
import runpy
import sys
from pathlib import Path

import pytest
from tiny_tasks import tiny_task

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed_by(
    script: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *given: str
) -> str:
    """What a script prints."""
    monkeypatch.setattr(sys, "argv", [script, *given])
    runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    return capsys.readouterr().out


def test_optimize_prints_a_kernel_and_who_wrote_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    task = tiny_task(tmp_path, "tiny")
    printed = printed_by("optimize_task.py", capsys, monkeypatch, str(task))
    assert re.search(r"^r\d-c\d: \d+\.\d\dx the baseline on emulated RTX 3090 Ti$", printed, re.M)
    assert "times are modelled, the kernel is written by: playbook" in printed
    assert "void solve(" in printed


@pytest.mark.evidence
def test_two_searches_at_once_each_tell_of_their_rounds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = printed_by("optimize_async.py", capsys, monkeypatch)
    for task in ("vector_add", "matrix_transpose"):
        assert f"{task}, round 1: " in printed
        assert re.search(rf"^{task}: \d+\.\d\dx, .*best/solve\.cu$", printed, re.M)


@pytest.mark.evidence
def test_a_node_of_ones_own_sees_every_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = printed_by("own_node.py", capsys, monkeypatch)
    assert "round 1: 2 judged, best r1-c" in printed
    assert "'written_by': 'playbook'" in printed
