"""The emulated device ranks kernels as a real GPU does: recorded times of both, compared anew."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from rank_agreement import SIZES, model, variants
from record import RESULTS, ROOT

from cuda_llm.tools.open_device import open_device

FEWEST_TASKS = 6
FEWEST_KERNELS = 8


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the benchmark finds in what is recorded."""
    out = tmp_path_factory.mktemp("figures")
    command = [sys.executable, "-W", "error", str(ROOT / "benchmarks/rank_agreement.py"), "compare"]
    subprocess.run([*command, "--results", str(out)], check=True, capture_output=True)
    found: dict[str, Any] = json.loads((out / "rank_agreement.json").read_text())
    return found


def test_enough_kernels_of_enough_tasks_are_compared(figures: dict[str, Any]) -> None:
    counts = [one["count"] for one in figures["tasks"].values()]
    assert len(counts) >= FEWEST_TASKS
    assert min(counts) >= FEWEST_KERNELS


def test_pairs_that_differ_are_mostly_ordered_right(figures: dict[str, Any]) -> None:
    assert figures["pairwise"] >= 0.80
    assert figures["median_rho"] >= 0.7
    assert figures["worst_regret"] <= 1.15


def test_no_task_is_worse_than_its_page_says(figures: dict[str, Any]) -> None:
    """docs/emulator.md publishes each task, also where it falls short."""
    page = (ROOT / "docs/emulator.md").read_text()
    for name, one in figures["tasks"].items():
        cells = f"| {name} | {one['count']} | {one['pairwise']:.2f} | {one['rho']:.2f} |"
        assert f"{cells} {one['regret']:.2f} | {one['error']:.2f} |" in page, cells


def test_kernels_that_were_timed_were_right() -> None:
    rows = json.loads((RESULTS / "h200_rank_times.json").read_text())["rows"]
    assert max(row["error"] for row in rows) < 1e-5


def test_the_recorded_model_is_the_present_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel modelled anew; where this fails, `rank_agreement.py model --again` records all."""
    task = "matrix_transpose"
    monkeypatch.setitem(SIZES, task, SIZES[task][:1])
    variant = [*variants(task)][2]
    (now,) = asyncio.run(model(open_device("emulated:H200"), variant))

    recorded = json.loads((RESULTS / "rank_modelled.json").read_text())["rows"]
    (before,) = [
        row
        for row in recorded
        if (row["task"], row["variant"], row["dims"]) == (task, now["variant"], now["dims"])
    ]
    assert now["time_us"] == pytest.approx(before["time_us"], rel=1e-6)
