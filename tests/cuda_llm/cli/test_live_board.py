"""A run on a terminal: the board says what is true while it is."""

import re
from collections.abc import Callable
from pathlib import Path

import psutil
from on_terminal import on_terminal
from tiny_tasks import tiny_task


def test_each_verdict_and_the_best_so_far_are_shown_as_they_land(
    tmp_path: Path, orphans: Callable[[], list[psutil.Process]]
) -> None:
    task = tiny_task(tmp_path, "vector_add")
    order = ("run", task, "--device", "emulated", "--generator", "playbook")
    with on_terminal(
        tmp_path, *order, "--candidates", "2", "--rounds", "1", "--tune", "0"
    ) as shown:
        shown.read_to_end()
    assert shown.code == 0
    verdict = re.compile(
        r"^(r1-c\d)  ([\d.]+x over all sizes, [\d.]+ m?us at the largest)  \(", re.M
    )
    first = verdict.search(shown.text)
    assert first is not None
    best = f"round 1/1  best {first[2]} ({first[1]})  spent "
    places = [
        shown.text.find("round 1/1  no kernel has passed yet  spent "),
        first.start(),
        # The board is drawn again below the line of each verdict.
        shown.text.find(best, first.start()),
        shown.text.find("\nround 1/1: best "),
        shown.text.find("round 1/1, judging the winner once more  best "),
    ]
    assert -1 not in places
    assert places == sorted(places), "what stands there is true while it does"
    assert {found[1] for found in verdict.finditer(shown.text)} == {"r1-c1", "r1-c2"}
    assert orphans() == []
