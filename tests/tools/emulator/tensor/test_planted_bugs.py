"""Planted bugs on tensor cores are found with their line; the honest kernels beside them run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from device_calls import Array, Called, call_once, compiled

from cuda_llm.outcomes import (
    DataRace,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated

SOURCE = (Path(__file__).parents[3] / "fixtures" / "tensor" / "planted.cu").read_text()


def line_of(mark: str) -> int:
    before, found, _ = SOURCE.partition(f"// {mark}\n")
    assert found, mark
    return before.count("\n") + 1


@pytest.fixture(scope="module", params=["H200"])
def candidate(request: pytest.FixtureRequest) -> Iterator[tuple[str, Compiled]]:
    """The kernels, compiled for one GPU."""
    device = str(request.param)
    yield device, asyncio.run(compiled(SOURCE, open_emulated(device).hardware.target))


A = np.random.default_rng(2).integers(-9, 9, (32, 32)).astype(np.float16)
B = np.random.default_rng(3).integers(-9, 9, (32, 32)).astype(np.float16)


def call(candidate: tuple[str, Compiled], mode: int, level: Level, seed: int = 0) -> Called:
    device, code = candidate
    values: dict[str, Array] = {"a": A, "b": B, "out": np.full((32, 32), np.nan, np.float32)}

    async def once() -> Called:
        async with open_emulated(device).open(code) as session:
            assert isinstance(session, Session), session
            options = CallOptions(level=level, schedule_seed=seed)
            return await call_once(session, values, ["out"], [mode], options)

    return asyncio.run(once())


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
@pytest.mark.parametrize(
    ("mode", "kind", "mark"),
    [
        (2, IllegalAccess, "wrong-stride"),
        (4, UninitialisedRead, "not-written"),
        (6, InvalidSync, "divergent-product"),
        (8, InvalidSync, "lanes-missing"),
        (10, Misaligned, "misaligned-row"),
        (16, IllegalAccess, "past-shared"),
    ],
)
def test_a_planted_bug_is_found_at_its_line(
    candidate: tuple[str, Compiled], mode: int, kind: type[Verdict], mark: str, level: Level
) -> None:
    verdict = call(candidate, mode, level).outcome
    assert isinstance(verdict, kind), verdict
    spot = getattr(verdict, "spot", None)
    assert spot is not None
    assert spot.line == line_of(mark)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("mode", "marks"),
    [
        (0, {"no-barrier-write", "no-barrier-read"}),
        (12, {"other-store", "other-read"}),
        (14, {"same-tile"}),
    ],
)
def test_matrices_race_like_other_accesses(
    candidate: tuple[str, Compiled], mode: int, marks: set[str], seed: int
) -> None:
    verdict = call(candidate, mode, Level.FULL, seed).outcome
    assert isinstance(verdict, DataRace), verdict
    assert verdict.spot is not None
    assert verdict.other is not None
    assert {verdict.spot.line, verdict.other.line} == {line_of(mark) for mark in marks}


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("mode", range(1, 18, 2))
def test_the_honest_kernel_beside_it_runs(
    candidate: tuple[str, Compiled], mode: int, seed: int
) -> None:
    called = call(candidate, mode, Level.FULL, seed)
    assert isinstance(called.outcome, CallReport), called.outcome
    exact = A.astype(np.float32) @ B.astype(np.float32)
    if mode in (3, 7, 9):
        part = A[:16, :16].astype(np.float32) @ B[:16, :16].astype(np.float32)
        np.testing.assert_array_equal(called.outputs["out"][:16, :16], part)
        assert exact.shape == (32, 32)
