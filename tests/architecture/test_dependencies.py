"""The arrows between folders go one way (docs/architecture.md)."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

GROUND = {
    *("atomic_file", "capabilities", "codec", "components", "conversation", "data_file"),
    *(
        "dotted",
        "each_loop",
        "errors",
        "figure_wording",
        "own_part",
        "own_thread",
        "log",
        "log_setup",
        "outcomes",
    ),
    *("predictions", "profile", "redaction", "run_config", "search", "settings", "source_file"),
    "source_kinds",
    *("source_tokens", "time_terms", "verdict_wording", "critique", "lessons"),
}
"""Modules at the package root that everything may know; they know only each other."""

MAY_KNOW = {
    "ground": set[str](),
    "hardware_profiles": {"ground"},
    "tasks": {"ground", "hardware_profiles"},
    "traces": {"ground", "tasks", "hardware_profiles"},
    "tools": {"ground", "tasks", "hardware_profiles"},
    "agents": {"ground", "tasks", "hardware_profiles", "traces"},
    "graph": {"ground", "tasks", "hardware_profiles", "traces", "tools", "agents"},
    "cli": {"ground", "tasks", "hardware_profiles", "traces", "tools", "agents", "graph"},
}

MAY_KNOW_INSIDE_TOOLS = {
    "device": set[str](),
    "native": set(),
    "profiler": {"device"},
    "sandbox": {"native"},
    "compiler": {"device", "native", "sandbox"},
    "emulator": {"device", "native", "sandbox", "compiler", "profiler"},
    "cuda": {"device", "native", "sandbox", "compiler", "profiler"},
    "cluster": {"device", "native", "cuda", "compiler", "validator", "timing", "judge"},
    "open_device": {"device", "emulator", "cuda"},
    "validator": {"device", "compiler"},
    "timing": {"device", "validator", "profiler", "native"},
    "gate": {"judge"},
    "pytorch": set(),
    "judge": {"device", "timing", "validator", "compiler", "profiler", "native"},
}

OPTIONAL = (
    "tools.cluster",
    "tools.gate",
    "tools.pytorch",
    "graph.benchmark",
    "traces.export",
    "traces.otlp",
    "traces.report.serve",
)
"""Rooms that only a command of the command line imports, or a name that a user writes."""

FORBIDDEN_IN_TOOLS = {"langchain", "langchain_core", "langchain_openai", "langgraph"}


def modules(folder: Path) -> Iterator[Path]:
    """Python files of one room; a task's reference.py is the user's kind of code, not ours."""
    for path in sorted(folder.rglob("*.py")):
        if path.name != "reference.py" or path.parent == folder:
            yield path


@cache
def imported(path: Path) -> frozenset[str]:
    """Dotted names a file imports, wherever in the file it does."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def room_of(dotted: str) -> str:
    """Room of a `cuda_llm.x...` name."""
    parts = dotted.split(".")
    first = parts[1] if len(parts) > 1 else ""
    return "ground" if first in GROUND else first


def rooms() -> list[tuple[str, Path]]:
    folders = [(name, ROOT / name) for name in MAY_KNOW if name not in {"ground", "cli"}]
    found = [(name, path) for name, folder in folders for path in modules(folder)]
    found += [("cli", path) for path in modules(ROOT / "src/cuda_llm/cli")]
    found += [("ground", ROOT / f"src/cuda_llm/{name}.py") for name in GROUND]
    return found


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    strangers = [
        f"{path.relative_to(ROOT)} imports {name}"
        for owner, path in rooms()
        if owner == room
        for name in imported(path)
        if name.startswith("cuda_llm.") and room_of(name) not in MAY_KNOW[room] | {room}
    ]
    assert not strangers


@pytest.mark.parametrize("part", MAY_KNOW_INSIDE_TOOLS)
def test_inside_tools_the_arrows_go_one_way_too(part: str) -> None:
    folder = ROOT / "tools" / part
    paths = modules(folder) if folder.is_dir() else [folder.with_suffix(".py")]
    strangers = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in imported(path)
        if name.startswith("cuda_llm.tools.")
        and name.split(".")[2] not in MAY_KNOW_INSIDE_TOOLS[part] | {part}
    ]
    assert not strangers


def test_every_part_of_tools_is_in_the_table() -> None:
    parts = {p.stem for p in (ROOT / "tools").iterdir() if p.is_dir() or p.suffix == ".py"}
    assert parts - {"__init__", "__pycache__"} == set(MAY_KNOW_INSIDE_TOOLS)


@pytest.mark.parametrize("optional", OPTIONAL)
def test_only_a_command_imports_an_optional_room(optional: str) -> None:
    dotted = f"cuda_llm.{optional}"
    inside = ROOT / optional.replace(".", "/")
    strangers = [
        f"{path.relative_to(ROOT)} imports {name}"
        for owner, path in rooms()
        if owner != "cli" and inside not in (*path.parents, path.with_suffix(""))
        for name in imported(path)
        if name == dotted or name.startswith(f"{dotted}.")
    ]
    assert not strangers


def test_tools_know_no_agent_framework() -> None:
    strangers = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(ROOT / "tools")
        for name in imported(path)
        if name.split(".")[0] in FORBIDDEN_IN_TOOLS
    ]
    assert not strangers


def test_the_graph_knows_no_runs() -> None:
    allowed = {"runs": {"runs", "graph"}, "benchmark": {"benchmark", "runs", "graph"}}
    strangers = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(ROOT / "graph")
        for name in imported(path)
        if name.startswith("cuda_llm.graph.")
        if part_of_graph(name) not in allowed.get(path.parent.name, {"graph"})
    ]
    assert not strangers


def part_of_graph(dotted: str) -> str:
    """Folder inside the graph of a `cuda_llm.graph.x...` name."""
    part = dotted.split(".")[2]
    return part if (ROOT / "graph" / part).is_dir() else "graph"
