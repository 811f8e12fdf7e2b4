"""Shares of a plain copy are medians over rounds, and the record says which fall below the bar."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from copies_on_gpu import GPU, ROUNDS, TASKS, Round, beyond_l2, summary
from record import RESULTS

from cuda_llm.tasks.loader import load_task

BAR = 0.92
BELOW = {("max_pool_3d", 32), ("max_pool_3d", 48)}
"""Task and last extent of what does not reach the bar; docs/bench.md has the reasons."""
FOUND = json.loads((RESULTS / "copies_on_gpu.json").read_text(encoding="utf-8"))


def extent_of(row: dict[str, dict[str, int]]) -> int:
    """The extent that tells the sizes of a task apart."""
    return row["dims"].get("W") or max(row["dims"].values())


def test_a_share_is_the_median_of_ratios_within_rounds(tmp_path: Path) -> None:
    """A GPU that is slow for a round is slow for both."""
    first = Round(task="relu", dims={"n": 8}, ours_us=10.0, copy_us=9.0)
    slow = replace(first, ours_us=20.0, copy_us=18.0)
    better = replace(first, ours_us=10.0, copy_us=10.0)
    (tmp_path / GPU).write_text('{"gpu": "one", "driver": "1.2"}')
    for number, one in enumerate((first, slow, better)):
        (tmp_path / f"relu-{number}.json").write_text(json.dumps([asdict(one)]))
    found = summary(tmp_path)
    assert (found["gpu"], found["driver"]) == ("one", "1.2")
    (row,) = found["rows"]
    assert row["share_of_copy"] == pytest.approx(0.9)
    assert row["quartiles"] == pytest.approx([0.9, 1.0])
    assert (row["rounds"], row["ours_us"], row["copy_us"]) == (3, 10.0, 10.0)


def test_sizes_that_fit_in_l2_are_left_out() -> None:
    task = load_task("relu")
    assert [dims["n"] for dims in beyond_l2(task, 8 * 4_194_304).sizes.bench] == [
        *(16_777_216, 67_108_864, 268_435_456),
    ]


def test_every_memory_bound_task_is_recorded_at_each_size_beyond_l2() -> None:
    l2_bytes = 50 * 1024 * 1024
    for name in TASKS:
        sizes = [dict(dims) for dims in beyond_l2(load_task(name), l2_bytes).sizes.bench]
        rows = [row for row in FOUND["rows"] if row["task"] == name]
        assert len(rows) == len(sizes), name
        assert all(row["dims"] in sizes and row["rounds"] >= ROUNDS for row in rows)


def test_what_is_below_the_bar_is_named() -> None:
    below = {(row["task"], extent_of(row)) for row in FOUND["rows"] if row["share_of_copy"] < BAR}
    assert below == BELOW
