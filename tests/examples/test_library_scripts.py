"""The scripts that show the library run as they are, from any folder."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
STANDS_IN = "emulated RTX 3090 Ti stands in for a GPU: "
"""Where no device was named, a person is told which was taken; nothing else goes to stderr."""


def run(script: str, folder: Path, *arguments: str) -> str:
    """What the script prints; fails the test where it fails."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    told = done.stderr.splitlines()
    assert all(line.startswith(STANDS_IN) for line in told), done.stderr
    return done.stdout


def test_optimize_prints_a_kernel_and_who_wrote_it(tmp_path: Path) -> None:
    printed = run("optimize_task.py", tmp_path, "vector_add")
    assert re.search(r"^r\d-c\d: \d+\.\d\dx the baseline on emulated RTX 3090 Ti$", printed, re.M)
    assert "times are modelled, the kernel is written by: playbook" in printed
    assert "void solve(" in printed


def test_two_searches_at_once_each_tell_of_their_rounds(tmp_path: Path) -> None:
    printed = run("optimize_async.py", tmp_path)
    for task in ("vector_add", "matrix_transpose"):
        assert f"{task}, round 1: " in printed
        assert re.search(rf"^{task}: \d+\.\d\dx, .*best/solve\.cu$", printed, re.M)


def test_a_node_of_ones_own_sees_every_round(tmp_path: Path) -> None:
    printed = run("own_node.py", tmp_path)
    assert "round 1: 2 judged, best r1-c" in printed
    assert "'written_by': 'playbook'" in printed
