"""What an H200 said of every kernel whose verdict is known, held against what is right today."""

import json
from pathlib import Path
from typing import Any

import pytest
from corpus import NOTHING_GAINED, Known, adversarial, honest_extra, honest_styles, mutants

from cuda_llm.outcomes import Passed

RECORDED = Path(__file__).parents[2] / "benchmarks/results/h200_corpus.json"
KNOWN = {
    one.name: one for kind in (adversarial, honest_extra, honest_styles, mutants) for one in kind()
}


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def is_right(known: Known, row: dict[str, Any]) -> bool:
    """Sanitizers and the second look see what the emulated device sees."""
    codes = known.gpu_codes if row["inspected"] != "found" else (*known.gpu_codes, *known.codes)
    gained = row["speedup"] or 0.0
    most = max(known.most_speedup or 0.0, NOTHING_GAINED)
    cheated = not known.honest and row["code"] == Passed.code and gained > most
    return row["code"] in codes and not cheated


def test_every_kernel_there_is_was_judged_as_its_table_has_it(recorded: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in recorded["rows"]}
    assert rows.keys() == KNOWN.keys()
    wrong = [name for name, row in rows.items() if not is_right(KNOWN[name], row)]
    assert wrong == []
    assert recorded["accepted_cheats"] == recorded["refused_honest"] == 0


def test_there_are_as_many_of_each_kind_as_are_told(recorded: dict[str, Any]) -> None:
    honest = [row for row in recorded["rows"] if row["honest"]]
    assert len(honest) == recorded["honest"] >= 25
    assert len(recorded["rows"]) - len(honest) == recorded["cheats"] >= 40
    assert all(row["code"] == Passed.code for row in honest)
