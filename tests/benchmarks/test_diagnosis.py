"""Headlines of diagnoses: the recorded figures, and a handful of pairs judged now."""

import asyncio
import json

import pytest
from corpus_sample import sample
from diagnosis import (
    Row,
    count,
    is_headline_right,
    is_within_factor,
    pairs_of,
    points,
    row_of,
    situations,
    summarise,
)
from record import RESULTS

from cuda_llm.tools.open_device import open_emulated

HANDFUL = (
    ("adds_on_few_blocks", {"FILLS": 0, "AHEAD": 1}),
    ("sums_by_atomics", {"BLOCKS_FIRST": 0, "AHEAD": 1}),
    ("turns_in_a_tile", {"THROUGH_TILE": 1, "PADDED": 0, "LEAN": 1}),
)


def recorded() -> list[Row]:
    rows: list[Row] = json.loads((RESULTS / "diagnosis.json").read_text())["situations"]
    return rows


def test_the_recorded_headlines_name_what_saves_most_and_how_much() -> None:
    figures = summarise(recorded())
    assert figures["all"]["pairs"] >= 60
    for part in ("all", "held back"):
        assert figures[part]["headline"] >= 0.8
        assert figures[part]["factor"] >= 0.7
    causes = figures["all"]["causes"]
    assert len(causes) >= 10
    assert max(causes.values()) <= 0.2 * figures["all"]["pairs"], "no cause outweighs the others"


def test_what_was_recorded_is_what_is_listed() -> None:
    listed = {one.name: one.held_back for one in situations()}
    assert {row["name"]: row["held_back"] for row in recorded()} == listed
    assert sum(listed.values()) >= len(listed) // 3 - 1


@pytest.mark.parametrize(("kernel", "point"), sample(HANDFUL, every=3))
def test_a_handful_still_comes_true(kernel: str, point: dict[str, int]) -> None:
    (one,) = (s for s in situations() if s.kernel.stem == kernel and s.point == point)
    device = open_emulated("RTX 3090 Ti")
    counted = [asyncio.run(count(device, one, point)) for point in points(one)]
    row = row_of(one, counted, device.hardware)
    assert is_headline_right(row), row
    assert all(map(is_within_factor, pairs_of(row))), row
