"""The map in docs/architecture.md shows what is there."""

import re
from pathlib import Path

from cuda_llm.graph.candidate import STAGE_NODES as CANDIDATE_NODES
from cuda_llm.graph.runs.build_graph import NODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text()


def table(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading, without its head."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_room_is_on_the_map() -> None:
    told = {name for row in table("Rooms") for name in names(row[0])}
    assert all((ROOT / name).is_dir() for name in told)
    linked = {path.name for path in (ROOT / "src/cuda_llm").iterdir() if path.is_symlink()}
    assert {name.strip("/") for name in told} == {*linked, "src/cuda_llm"}


def test_every_folder_of_tools_is_on_the_map() -> None:
    shown = {Path(name).name for row in table("Inside tools") for name in names(row[0])}
    folders = {path.parent.name for path in (ROOT / "tools").glob("*/__init__.py")}
    assert shown == folders - {"emulator"}, "the emulator stands in the row of its device"


def test_the_words_of_ours_are_few_and_in_order() -> None:
    words = [row[0] for row in table("Words of ours")]
    assert words == sorted(words, key=str.casefold)
    assert len(words) <= 25


def test_every_node_of_the_graph_is_told_with_its_part() -> None:
    rows = table("A run")
    told = {name for row in rows for name in names(row[0])}
    assert told == {*NODES, *CANDIDATE_NODES, "candidate", "trial"}
    parts = [name for row in rows for name in names(row[2])]
    assert parts
    assert [part for part in parts if not (ROOT / part).exists()] == []


def test_the_drawing_names_the_nodes_in_their_order() -> None:
    drawing = PAGE.partition("## A run\n")[2].partition("\n| node")[0]
    drawn = re.findall(r"[a-z_]+", re.sub(r"\(.*?\)|, or", " ", drawing))
    assert list(dict.fromkeys(name for name in drawn if name in NODES)) == list(NODES)


def test_the_papers_words_point_at_what_is_there() -> None:
    options = {"--candidates", "--rounds"}
    for row in table("The paper's words and ours"):
        for name in names(row[1]):
            is_word = name in NODES or name in CANDIDATE_NODES or name in options
            is_value = name in {"fix", "improve", "depart", "error_hints", "performance_hints"}
            assert is_word or is_value or (ROOT / name).exists(), name
