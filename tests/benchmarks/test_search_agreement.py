"""Searches on two devices, put side by side."""

import json
import time
from pathlib import Path

import pytest
from playbook_search import Row
from search_agreement import how_much_slower, read_winners, search_task, winner_of
from small_tasks import small_task

from cuda_llm.tools.open_device import open_device


def test_a_search_goes_on_where_it_was_and_judges_another_winner_besides(tmp_path: Path) -> None:
    task, device, lines = small_task("vector_add"), open_device("emulated"), tmp_path / "lines"
    now = time.monotonic()
    assert search_task(task, device, lines, rounds=1, deadline=now, also=None) is None
    whole = search_task(task, device, lines, rounds=1, deadline=now + 600, also=None)
    assert whole is not None
    before = lines.read_text()
    other = {"LOOPS": 1, "THREADS": 128, "VECTORS": 1, "WIDTH": 1}
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
