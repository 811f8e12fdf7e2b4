"""Importing is free: heavy libraries load where they are used.

`cuda_llm.settings` is the one module that loads pydantic; everybody imports it inside functions.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAVY = (
    *("langgraph", "langchain_core", "openai", "cupy", "torch", "optuna", "elftools", "pydantic"),
    *("structlog", "psutil"),
)
LIGHT_ROOMS = (
    "cuda_llm",
    "cuda_llm.outcomes",
    "cuda_llm.tasks.loader",
    "cuda_llm.hardware_profiles.lookup",
    "cuda_llm.cli.app",
)


def all_modules() -> list[str]:
    names = []
    for path in sorted(walk(ROOT / "src/cuda_llm")):
        dotted = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        is_task = path.parent.parent.name == "tasks"
        if not is_task and dotted != "cuda_llm.settings":
            names.append(dotted.removesuffix(".__init__"))
    return names


def walk(folder: Path) -> list[Path]:
    """Like rglob, through the symlinks that stand for the top-level folders."""
    found = list(folder.glob("*.py"))
    for child in folder.iterdir():
        if child.is_dir() and child.name != "__pycache__":
            found += walk(child)
    return found


def loaded_after(modules: list[str], suspects: tuple[str, ...]) -> list[str]:
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
        f"print(*[name for name in {suspects!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_importing_every_module_loads_nothing_heavy() -> None:
    modules = all_modules()
    assert len(modules) > 40
    assert loaded_after(modules, HEAVY) == []


def test_the_rooms_a_command_starts_in_load_no_numpy_and_no_rich() -> None:
    assert loaded_after(list(LIGHT_ROOMS), (*HEAVY, "numpy", "rich")) == []


@pytest.mark.parametrize("command", [(), ("run",), ("evaluate",), ("tasks",)])
def test_help_loads_nothing_heavy(command: tuple[str, ...]) -> None:
    suspects = (*HEAVY, "numpy", "rich")
    code = (
        "import contextlib, io, sys\n"
        "from cuda_llm.cli.app import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    assert run([*{command!r}, '--help']) == 0\n"
        f"print(*[name for name in {suspects!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_package_root_exports_lazily() -> None:
    assert loaded_after(["cuda_llm"], ("cuda_llm.tasks",)) == []
    code = "import cuda_llm; print(callable(cuda_llm.load_task))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
