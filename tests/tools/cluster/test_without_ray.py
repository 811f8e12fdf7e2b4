"""Ray is an extra: it is imported where a cluster is asked for, and its lack is told there."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import Ran
from tiny_tasks import tiny_task

from cuda_llm.cli.app import run as main

ROOT = Path(__file__).parents[3]
BASELINE = ROOT / "tasks/vector_add/baseline.cu"
MINE = "pip install 'cuda-llm[ray]'"
REFUSE = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            sys.exit(f"{name} is imported")

sys.meta_path.insert(0, Refuse())
"""
"""Ends the process where Ray is looked for, whether it is installed or not."""
COMMAND = """
import sys
from cuda_llm.__main__ import main

sys.argv = ["cuda-llm", *{words!r}]
main()
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def command(words: Sequence[object]) -> str:
    return COMMAND.format(words=[*map(str, words)])


def test_ray_is_not_looked_for_where_no_cluster_is_asked_for(tmp_path: Path) -> None:
    task = tiny_task(tmp_path, "tiny")
    load_all = (
        "import cuda_llm, cuda_llm.extend\n"
        "from cuda_llm.cli.app import SUBCOMMANDS\n"
        "from cuda_llm.tools.cluster.spec import parse_cluster\n"
        "[one.load(name) for name, one in SUBCOMMANDS.items()]\n"
        "parse_cluster('ray:auto/H200')\n"
    )
    evaluate = command(["evaluate", task, BASELINE, "--device", "emulated", "--json"])
    done = run(REFUSE + load_all + evaluate, tmp_path)
    assert (done.returncode, "is imported" in done.stderr) == (0, False), done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["verdict"]["code"] == "PASSED"


def test_what_is_refused_would_be_seen(tmp_path: Path) -> None:
    done = run(REFUSE + "import ray.exceptions", tmp_path)
    assert (done.returncode, done.stderr) == (1, "ray is imported\n")


def evaluate_without_ray(
    spec: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ran:
    """Evaluate a kernel in this process as where Ray is not installed."""
    monkeypatch.setitem(sys.modules, "ray", None)  # So Python finds no such package.
    code = main(["evaluate", "vector_add", str(BASELINE), "--device", spec])
    return Ran(code, *capsys.readouterr())


def test_without_ray_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = evaluate_without_ray("ray:auto/emulated:RTX 4090", monkeypatch, capsys)
    assert (done.code, done.stdout) == (3, "")
    assert done.stderr == f"error: Ray is missing; install it: {MINE}\n"


def test_a_slip_in_the_text_is_told_before_ray_is_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = evaluate_without_ray("ray:auto?max_gpus=0", monkeypatch, capsys)
    assert done.code == 2
    assert "max_gpus" in done.complaint
