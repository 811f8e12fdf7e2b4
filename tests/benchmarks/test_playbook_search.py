"""The playbook search keeps its promise, on the sweeps that are recorded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SEEDS = 20


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the benchmark finds, by task."""
    out = tmp_path_factory.mktemp("figures")
    command = [sys.executable, "-W", "error", str(BENCHMARKS / "playbook_search.py"), "replay"]
    done = subprocess.run(
        [*command, "--seeds", str(SEEDS), "--results", str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tasks: dict[str, Any] = json.loads((out / "playbook_search.json").read_text())["tasks"]
    return tasks


def test_three_playbooks_have_room_to_search_and_are_searched_well(
    figures: dict[str, Any],
) -> None:
    """Within 5 % of the best in at most a third of the kernels, and sooner than by chance."""
    roomy = [
        one
        for one in figures.values()
        if one["kernels"] >= 72 and one["best_speedup"] >= 2 * one["worst_speedup"]
    ]
    good = [
        one
        for one in roomy
        if one["searched"]["median"] <= one["kernels"] / 3
        and one["searched"]["median"] < one["random"]["median"]
    ]
    assert len(good) >= 3
    assert all(len(one["searched"]["all"]) == SEEDS for one in good)
