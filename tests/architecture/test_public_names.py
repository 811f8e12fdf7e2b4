"""Two modules are public: `cuda_llm` to run a search, `cuda_llm.extend` to write a part of one."""

import re
from pathlib import Path
from types import FunctionType, ModuleType
from typing import assert_type, get_type_hints

import pytest

import cuda_llm
from cuda_llm import extend

ROOT = Path(__file__).parents[2]
PUBLIC = {"cuda_llm": set(cuda_llm.__all__), "cuda_llm.extend": set(extend.__all__)}
IMPORT = re.compile(
    r"^[ >]*(?:from +(cuda_llm[\w.]*) +import +(\([^)]*\)|[^\n]*)|import +(cuda_llm[\w.]*))",
    re.MULTILINE,
)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def imports_of(text: str) -> list[tuple[str, str]]:
    """Module and name of each import of ours, in code and in the code blocks of a page."""
    found = []
    for module, names, whole in IMPORT.findall(text):
        bare = re.sub(r"#[^\n]*|[()\\]", "", names).split(",")
        parts = [name.split(" as ")[0].strip() for name in bare if name.strip()]
        found += [(module, name) for name in parts] if module else [(whole, "")]
    return found


@pytest.mark.parametrize("file", [*PAGES, *EXAMPLES], ids=lambda path: path.name)
def test_pages_and_examples_import_public_names_alone(file: Path) -> None:
    deep = [
        f"from {module} import {name}"
        for module, name in imports_of(file.read_text(encoding="utf-8"))
        if module not in PUBLIC or (name and name not in PUBLIC[module])
    ]
    assert deep == []


@pytest.mark.parametrize("name", extend.__all__)
def test_a_public_name_is_there_and_has_its_docstring(name: str) -> None:
    found = getattr(extend, name)
    assert found is not None
    if isinstance(found, (type, FunctionType, ModuleType)):
        assert found.__doc__


def test_type_checkers_see_what_is_exported() -> None:
    """Looked at by mypy as much as run: `Any` would be another type."""

    def rounds_left(situation: extend.Situation) -> int:
        assert_type(situation.incumbent, extend.Attempt | None)
        assert_type(situation.config.rounds, int)
        return situation.config.rounds - situation.round

    assert_type(extend.outcomes.Duplicate.code, str)
    assert get_type_hints(rounds_left) == {"situation": extend.Situation, "return": int}
