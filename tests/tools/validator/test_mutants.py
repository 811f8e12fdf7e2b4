"""The table task by mutant on arrays: the validator without a device."""

import asyncio
from typing import Any

import pytest
from corpus_sample import is_whole, sample
from task_fixtures import ArraySession, Row, array_kernels, mutant_rows, wrong_session

from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.validator.validate import Validated, validate

NONCE = bytes(range(16))
"""The same inputs in each run: a mutant that few secrets miss would fail one run of many."""
ROWS = [row for task in list_tasks() for row in mutant_rows(task)]


def of_how(how: str) -> list[Row]:
    return [row for row in ROWS if row["how"] == how]


def named(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=f"{row['task']}-{row['kind']}") for row in rows]


@pytest.mark.parametrize(
    "row", named(sample(of_how("python"), kind=lambda row: row["kind"], every=9))
)
def test_mutants_on_arrays_are_rejected_with_the_right_code(row: Row) -> None:
    task = load_task(row["task"])
    verdict = asyncio.run(validate(task, wrong_session(task, row["kind"]), nonce=NONCE))
    assert not isinstance(verdict, Validated)
    assert verdict.code in row["codes"], verdict


HONEST = [
    pytest.param(task, name, id=f"{task}-{name}")
    for task in list_tasks()
    if (written := array_kernels(task)) is not None
    for name in written.honest
]


@pytest.mark.parametrize(("task", "name"), sample(HONEST, every=4))
def test_honest_arithmetic_is_accepted_whatever_the_inputs(task: str, name: str) -> None:
    written, loaded = array_kernels(task), load_task(task)
    assert written is not None
    for seed in range(3 if is_whole() else 1):
        session = ArraySession(loaded, written.honest[name])
        verdict = asyncio.run(validate(loaded, session, nonce=bytes([seed]) * 16))
        assert isinstance(verdict, Validated), verdict
