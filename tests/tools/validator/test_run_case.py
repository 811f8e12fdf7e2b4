"""Timed calls are compared like any other; a baseline may stand in for the reference."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from array_kernels import HONEST, add, writes
from array_mutants import mutants
from measured_site import Buffers, running
from small_tasks import small_task

from cuda_llm.outcomes import ElementKind, ElementPattern, WrongResult
from cuda_llm.tasks.task import ArgumentRole
from cuda_llm.tools.device import CallOptions, CallReport, Level
from cuda_llm.tools.validator.check_case import run_case
from cuda_llm.tools.validator.oracle import baseline_oracle
from cuda_llm.tools.validator.validate import Validated, validate

TASK = small_task("vector_add")


def test_a_right_call_returns_its_report_at_the_requested_level() -> None:
    session = running(writes("vector_add", add))
    report = asyncio.run(run_case(TASK, session, {"n": 5000}, level=Level.ACCOUNT))
    assert isinstance(report, CallReport)
    assert [options.level for options in session.calls] == [Level.ACCOUNT]
    assert session.calls[0].schedule_seed == 0
    assert session.calls[0].scratch_bytes == 65536


def test_a_kernel_that_cheats_only_when_timed_is_found() -> None:
    def lazy(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = 0 if options.level is Level.ACCOUNT else b["A"] + b["B"]

    assert isinstance(asyncio.run(validate(TASK, running(lazy))), Validated)
    timed = run_case(TASK, running(lazy), {"n": 5000}, level=Level.ACCOUNT, group="bench")
    verdict = asyncio.run(timed)
    assert isinstance(verdict, WrongResult)
    assert verdict.size_class == "bench"
    assert verdict.dims == {"n": 5000}
    assert verdict.looks_like == ElementPattern(kind=ElementKind.ZEROS)


def test_two_timed_calls_never_see_the_same_inputs() -> None:
    seen = []

    def candidate(b: Buffers, options: CallOptions) -> None:
        seen.append(b["A"].tobytes())
        b["C"][...] = b["A"] + b["B"]

    for _ in range(2):
        asyncio.run(run_case(TASK, running(candidate), {"n": 500}))
    assert seen[0] != seen[1]


def test_in_place_tasks_are_filled_and_compared(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(
        "def reference(xp, *, A, B):\n    return {'A': A[::-1], 'C': A + B}\n"
    )
    in_place = replace(TASK.arguments[0], role=ArgumentRole.INOUT)
    task = replace(
        TASK, arguments=(in_place, *TASK.arguments[1:]), reference=tmp_path / "reference.py"
    )

    def honest(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        b["A"][...] = b["A"][::-1].copy()

    assert isinstance(asyncio.run(validate(task, running(honest))), Validated)
    verdict = asyncio.run(validate(task, running(writes("vector_add", add))))
    assert isinstance(verdict, WrongResult)
    assert verdict.buffer == "A"
    assert verdict.looks_like == ElementPattern(kind=ElementKind.COPIED, buffer="A")


@pytest.mark.parametrize("name", HONEST)
def test_a_baseline_as_oracle_rejects_mutants_and_passes_honest_kernels(name: str) -> None:
    task = replace(small_task(name), reference=None)
    baseline = running(writes(name, HONEST[name][0]))
    for compute in HONEST[name]:
        result = asyncio.run(
            validate(task, running(writes(name, compute)), oracle=baseline_oracle(task, baseline))
        )
        assert isinstance(result, Validated), result
        assert result.differential
    for kind in ("zero", "last_tile_missing", "off_by_one"):
        candidate = running(mutants(name)[kind])
        result = asyncio.run(validate(task, candidate, oracle=baseline_oracle(task, baseline)))
        assert isinstance(result, WrongResult), kind
