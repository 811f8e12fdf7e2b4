"""The table task by mutant with real kernels: nvcc, the emulated device, the validator."""

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest
from array_mutants import mutants
from measured_site import running

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.device import Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.validator.validate import Validated, validate

MUTANTS = Path(__file__).parents[2] / "fixtures" / "mutants"
TABLE = tomllib.loads((MUTANTS / "table.toml").read_text(encoding="utf-8"))
ROWS: list[dict[str, Any]] = TABLE["mutant"]


def named(rows: list[dict[str, Any]], how: str) -> list[Any]:
    return [
        pytest.param(row, id=f"{row['task']}-{row['kind']}") for row in rows if row["how"] == how
    ]


async def judge(task_name: str, file: Path) -> Validated | Verdict:
    task = load_task(task_name)
    device = open_emulated()
    compiled = await compile_candidate(
        compile_request(task, device.target, file.read_text(encoding="utf-8"), file.name)
    )
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, Session), session
        return await validate(task, session)


@pytest.mark.slow
@pytest.mark.parametrize("row", named(ROWS, "file"))
def test_compiled_mutants_are_rejected_with_the_right_code(row: dict[str, Any]) -> None:
    verdict = asyncio.run(judge(row["task"], MUTANTS / row["file"]))
    assert not isinstance(verdict, Validated)
    assert verdict.code in row["codes"], verdict


@pytest.mark.parametrize("row", named(ROWS, "python"))
def test_mutants_on_arrays_are_rejected_with_the_right_code(row: dict[str, Any]) -> None:
    session = running(mutants(row["task"])[row["kind"]])
    verdict = asyncio.run(validate(load_task(row["task"]), session))
    assert not isinstance(verdict, Validated)
    assert verdict.code in row["codes"], verdict


@pytest.mark.parametrize("row", named(ROWS, "not applicable"))
def test_what_does_not_apply_has_a_reason(row: dict[str, Any]) -> None:
    assert len(row["reason"]) > 20


def test_every_task_has_every_kind_and_three_compiled_ones() -> None:
    for task in {row["task"] for row in ROWS}:
        rows = [row for row in ROWS if row["task"] == task]
        assert {row["kind"] for row in rows} >= set(mutants(task))
        assert sum(row["how"] == "file" for row in rows) >= 3
