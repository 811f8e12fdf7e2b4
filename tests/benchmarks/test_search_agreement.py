"""Searches on two devices, put side by side."""

import json
import time
from pathlib import Path

import pytest
from playbook_search import Row
from record import RESULTS, ROOT
from search_agreement import (
    MOST_SLOWER,
    how_much_slower,
    model_points,
    points_agreement,
    read_tasks,
    read_winners,
    search_task,
    winner_of,
)
from small_tasks import small_task

from cuda_llm.tools.open_device import open_device


def test_a_search_goes_on_where_it_was_and_judges_another_winner_besides(tmp_path: Path) -> None:
    task, device, lines = small_task("vector_add"), open_device("emulated"), tmp_path / "lines"
    now = time.monotonic()
    assert search_task(task, device, lines, rounds=1, deadline=now, also=None) is None
    whole = search_task(task, device, lines, rounds=1, deadline=now + 600, also=None)
    assert whole is not None
    before = lines.read_text()
    other = {"LOOPS": 1, "THREADS": 128, "VECTORS": 1, "WIDTH": 1, "STREAM": 0}
    again = search_task(task, device, lines, rounds=1, deadline=now + 600, also=other)
    assert again is not None
    assert again["winner"] == whole["winner"]
    assert again["tried"] == whole["tried"]
    judged = [json.loads(line) for line in lines.read_text()[len(before) :].splitlines()]
    assert [row["point"] for row in judged] == [other]
    assert again["emulated_winner"] == judged[0]
    assert judged[0]["code"] == "PASSED"


def test_the_winner_is_the_fastest_that_passed() -> None:
    rows: list[Row] = [{"speedup": 1.0}, {"speedup": None}, {"speedup": 2.0}]
    assert winner_of(rows) == {"speedup": 2.0}
    with pytest.raises(SystemExit, match="no kernel"):
        winner_of([{"speedup": None}])


def test_an_emulated_winner_that_fails_on_the_gpu_is_infinitely_slower() -> None:
    found = {"winner": {"speedup": 3.0}, "emulated_winner": {"speedup": 2.0}}
    assert how_much_slower(found) == 1.5
    assert how_much_slower(found | {"emulated_winner": {"speedup": None}}) == float("inf")


def test_without_a_recorded_search_there_is_no_winner(tmp_path: Path) -> None:
    assert read_winners(tmp_path) == {}
    content = {"tasks": {"reduction": {"winner": {"point": {"ITEMS": 4}}}}}
    (tmp_path / "search_modelled.json").write_text(json.dumps(content))
    assert read_winners(tmp_path) == {"reduction": {"ITEMS": 4}}


def test_points_are_modelled_once_and_until_the_time_is_over(tmp_path: Path) -> None:
    task, device, lines = small_task("vector_add"), open_device("emulated"), tmp_path / "lines"
    points = [
        {"LOOPS": 1, "THREADS": size, "VECTORS": 1, "WIDTH": 1, "STREAM": 0} for size in (128, 256)
    ]
    now = time.monotonic()
    assert model_points(task, device, lines, now, points) is None
    rows = model_points(task, device, lines, now + 600, points)
    assert rows is not None
    assert [row["point"] for row in rows] == points
    assert model_points(task, device, lines, now, points) == rows


def test_kernels_agree_by_the_score_that_a_search_ranks() -> None:
    tried = [{"sha": name, "speedup": score} for name, score in (("a", 1.0), ("b", 2.0))]
    found = {"tried": tried, "emulated_winner": tried[0]}
    upside_down = [{"sha": "a", "speedup": 3.0}, {"sha": "b", "speedup": 1.0}]
    assert points_agreement(found, tried)["pairwise"] == 1.0
    assert points_agreement(found, upside_down)["pairwise"] == 0.0
    assert points_agreement(found, upside_down)["regret"] == 2.0


def test_recorded_searches_end_alike_and_the_page_says_how_alike() -> None:
    measured = read_tasks(RESULTS / "search_measured.json")
    modelled = read_tasks(RESULTS / "search_points_modelled.json")
    page = (ROOT / "docs/emulator.md").read_text()
    agreed = 0.0
    pairs = 0
    for name, found in measured.items():
        slower, one = how_much_slower(found), points_agreement(found, modelled[name])
        assert slower <= MOST_SLOWER, name
        shown = f"{one['count']} | {one['pairs']} | {one['pairwise']:.2f} | {one['error']:.2f}"
        assert f"| {name} | {slower:.2f} | {shown} |" in page
        agreed += one["pairwise"] * one["pairs"]
        pairs += int(one["pairs"])
    assert agreed / pairs >= 0.80
    assert f"| {pairs:,} | {agreed / pairs:.2f} |" in page
