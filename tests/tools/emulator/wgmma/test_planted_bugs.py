"""Planted bugs around wgmma are found with their lines; the honest kernels beside them run."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from corpus import honest_extra
from corpus_sample import sample
from device_calls import Array, Called, call_once, compiled
from wgmma_gemms import GEMM, M, N, gemm_operands

from cuda_llm.outcomes import (
    DataRace,
    DeviceFault,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    UninitialisedRead,
    Verdict,
    WrongResult,
)
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import open_device, open_emulated
from cuda_llm.verdict_wording import describe

PLANTED = (Path(__file__).parents[3] / "fixtures" / "wgmma" / "planted.cu").read_text()
A = np.random.default_rng(4).integers(-4, 5, (64, 64)).astype(np.float16)
B = np.random.default_rng(5).integers(-4, 5, (64, 64)).astype(np.float16)
LEVELS = (Level.CHECK, Level.ACCOUNT, Level.FULL)


def lines_of(source: str, *marks: str) -> list[int]:
    """The line of each mark."""
    lines = source.splitlines()
    return [next(n for n, line in enumerate(lines, 1) if f"// {mark}" in line) for mark in marks]


def call(code: Compiled, values: Mapping[str, Array], mode: int, level: Level, seed: int) -> Called:
    async def once() -> Called:
        async with open_emulated("H200").open(code) as session:
            assert isinstance(session, Session), session
            options = CallOptions(level=level, schedule_seed=seed, limit_s=20.0)
            return await call_once(session, values, ["out"], [mode], options)

    return asyncio.run(once())


@pytest.fixture(scope="module")
def planted() -> Compiled:
    return asyncio.run(compiled(PLANTED, open_emulated("H200").hardware.target))


def call_planted(code: Compiled, mode: int, level: Level, seed: int = 0) -> Called:
    values: dict[str, Array] = {"out": np.full((64, 64), np.nan, np.float32), "a": A, "b": B}
    return call(code, values, mode, level, seed)


Bug = tuple[int, type[Verdict], str, str]
BUGS: list[Bug] = [
    (0, InvalidSync, "touches", "multiplies"),
    (2, InvalidSync, "reads", "multiplies"),
    (6, Misaligned, "multiplies", ""),
    (10, InvalidSync, "multiplies", "*"),
    (12, InvalidSync, "multiplies", ""),
    (14, InvalidSync, "multiplies", "changes"),
    (16, IllegalAccess, "multiplies", ""),
    (18, IllegalAccess, "multiplies", ""),
    (20, InvalidSync, "multiplies", "multiplies"),
    (22, InvalidSync, "reads", "multiplies"),
    (24, InvalidSync, "reloads", "reloads"),
]
"""Mode of `planted.cu`, what becomes of it, where, and against what; `*`: whatever comes first."""


def kind_of(bug: Bug) -> str:
    return bug[1].__name__


SOUGHT = sample(BUGS, kind=kind_of, every=3)
RACES = [(4, "multiplies", "fills"), (8, "overwrites", "multiplies")]


def check_lines(verdict: object, mark: str, other: str) -> None:
    assert isinstance(verdict, DeviceFault)
    assert verdict.spot is not None
    (line,) = lines_of(PLANTED, mark)
    assert verdict.spot.line == line
    against = None if other == "*" else getattr(verdict, "other", None)
    other = other.strip("*")
    assert (against is not None) == bool(other)
    assert against is None or against.line == lines_of(PLANTED, other)[0]


@pytest.mark.parametrize(("mode", "kind", "mark", "other"), SOUGHT)
def test_a_planted_bug_is_found_at_its_line(
    planted: Compiled, mode: int, kind: type[Verdict], mark: str, other: str
) -> None:
    for level, seed in [(Level.CHECK, 0), (Level.FULL, 0), (Level.FULL, 7)]:
        verdict = call_planted(planted, mode, level, seed).outcome
        assert isinstance(verdict, kind), verdict
        check_lines(verdict, mark, other)


@pytest.mark.parametrize(("mode", "mark", "other"), RACES)
def test_operands_in_shared_memory_race_like_other_accesses(
    planted: Compiled, mode: int, mark: str, other: str
) -> None:
    for seed in (0, 7):
        verdict = call_planted(planted, mode, Level.FULL, seed).outcome
        assert isinstance(verdict, DataRace), verdict
        assert verdict.unfenced == (mode == 4)
        assert verdict.spot is not None
        assert verdict.other is not None
        # A warp may have been through with what another one has yet to read.
        assert {verdict.spot.line, verdict.other.line} == set(lines_of(PLANTED, mark, other))


WORDS = {
    0: "st.global.f32 touches a register of the product at kernel.cu",
    6: "a matrix descriptor does not begin, or go on, where a pattern of its swizzle does",
    10: "not all four warps of a warpgroup execute it",
    12: "no wgmma.fence since its registers were written",
    18: "a matrix descriptor sets bits that are to be 0",
    20: "not the same in all lanes and warps of a warpgroup",
}


def test_misuse_is_told_in_words(planted: Compiled) -> None:
    for mode, words in WORDS.items():
        verdict = call_planted(planted, mode, Level.CHECK).outcome
        assert not isinstance(verdict, CallReport)
        assert words in " ".join(describe(verdict)), verdict


@pytest.mark.parametrize("mode", sample(range(1, 26, 2), every=3))
def test_the_honest_kernel_beside_it_runs(planted: Compiled, mode: int) -> None:
    exact = A.astype(np.float32) @ B.astype(np.float32).T
    if mode == 15:
        exact = exact**2 + A[:, :16].astype(np.float32) @ B[:, :16].astype(np.float32).T
    for level, seed in [(Level.CHECK, 0), (Level.ACCOUNT, 0), (Level.FULL, 0), (Level.FULL, 7)]:
        called = call_planted(planted, mode, level, seed)
        assert called.report
        found = called.outputs["out"]
        if mode == 25:
            found = found[:, :8]
            exact = A[:, :16].astype(np.float32) @ B.ravel()[:512].reshape(8, 64)[:, :16].T
        np.testing.assert_array_equal(found, exact)


def test_rows_of_a_tile_that_nobody_fills_matter_where_their_sums_are_stored(
    planted: Compiled,
) -> None:
    stored, left = 26, 27
    exact = A.astype(np.float32) @ B.astype(np.float32).T
    for level in LEVELS:
        verdict = call_planted(planted, stored, level).outcome
        assert isinstance(verdict, UninitialisedRead), verdict
        check_lines(verdict, "multiplies", "")
        called = call_planted(planted, left, level)
        assert called.report, called.outcome
        np.testing.assert_array_equal(called.outputs["out"][:40], exact[:40])


def call_gemm(source: str, level: Level, seed: int = 0) -> Called:
    code = asyncio.run(compiled(source, open_emulated("H200").hardware.target))
    values: dict[str, Array] = {"in": gemm_operands(0), "out": np.full((M, N), np.nan, np.float32)}
    return call(code, values, 0, level, seed)


@pytest.mark.evidence
def test_a_stage_that_is_handed_back_before_the_wait_is_a_race() -> None:
    before = "wait_group<1>();\n    if (k > 0) arrive(place(&empty[(k - 1) % kStages]));"
    assert before in GEMM
    verdict = call_gemm(GEMM.replace(before, "arrive(place(&empty[s]));"), Level.FULL).outcome
    assert isinstance(verdict, DataRace), verdict
    assert verdict.spot is not None
    assert verdict.other is not None
    found = {place.line for place in (verdict.spot, verdict.other)}
    lines = GEMM.splitlines()
    texts = " ".join(" ".join(lines[line - 3 : line]) for line in sorted(found))
    assert len(found) == 2
    assert "cp.async.bulk.tensor" in texts
    assert "wgmma.mma_async.sync.aligned.m64n128k16" in texts


@pytest.mark.evidence
def test_a_layout_that_was_not_stored_is_a_wrong_result() -> None:
    (known,) = (one for one in honest_extra() if one.path.stem == "wgmma_and_tma")
    source, swizzled = known.path.read_text(), "stride << 32 | 1ull << 62"
    assert swizzled in source

    async def judged() -> Verdict:
        bench = open_bench(known.load_task(small=True), open_device(known.device))
        baseline = asyncio.ensure_future(bench.time_baseline())
        plain = source.replace(swizzled, "stride << 32")
        found = await judge(bench, plain, known.path.name, baseline=baseline)
        await baseline
        return found.verdict

    assert isinstance(asyncio.run(judged()), WrongResult)
