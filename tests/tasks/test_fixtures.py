"""The table of wrong kernels names every kind for every task, and the files are there."""

import tomllib
from pathlib import Path

import pytest

from cuda_llm import outcomes
from cuda_llm.tasks.loader import list_tasks

FIXTURES = Path(__file__).parents[1] / "fixtures"
MUTANTS = FIXTURES / "mutants"
TABLE = tomllib.loads((MUTANTS / "table.toml").read_text())
KINDS = {
    "zero",
    "constant",
    "copy_of_input",
    "last_tile_missing",
    "fp16_accumulation",
    "off_by_one",
    "missing_barrier",
    "edge_sizes_only",
}
CODES = {
    code for value in vars(outcomes).values() if isinstance(code := getattr(value, "code", 0), str)
}


@pytest.mark.parametrize("task", list_tasks())
def test_every_kind_has_its_place(task: str) -> None:
    rows = [row for row in TABLE["mutant"] if row["task"] == task]
    kinds = [row["kind"] for row in rows]
    assert set(kinds) >= KINDS
    assert len(set(kinds)) == len(kinds)
    assert sum(row["how"] == "file" for row in rows) >= 3
    for row in rows:
        if row["how"] == "not applicable":
            assert row["reason"]
        else:
            assert row["how"] in ("file", "python")
            assert set(row["codes"]) <= CODES
            assert "PASSED" not in row["codes"]


def test_table_and_folders_hold_the_same_files() -> None:
    named = {row["file"] for row in TABLE["mutant"] if row["how"] == "file"}
    assert named == {str(path.relative_to(MUTANTS)) for path in MUTANTS.glob("*/*.cu")}


@pytest.mark.parametrize("task", list_tasks())
def test_two_optimised_and_ten_honest_kernels(task: str) -> None:
    optimised = [row["file"] for row in TABLE["honest"] if row["task"] == task]
    assert len(optimised) == 2
    assert all((MUTANTS / file).is_file() for file in optimised)
    assert len(list((FIXTURES / "honest" / task).glob("*.cu"))) == 10
