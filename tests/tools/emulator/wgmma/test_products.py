"""wgmma, every type and layout, against exact sums cut off, and what an H200 gave."""

from collections.abc import Sequence

import numpy as np
import pytest
from corpus_sample import sample
from device_calls import Array, run
from recorded_tensor import GROUP_PARTS, group_calls, recorded, recorded_spellings
from wgmma_cases import THREADS, GroupCase, group_cases, group_expected, group_results

from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.emulator.ops.wgmma import GroupProduct, group_product_of


def unlike(case: GroupCase, found: Array, wanted: Array) -> str:
    """Say which elements differ, a few of them."""
    places = np.argwhere(found.astype(np.uint64) != wanted.astype(np.uint64))
    told = [
        f"{place.tolist()}: {int(found[tuple(place)]):#x}, not {int(wanted[tuple(place)]):#x}"
        for place in places[:3]
    ]
    return f"{case.label}: {len(places)}, {told}" if told else ""


PARTS = sample(range(GROUP_PARTS), every=GROUP_PARTS)
"""Each has every fourth spelling; the even ones are executed without a search for races."""


@pytest.mark.parametrize("part", PARTS)
def test_every_product_of_a_warpgroup_rounds_as_the_hardware_does(part: int) -> None:
    cases, one = group_cases()[part::GROUP_PARTS], group_calls()[part]
    buffers = {"given": one.given, one.name: one.left[0]}
    options = CallOptions(level=Level.FULL if part % 2 else Level.CHECK, limit_s=60.0)
    called = run(one.source, buffers, [one.name], one.rows, device="H200", options=options)
    assert called.report
    ours = results(cases, called.outputs[one.name])
    wrong = [unlike(case, ours[case.label], group_expected(case)) for case in cases]
    assert list(filter(None, wrong)) == []
    theirs = results(cases, recorded(one.name, called.outputs[one.name]))
    wrong = [unlike(case, ours[case.label], theirs[case.label]) for case in cases]
    assert list(filter(None, wrong)) == []


def results(cases: Sequence[GroupCase], words: Array) -> dict[str, Array]:
    """Encodings of D of each case."""
    ends = np.cumsum([case.rows * 2 * THREADS * case.results for case in cases])
    parts = np.split(words.view(np.uint32), ends[:-1])
    pairs = zip(cases, parts, strict=True)
    return {case.label: group_results(case, part) for case, part in pairs}


def product(spelling: str) -> GroupProduct | None:
    return group_product_of(tuple(spelling.split(".")))


def test_spellings_are_those_of_ptx() -> None:
    assert len({case.spelling for case in group_cases()}) >= 38
    assert all(product(case.spelling) for case in group_cases())
    head = "wgmma.mma_async.sync.aligned"
    refused = [
        f"{head}.m64n12k16.f32.f16.f16",
        f"{head}.m64n264k16.f32.f16.f16",
        f"{head}.m64n16k8.f32.f16.f16",
        f"{head}.m64n16k16.f16.bf16.bf16",
        f"{head}.m64n16k16.f32.f16.bf16",
        f"{head}.m64n40k32.s32.s8.s8",
        f"{head}.m64n16k16.satfinite.f32.f16.f16",
        f"{head}.m64n8k256.s32.b1.b1.and.popc",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
    ]
    assert [spelling for spelling in refused if product(spelling)] == []


def test_enough_new_instructions_are_compared_with_a_gpu() -> None:
    assert len(recorded_spellings()) == 171


def test_a_lane_holds_its_part_of_a_row_of_sixteen() -> None:
    case = GroupCase(256, "f32", "f16", "f16")
    found = product(case.spelling)
    assert found is not None
    assert (found.results, found.operations, found.peak) == (128, 2 * 16 * 256 * 16, "wgmma:fp16")
