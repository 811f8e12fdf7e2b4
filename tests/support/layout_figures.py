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
DOORS = {"cuda_llm", "cuda_llm.__main__", "cuda_llm.extend"}
"""Modules at the package root that export from every folder: they stand above all of them."""


@dataclass(frozen=True)
class Figures:
    """What the layout measures."""

    files: int
    median_lines: float
    longest_lines: int
    seldom_imported: tuple[str, ...]
    """Modules of the package that at most one other product module imports, without `__init__`."""
    seldom_imported_share: float


def product_files() -> list[Path]:
    """Python files with content of the package, the benchmarks and the scripts.

    What a task's folder holds is data: nothing imports it.
    """
    folders = [ROOT / name for name in (*ROOMS, *SCRIPTS)]
    found = [path for folder in folders for path in folder.rglob("*.py")]
    found = [path for path in found if path.parent.parent != ROOT / "tasks"]
    package = ROOT / "src/cuda_llm"
    found += [*package.glob("*.py"), *(package / "cli").rglob("*.py")]
    return sorted(path for path in found if path.read_text(encoding="utf-8").strip())


def module_of(path: Path) -> str:
    """Dotted name of a product file; scripts are named by their path."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[:2] == ("src", "cuda_llm"):
        parts = ("cuda_llm", *parts[2:])
    elif parts[0] in ROOMS:
        parts = ("cuda_llm", *parts)
    return ".".join(parts).removesuffix(".__init__")


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of `modules` that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in modules else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules


def imports() -> dict[str, set[str]]:
    """Product modules that each product module imports, itself left out."""
    modules = {module_of(path): path for path in product_files()}
    return {name: imports_of(path, set(modules)) - {name} for name, path in modules.items()}


def folder_arrows() -> dict[str, set[str]]:
    """Folders of the package that each folder imports from; a package's root is a folder too."""
    folders = {module_of(path): str(path.parent.relative_to(ROOT)) for path in product_files()}
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, imported in imports().items():
        if name.startswith("cuda_llm") and name not in DOORS:
            arrows[folders[name]] |= {folders[one] for one in imported} - {folders[name]}
    return dict(arrows)


def measure() -> Figures:
    """Measure the layout as it is."""
    importers: dict[str, set[str]] = defaultdict(set)
    for name, imported in imports().items():
        for one in imported:
            importers[one].add(name)
    files = product_files()
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in files]
    modules = [module_of(path) for path in files if path.name != "__init__.py"]
    package = [name for name in modules if name.startswith("cuda_llm")]
    seldom = tuple(sorted(name for name in package if len(importers[name]) <= 1))
    return Figures(
        files=len(files),
        median_lines=statistics.median(lines),
        longest_lines=max(lines),
        seldom_imported=seldom,
        seldom_imported_share=len(seldom) / len(package),
    )


if __name__ == "__main__":
    figures = measure()
    print(f"product files          {figures.files}")
    print(f"median lines           {figures.median_lines:g}")
    print(f"longest file, lines    {figures.longest_lines}")
    share = f"{figures.seldom_imported_share:.0%}"
    print(f"at most one importer   {len(figures.seldom_imported)} ({share})")
