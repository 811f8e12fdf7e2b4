"""The table of wrong kernels names every kind for every task, and the files are there."""

import pytest
from task_fixtures import FIXTURES, MUTANTS, honest_rows, mutant_rows

from cuda_llm import outcomes
from cuda_llm.tasks.loader import list_tasks

TEN_STYLES = [
    "conv2d",
    "histogram",
    "matrix_multiplication",
    "matrix_transpose",
    "reduction",
    "vector_add",
]
"""Tasks whose honest kernels come in ten styles; the others have three."""
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
    rows = mutant_rows(task)
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
    rows = [row for task in list_tasks() for row in mutant_rows(task)]
    named = {row["file"] for row in rows if row["how"] == "file"}
    assert named == {str(path.relative_to(MUTANTS)) for path in MUTANTS.glob("*/*.cu")}


@pytest.mark.parametrize("task", list_tasks())
def test_honest_kernels_of_several_styles(task: str) -> None:
    assert all((MUTANTS / row["file"]).is_file() for row in honest_rows(task))
    styles = len(list((FIXTURES / "honest" / task).glob("*.cu")))
    assert styles >= (10 if task in TEN_STYLES else 3)


@pytest.mark.parametrize("task", sorted({*list_tasks()} - {*TEN_STYLES}))
def test_ten_wrong_kernels_of_which_three_are_compiled(task: str) -> None:
    rows = [row for row in mutant_rows(task) if row["how"] != "not applicable"]
    assert len(rows) >= 10
