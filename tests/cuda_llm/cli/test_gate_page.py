"""The page on the gate: its kernels are gated, and its CI jobs run, as they stand there."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/gate.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KERNELS = {
    "transpose.cu": ROOT / "examples/kernels/transpose_padded.cu",
    "scratch.cu": ROOT / "examples/kernels/transpose_missing_barrier.cu",
}


def shell(folder: Path, line: str) -> "subprocess.CompletedProcess[str]":
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def steps_of_jobs() -> list[str]:
    """Every command of the two CI files of the page, in their order."""
    yaml: Any = import_module("yaml")
    jobs = {name: yaml.safe_load(text) for kind, name, text in BLOCKS if kind == "yaml"}
    github = jobs[".github/workflows/kernels.yml"]["jobs"]["gate"]["steps"]
    return [one["run"] for one in github if "run" in one] + [
        *jobs[".gitlab-ci.yml"]["gate"]["script"]
    ]


def test_the_page_gates_its_kernels_and_its_jobs_run(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    for name, path in KERNELS.items():
        shutil.copy(path, tmp_path / "kernels" / name)
    assert shell(tmp_path, "git init -q").returncode == 0
    commands: list[str] = []
    for kind, name, text in BLOCKS:
        if kind == "toml":
            (tmp_path / name).write_text(text)
        commands += text.splitlines() if kind == "console" else ()
    commands += [one for one in steps_of_jobs() if not one.startswith(("pip", "apt-get"))]
    for line in dict.fromkeys(commands):
        done = shell(tmp_path, line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert "2 of 2 kernels pass on emulated H200" in (tmp_path / "summary.md").read_text()

    kernel = tmp_path / "kernels/transpose.cu"
    kernel.write_text(KERNELS["scratch.cu"].read_text())
    red = shell(tmp_path, "cuda-llm gate")
    assert red.returncode == 1 and "FAILED transpose: DATA_RACE" in red.stdout


@pytest.mark.parametrize("line", [one for one in steps_of_jobs() if one.startswith("pip")])
def test_what_the_jobs_install_is_an_extra_of_ours(line: str) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (extra,) = re.findall(r"cuda-llm\[(\w+)\]", line)
    assert extra in known
