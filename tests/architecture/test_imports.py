"""The help of every command is there at once: it imports no framework, no arrays, no driver."""

import subprocess
import sys

import pytest

HEAVY = ("langgraph", "langchain_core", "openai", "numpy", "cupy", "torch", "optuna", "rich")


@pytest.mark.parametrize("command", [(), ("run",), ("evaluate",), ("tasks",), ("trace", "show")])
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    code = (
        "import contextlib, io, sys\n"
        "from cuda_llm.cli.app import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    assert run([*{command!r}, '--help']) == 0\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_importing_the_package_imports_no_room_of_it() -> None:
    code = "import sys, cuda_llm; print('cuda_llm.tasks' in sys.modules, cuda_llm.load_task)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("False <function load_task")
