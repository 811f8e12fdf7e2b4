"""Real nvcc output of both PTX dialects, run on the emulated device, against NumPy."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_cases import KernelCase, kernel_cases
from kernel_runs import compiled, results, translated, wrong

from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.devices.device import CallOptions, Level

TARGETS = ("sm_86", "sm_120")
CASES = kernel_cases()
CALLS = (
    CallOptions(level=Level.FULL),
    CallOptions(schedule_seed=1),
    CallOptions(schedule_seed=2),
)

Candidates = dict[tuple[str, str], Compiled]


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    """Every fixture file for every target, compiled and translated side by side."""

    async def build(file: str, target: str) -> Compiled:
        made = await compiled(file, target)
        await translated(made)
        return made

    async def build_all() -> Candidates:
        keys = [(file, t) for file in sorted({case.file for case in CASES}) for t in TARGETS]
        return dict(zip(keys, await asyncio.gather(*(build(*key) for key in keys)), strict=True))

    return asyncio.run(build_all())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_kernel_agrees_with_numpy(case: KernelCase, target: str, candidates: Candidates) -> None:
    for number, found in enumerate(
        asyncio.run(results(case, candidates[case.file, target], CALLS))
    ):
        assert not wrong(case, found), f"{case.label} on {target}, call {number}"


@pytest.mark.parametrize(
    ("label", "right", "swapped"),
    [
        ("warps.inclusive_scan", "shfl.sync.up", "shfl.sync.down"),
        ("arithmetic.integers", "mul.hi.s32", "mul.hi.u32"),
        ("memory.histogram", "atom.shared.add", "atom.shared.max"),
    ],
)
def test_another_operation_gives_another_result(
    label: str, right: str, swapped: str, candidates: Candidates, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.label == label)
    candidate = candidates[case.file, "sm_86"]
    text = candidate.ptx.read_text()
    assert right in text
    ptx = tmp_path / "swapped.ptx"
    ptx.write_text(text.replace(right, swapped))
    changed = replace(candidate, ptx=ptx)
    assert wrong(case, asyncio.run(results(case, changed, [CallOptions()]))[0])
