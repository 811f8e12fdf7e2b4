"""What an H200 said of every kernel whose verdict is known, held against what is right today."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import KINDS, Known, fault_in

from cuda_llm.outcomes import Passed

RECORDED = Path(__file__).parents[2] / "benchmarks/results/h200_corpus.json"
KNOWN = {one.name: one for kind in KINDS for one in kind()}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def fault_of_row(known: Known, row: dict[str, Any]) -> str:
    known = known.looked_at() if row["inspected"] == "found" else known
    return fault_in(known, row["code"], row["speedup"], gpu=True)


def test_every_kernel_there_is_was_judged_as_its_table_has_it(recorded: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in recorded["rows"]}
    assert rows.keys() == KNOWN.keys()
    faults = {name: fault_of_row(KNOWN[name], row) for name, row in rows.items()}
    assert {name: fault for name, fault in faults.items() if fault} == {}
    assert recorded["accepted_cheats"] == recorded["refused_honest"] == 0


def test_there_are_as_many_of_each_kind_as_are_told(recorded: dict[str, Any]) -> None:
    honest = [row for row in recorded["rows"] if row["honest"]]
    assert len(honest) == recorded["honest"] >= 25
    assert len(recorded["rows"]) - len(honest) == recorded["cheats"] >= 40
    assert all(row["code"] == Passed.code for row in honest)
