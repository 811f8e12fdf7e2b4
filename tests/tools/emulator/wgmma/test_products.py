"""wgmma, every type and layout, against exact sums cut off as published."""

import numpy as np
import pytest
from device_calls import Array, run
from wgmma_cases import (
    THREADS,
    GroupCase,
    group_cases,
    group_expected,
    group_results,
    group_source,
    group_words,
)

from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.emulator.ops.wgmma import GroupProduct, group_product_of


def wrong_elements(found: Array, wanted: Array) -> list[str]:
    places = np.argwhere(found.astype(np.uint64) != wanted.astype(np.uint64))
    return [
        f"{place.tolist()} of {len(places)}: {int(found[tuple(place)]):#x}, "
        f"not {int(wanted[tuple(place)]):#x}"
        for place in places[:3]
    ]


@pytest.mark.parametrize(
    ("part", "level"), [(0, Level.CHECK), (1, Level.FULL), (2, Level.FULL), (3, Level.CHECK)]
)
def test_every_product_of_a_warpgroup_rounds_as_published(part: int, level: Level) -> None:
    cases = group_cases()[part::4]
    sizes = [case.rows * 2 * THREADS * case.results for case in cases]
    buffers = {
        "in": np.concatenate([group_words(case) for case in cases]),
        "out": np.zeros(sum(sizes), np.uint32),
    }
    options = CallOptions(level=level, limit_s=60.0)
    called = run(group_source(cases), buffers, ["out"], 0, device="H200", options=options)
    assert called.report
    parts = np.split(called.outputs["out"].view(np.uint32), np.cumsum(sizes)[:-1])
    found = {
        case.label: wrong_elements(group_results(case, words), group_expected(case))
        for case, words in zip(cases, parts, strict=True)
    }
    assert {label: wrong for label, wrong in found.items() if wrong} == {}


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


def test_a_lane_holds_its_part_of_a_row_of_sixteen() -> None:
    case = GroupCase(256, "f32", "f16", "f16")
    found = product(case.spelling)
    assert found is not None
    assert (found.results, found.operations, found.peak) == (128, 2 * 16 * 256 * 16, "wgmma:fp16")
