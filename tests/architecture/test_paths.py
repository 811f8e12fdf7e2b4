"""The ways that docs/architecture.md shows are those that the code takes."""

import re
from pathlib import Path

import pytest
from layout_figures import imports, module_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
MOST_FILES = 12
STEP = re.compile(r"^\d+\. `([^`]+)`(?:.*, through `([^`]+)`)?", re.MULTILINE)

ways = pytest.mark.parametrize(
    "heading", ["From a source file to a verdict", "From a verdict to the next prompt"]
)


def steps(heading: str) -> list[tuple[str, str]]:
    """Return each file of a way, and the module of the protocol that it is reached through."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [(match[1], match[2] or "") for match in STEP.finditer(section)]


@ways
def test_a_way_passes_few_files(heading: str) -> None:
    files = [file for file, _ in steps(heading)]
    assert 5 < len(files) <= MOST_FILES
    assert [file for file in files if not (ROOT / file).is_file()] == []


@ways
def test_each_file_of_a_way_is_reached_from_one_before_it(heading: str) -> None:
    imported = imports()
    before: list[str] = []
    for file, protocol in steps(heading):
        module = module_of(ROOT / file)
        if before and not protocol:
            assert any(module in imported[one] or one in imported[module] for one in before), file
        if protocol:
            shared = module_of(ROOT / protocol)
            names = {shared, shared.rpartition(".")[0]}
            assert names & imported[module] or shared == module, file
            assert any(names & imported[one] for one in before), file
        before.append(module)
