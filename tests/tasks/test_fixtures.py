"""The tables of wrong kernels name every kind for every task, and the files are there."""

from task_fixtures import MUTANTS, honest_rows, mutant_rows

from cuda_llm import outcomes
from cuda_llm.tasks.loader import list_tasks

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


def test_every_kind_has_its_place_in_every_task() -> None:
    for task in list_tasks():
        rows = mutant_rows(task)
        assert {row["kind"] for row in rows} >= KINDS, task
        for row in rows:
            if row["how"] == "not applicable":
                assert row["reason"], (task, row)
            else:
                assert row["how"] in ("file", "python"), (task, row)
                assert set(row["codes"]) <= CODES - {"PASSED"}, (task, row)


def test_tables_and_folders_hold_the_same_files() -> None:
    rows = [row for task in list_tasks() for row in mutant_rows(task)]
    named = {row["file"] for row in rows if row["how"] == "file"}
    assert named == {str(path.relative_to(MUTANTS)) for path in MUTANTS.glob("*/*.cu")}
    honest = [row for task in list_tasks() for row in honest_rows(task)]
    assert all((MUTANTS / row["file"]).is_file() for row in honest)
