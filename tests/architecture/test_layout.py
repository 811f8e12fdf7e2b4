"""The layout stays as docs/decisions/layout.md says."""

from graphlib import TopologicalSorter
from pathlib import Path

from layout_figures import folder_arrows, measure

ROOT = Path(__file__).parents[2]
MOST_FILES = 486
MOST_LINES = 320
MOST_MEDIAN_LINES = 168
MOST_SELDOM_IMPORTED = 0.24


def test_files_are_few_and_none_is_long() -> None:
    figures = measure()
    assert figures.files <= MOST_FILES
    assert 90 <= figures.median_lines <= MOST_MEDIAN_LINES
    assert figures.longest_lines <= MOST_LINES
    assert figures.seldom_imported_share <= MOST_SELDOM_IMPORTED


def test_no_two_folders_know_each_other() -> None:
    arrows = folder_arrows()
    assert "graph/runs" in arrows["src/cuda_llm/cli"]
    assert len(list(TopologicalSorter(arrows).static_order())) > 30
