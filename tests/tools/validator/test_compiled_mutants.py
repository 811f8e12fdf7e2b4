"""The table task by mutant with real kernels: nvcc, the emulated device, the validator."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from array_mutants import mutants
from corpus_sample import is_whole, sample
from task_fixtures import MUTANTS, ArraySession, Row, array_kernels, mutant_rows, wrong_session

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.device import Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.validator.validate import Validated, validate

NONCE = bytes(range(16))
"""The same inputs in each run: a mutant that few secrets miss would fail one run of many."""
ROWS = [row for task in list_tasks() for row in mutant_rows(task)]


def of_how(how: str) -> list[Row]:
    return [row for row in ROWS if row["how"] == how]


def named(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=f"{row['task']}-{row['kind']}") for row in rows]


COMPILED = sample(of_how("file"), every=12)


async def judge(task_name: str, file: Path) -> Validated | Verdict:
    task = load_task(task_name)
    device = open_emulated()
    compiled = await compile_candidate(
        compile_request(task, device.target, file.read_text(encoding="utf-8"), file.name)
    )
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, Session), session
        return await validate(task, session, nonce=NONCE)


@pytest.mark.parametrize("row", named(COMPILED))
def test_compiled_mutants_are_rejected_with_the_right_code(row: Row) -> None:
    verdict = asyncio.run(judge(row["task"], MUTANTS / row["file"]))
    assert not isinstance(verdict, Validated)
    assert verdict.code in row["codes"], verdict


@pytest.mark.parametrize("row", named(of_how("python")))
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


@pytest.mark.parametrize(("task", "name"), HONEST)
def test_honest_arithmetic_is_accepted_whatever_the_inputs(task: str, name: str) -> None:
    written, loaded = array_kernels(task), load_task(task)
    assert written is not None
    for seed in range(3 if is_whole() else 1):
        session = ArraySession(loaded, written.honest[name])
        verdict = asyncio.run(validate(loaded, session, nonce=bytes([seed]) * 16))
        assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize("row", named(of_how("not applicable")))
def test_what_does_not_apply_has_a_reason(row: Row) -> None:
    assert len(row["reason"]) > 20


def test_every_task_has_every_kind_and_three_compiled_ones() -> None:
    for task in {row["task"] for row in ROWS}:
        rows = mutant_rows(task)
        assert {row["kind"] for row in rows} >= set(mutants("reduction"))
        assert sum(row["how"] == "file" for row in rows) >= 3
