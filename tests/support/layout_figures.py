"""Figures of the layout: how many product files, how long, who imports whom.

Product files are the Python files with content outside `tests/` and `examples/`. Run from anywhere:
`python tests/support/layout_figures.py` prints the figures that docs/decisions/layout.md records.
"""

import ast
import statistics
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("agents", "graph", "hardware_profiles", "tasks", "tools", "traces")
SCRIPTS = ("benchmarks", "scripts")


@dataclass(frozen=True)
class Figures:
    """What the layout measures."""

    files: int
    median_lines: float
    longest_lines: int
    lonely: tuple[str, ...]
    """Modules of the package that at most one other product module imports."""
    lonely_share: float


def product_files() -> list[Path]:
    """Python files with content of the package, the benchmarks and the scripts."""
    folders = [ROOT / name for name in (*ROOMS, *SCRIPTS)]
    found = [path for folder in folders for path in folder.rglob("*.py")]
    package = ROOT / "src/cuda_llm"
    found += [*package.glob("*.py"), *(package / "cli").rglob("*.py")]
    return sorted(path for path in found if path.read_text().strip())


def module_of(path: Path) -> str:
    """Dotted name of a product file; scripts are named by their path."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[:2] == ("src", "cuda_llm"):
        parts = ("cuda_llm", *parts[2:])
    elif parts[0] in ROOMS:
        parts = ("cuda_llm", *parts)
    return ".".join(parts).removesuffix(".__init__")


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of the package that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules


def measure() -> Figures:
    """Measure the layout as it is."""
    files = product_files()
    modules = {module_of(path): path for path in files}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in modules.items():
        for imported in imports_of(path, set(modules)):
            if imported != name:
                importers[imported].add(name)
    lines = [len(path.read_text().splitlines()) for path in files]
    package = [name for name in modules if name.startswith("cuda_llm")]
    lonely = sorted(name for name in package if len(importers[name]) <= 1)
    return Figures(
        files=len(files),
        median_lines=statistics.median(lines),
        longest_lines=max(lines),
        lonely=tuple(lonely),
        lonely_share=len(lonely) / len(package),
    )


if __name__ == "__main__":
    figures = measure()
    print(f"product files          {figures.files}")
    print(f"median lines           {figures.median_lines:g}")
    print(f"longest file, lines    {figures.longest_lines}")
    print(f"at most one importer   {len(figures.lonely)} ({figures.lonely_share:.0%})")
