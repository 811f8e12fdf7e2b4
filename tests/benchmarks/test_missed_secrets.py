"""How often wrong kernels are missed: what is counted, and what was recorded."""

import json
from typing import Any

import pytest
from missed_secrets import array_rows, judge_secret, most_missed, summarise
from record import RESULTS

from cuda_llm.tasks.loader import list_tasks

ROW = {"task": "a", "wrong": 2, "honest": 1, "missed": [], "refused": []}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    """What the whole run came to."""
    found: dict[str, Any] = json.loads((RESULTS / "missed_secrets.json").read_text())
    return found


def test_a_miss_and_a_refusal_are_counted_by_kernel() -> None:
    rows = [
        {**ROW, "secret": 0, "missed": ["clipped"]},
        {**ROW, "secret": 1, "missed": ["clipped"], "refused": ["plain"]},
        {**ROW, "secret": 0, "task": "b"},
    ]
    found = summarise(rows)
    assert (found["judged_wrong"], found["judged_honest"]) == (6, 3)
    assert found["tasks"]["a"]["missed"] == {"clipped": 2}
    assert found["tasks"]["a"]["refused"] == {"plain": 1}
    assert found["tasks"]["b"]["missed"] == {}


def test_no_miss_among_more_secrets_leaves_less_room() -> None:
    """0.95^59 = 0.0485: of 59 secrets none would be missed so seldom, were one in twenty."""
    assert most_missed(59) == pytest.approx(0.05, abs=0.001)
    assert most_missed(1000) < most_missed(100) < most_missed(10)


def test_a_secret_is_judged_as_recorded() -> None:
    """The first of one task: the same number gives the same inputs."""
    found = judge_secret("softmax", 0)
    assert found["wrong"] == len(array_rows("softmax")) > 0
    assert (found["missed"], found["refused"]) == ([], [])


def test_every_task_was_judged_and_nothing_was_missed(recorded: dict[str, Any]) -> None:
    assert set(recorded["tasks"]) == set(list_tasks())
    for task, found in recorded["tasks"].items():
        assert found["wrong"] == len(array_rows(task))
        assert (found["missed"], found["refused"]) == ({}, {}), task
