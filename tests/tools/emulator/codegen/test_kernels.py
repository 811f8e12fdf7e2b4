"""Real nvcc output of both PTX dialects, run on the emulated device, against NumPy."""

import asyncio
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from corpus_sample import is_whole, sample
from kernel_cases import KernelCase, kernel_cases
from kernel_runs import compiled, results, translated, wrong

from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.device.candidate import Compiled

TARGETS = ("sm_86", "sm_120")
CASES = kernel_cases()
FILES = sorted({case.file for case in CASES if case.file != "cub" or is_whole()})
"""A kernel of CUB takes as long to build as all others together."""
BUILT = sample(product(FILES, TARGETS), kind=lambda built: built[0], every=2)
"""Each file for one target, half of the files for the other one than their neighbours."""
JUDGED = [(case, target) for case in CASES for target in TARGETS if (case.file, target) in BUILT]
CALLS = (
    CallOptions(level=Level.FULL),
    CallOptions(schedule_seed=1),
    CallOptions(schedule_seed=2),
)

Candidates = dict[tuple[str, str], Compiled]


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    """The fixture files, compiled and translated side by side."""

    async def build(file: str, target: str) -> Compiled:
        made = await compiled(file, target)
        await translated(made)
        return made

    async def build_all() -> Candidates:
        made = await asyncio.gather(*(build(*key) for key in BUILT))
        return dict(zip(BUILT, made, strict=True))

    return asyncio.run(build_all())


def candidate_of(file: str, candidates: Candidates) -> Compiled:
    """The file, for whichever target."""
    return next(made for (name, _), made in candidates.items() if name == file)


@pytest.mark.parametrize(
    ("case", "target"), JUDGED, ids=[f"{case.label}-{target}" for case, target in JUDGED]
)
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
    candidate = candidate_of(case.file, candidates)
    text = candidate.ptx.read_text()
    assert right in text
    ptx = tmp_path / "swapped.ptx"
    ptx.write_text(text.replace(right, swapped))
    changed = replace(candidate, ptx=ptx)
    assert wrong(case, asyncio.run(results(case, changed, [CallOptions()]))[0])


JUMP = """
.version 9.0
.target sm_86
.address_size 64
.visible .entry _Z10jump_tablePKiS0_Pii(
	.param .u64 in, .param .u64 which, .param .u64 out, .param .u32 n)
{
	.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
	mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
	mad.lo.s32 %r1, %r1, %r2, %r3;
	ld.param.u32 %r2, [n]; setp.ge.s32 %p1, %r1, %r2; @%p1 ret;
	ld.param.u64 %rd1, [which]; ld.param.u64 %rd2, [out]; mul.wide.s32 %rd3, %r1, 4;
	add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
	ld.global.u32 %r4, [%rd1]; rem.u32 %r4, %r4, 4; mov.u32 %r5, 100;
table: .branchtargets zero, one, two, zero;
	brx.idx %r4, table;
one: add.s32 %r5, %r5, 7;
two: add.s32 %r5, %r5, 20;
zero:
	{ .reg .pred %p<3>; elect.sync %r6|%p2, 0xffffffff; @%p2 add.s32 %r5, %r5, %r6; }
	@!%p1 st.global.u32 [%rd2], %r5;
	ret;
}
"""


def test_jump_tables_send_each_lane_its_way(candidates: Candidates, tmp_path: Path) -> None:
    ptx = tmp_path / "jump.ptx"
    ptx.write_text(JUMP)
    case = next(case for case in CASES if case.label == "extras.jump_table")
    changed = replace(candidate_of("extras", candidates), ptx=ptx)
    expected = np.array([100, 127, 120, 100], "int32")[case.b % 4]
    found = asyncio.run(results(replace(case, expected=expected), changed, [CallOptions()]))[0]
    assert found.tolist() == expected.tolist()
