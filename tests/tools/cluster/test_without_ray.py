"""Ray is an extra: it is imported where a cluster is asked for, and its lack is told there."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

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
HIDE = """
import importlib.machinery
import sys

class Hide(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] == "ray":
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Hide
"""
"""Finds everything but Ray, as where it is not installed."""
COMMAND = """
import sys
from cuda_llm.__main__ import main

sys.argv = ["cuda-llm", *{words!r}]
main()
"""


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, timeout=120
    )


def command(words: Sequence[object]) -> str:
    return COMMAND.format(words=[*map(str, words)])


@pytest.mark.parametrize(
    "code",
    [
        "import cuda_llm, cuda_llm.extend",
        command(["evaluate", "vector_add", BASELINE, "--device", "emulated", "--json"]),
        "from cuda_llm.tools.cluster.spec import parse_cluster; parse_cluster('ray:auto/H200')",
    ],
)
def test_ray_is_not_looked_for_where_no_cluster_is_asked_for(code: str, tmp_path: Path) -> None:
    done = run(REFUSE + code, tmp_path)
    assert (done.returncode, "is imported" in done.stderr) == (0, False), done.stderr


def test_what_is_refused_would_be_seen(tmp_path: Path) -> None:
    done = run(REFUSE + "import ray.exceptions", tmp_path)
    assert (done.returncode, done.stderr) == (1, "ray is imported\n")


def test_nothing_of_ray_is_loaded_with_the_command_line(tmp_path: Path) -> None:
    code = (
        "import sys, cuda_llm\n"
        "from cuda_llm.cli.app import SUBCOMMANDS\n"
        "from cuda_llm.tools.open_device import open_device\n"
        "[one.load(name) for name, one in SUBCOMMANDS.items()]\n"
        "open_device('emulated:RTX 4090')\n"
        "print([one for one in sys.modules if one.partition('.')[0] == 'ray'])\n"
    )
    done = run(code, tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_ray_one_line_says_how_to_install_it(tmp_path: Path) -> None:
    words = ["evaluate", "vector_add", BASELINE, "--device", "ray:auto/emulated:RTX 4090"]
    done = run(HIDE + command(words), tmp_path)
    assert done.returncode == 3
    assert done.stderr == f"error: Ray is missing; install it: {MINE}\n"
    assert done.stdout == ""


def test_a_slip_in_the_text_is_told_before_ray_is_missed(tmp_path: Path) -> None:
    words = ["evaluate", "vector_add", BASELINE, "--device", "ray:auto?max_gpus=0"]
    done = run(HIDE + command(words), tmp_path)
    assert done.returncode == 2
    assert "max_gpus" in done.stderr
    assert done.stderr.count("\n") == 1
