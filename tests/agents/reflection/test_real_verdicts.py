"""Diagnoses of kernels that were really compiled and run."""

import asyncio
from pathlib import Path

import pytest
from searches import attempt, situation
from small_tasks import small_task

from cuda_llm.agents.kernel_facts import SourceFacts
from cuda_llm.agents.reflection.failure_hints import hint_from
from cuda_llm.agents.reflection.kernel_context import KernelContext
from cuda_llm.agents.reflection.slow_kernels import diagnose_speed
from cuda_llm.figure_wording import name_bottleneck
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import limiter
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import open_device

ROOT = Path(__file__).parents[3]
UNPADDED = "examples/kernels/transpose_unpadded.cu"
EXPECTED = {
    "examples/kernels/transpose_missing_barrier.cu": ("DATA_RACE", "missing barrier", "line 13"),
    "tests/fixtures/mutants/matrix_transpose/last_tile_missing.cu": (
        "WRONG_RESULT",
        "last tile",
        "never written",
    ),
    "an unknown name": ("COMPILE_FAILED", "undefined warp_id", "line 2"),
}
UNKNOWN_NAME = (
    'extern "C" void solve(const float* input, float* output, int rows, int cols) {\n'
    "    output[warp_id] = 0;\n}\n"
)


def source_of(name: str) -> str:
    return UNKNOWN_NAME if name == "an unknown name" else (ROOT / name).read_text()


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    """By file, at sizes that take a millisecond."""
    task, device = small_task("matrix_transpose"), open_device("emulated")

    async def judge_all() -> dict[str, Verdict]:
        bench = open_bench(task, device)
        baseline = asyncio.ensure_future(bench.time_baseline())
        names = [*EXPECTED, UNPADDED]
        found = await asyncio.gather(
            *(judge(bench, source_of(one), "solve.cu", baseline=baseline) for one in names)
        )
        await baseline
        return {name: one.verdict for name, one in zip(names, found, strict=True)}

    return asyncio.run(judge_all())


@pytest.mark.parametrize("name", EXPECTED)
def test_the_cause_is_found_with_its_line(verdicts: dict[str, Verdict], name: str) -> None:
    task = small_task("matrix_transpose")
    context = KernelContext(
        round=1,
        about="r1-c1",
        source=SourceFacts(source_of(name)),
        task=task,
        hardware=open_device("emulated").hardware,
    )
    found = hint_from(verdicts[name], context)
    assert found is not None
    code, cause, seen = EXPECTED[name]
    assert (found.code, found.cause) == (code, cause)
    assert seen in found.evidence


def test_a_profile_of_a_real_kernel_gives_one_bottleneck(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[UNPADDED]
    assert isinstance(verdict, Passed)
    assert verdict.profile is not None
    winner = attempt("r1-c1", 1.5, times_us=(400.0, 4100.0))
    found = situation(winner, incumbent="r1-c1")
    context = KernelContext(
        round=1,
        about="r1-c1",
        source=SourceFacts(source_of(UNPADDED)),
        task=found.task,
        hardware=found.hardware,
    )
    (one,) = diagnose_speed(found, winner, verdict.profile, context)
    limit = limiter(verdict.profile.bottlenecks)
    assert limit is not None
    assert f"Limited by {name_bottleneck(limit.code)}" in one.text
    assert one.code == max(verdict.profile.bottlenecks, key=lambda found: found.saved_us).code
    assert one.text.startswith("Limited by ")
