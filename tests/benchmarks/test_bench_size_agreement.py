"""The emulated device ranks kernels as an H200 does at the largest size people run: recorded times
of both, compared anew."""

import json
import subprocess
import sys
from typing import Any

import pytest
from bench_size_agreement import is_held_back
from record import RESULTS, ROOT

PARTS = ("all", "held back")


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the benchmark finds in what is recorded."""
    out = tmp_path_factory.mktemp("figures")
    script = ROOT / "benchmarks/bench_size_agreement.py"
    command = [sys.executable, "-W", "error", str(script), "compare", "--results", str(out)]
    support = {"PYTHONPATH": str(ROOT / "tests/support")}
    subprocess.run(command, check=True, capture_output=True, env=support)
    found: dict[str, Any] = json.loads((out / "bench_size_agreement.json").read_text())
    return found


def test_enough_kernels_of_every_task_are_compared(figures: dict[str, Any]) -> None:
    assert min(one["count"] for one in figures["all"].values()) >= 11
    assert len(figures["all"]) == len(figures["held back"]) == 7
    names = [row["name"] for row in modelled_rows()]
    assert 0.2 < sum(map(is_held_back, names)) / len(names) < 0.45


@pytest.mark.parametrize("part", PARTS)
def test_pairs_that_differ_are_mostly_ordered_right(figures: dict[str, Any], part: str) -> None:
    found = figures[part]
    assert found["together"]["pairwise"] >= 0.80
    assert found["together"]["median_regret"] <= 1.15
    assert found["together"]["worst_regret"] <= 1.35


def test_no_task_is_ordered_badly(figures: dict[str, Any]) -> None:
    assert min(one["pairwise"] for one in figures["all"].values()) >= 0.70


def test_the_page_has_these_figures(figures: dict[str, Any]) -> None:
    page = (ROOT / "docs/emulator.md").read_text()
    for task, one in figures["all"].items():
        if task == "together":
            continue
        held_back = figures["held back"][task]
        cells = f"| {task} | {one['count']} | {one['pairwise']:.2f} | {one['regret']:.2f} |"
        assert f"{cells} {one['error']:.2f} | {held_back['pairwise']:.2f} |" in page, cells


def modelled_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / "modelled_bench_sizes.json").read_text())[
        "rows"
    ]
    return rows


def test_every_kernel_was_modelled_in_seconds() -> None:
    assert [row["name"] for row in modelled_rows() if "times_us" not in row] == []
