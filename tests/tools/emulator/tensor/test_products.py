"""mma and wmma, every type and shape, against exact sums cut off as published."""

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import sample
from device_calls import run
from tensor_cases import ROWS, cases_for, expected, operands, pack, source, unpack
from tensor_oracle import dot
from wmma_cases import (
    FRAGMENTS,
    wmma_cases,
    wmma_expected,
    wmma_input,
    wmma_result_bytes,
    wmma_results,
    wmma_source,
)
from wmma_cases import ROWS as WMMA_ROWS

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.device import CallOptions, Level

Bits = npt.NDArray[np.uint64]


def capability_of(device: str) -> int:
    major, minor = find_hardware(device).compute_capability
    return 10 * major + minor


def unlike(found: Bits, wanted: Bits) -> list[str]:
    """Return the elements that differ, a few of them."""
    wrong = np.argwhere(found.astype(np.uint64) != wanted.astype(np.uint64))[:3]
    return [
        f"{place.tolist()}: {int(found[tuple(place)]):#x}, not {int(wanted[tuple(place)]):#x}"
        for place in wrong
    ]


@pytest.mark.parametrize(
    "device",
    sample(["H200", "RTX 2080 Ti", "RTX 4090", "RTX 5090"], every=4),
)
def test_every_mma_rounds_as_its_architecture_does(device: str) -> None:
    capability = capability_of(device)
    cases = cases_for(capability)
    given = {case.spelling: operands(case) for case in cases}
    words = [
        np.concatenate([pack(case, which, given[case.spelling][which]) for which in "abc"], axis=1)
        for case in cases
    ]
    sizes = [ROWS * case.words("d") * 32 for case in cases]
    buffers = {
        "in": np.concatenate([block.ravel() for block in words]),
        "out": np.zeros(sum(sizes), np.uint32),
    }
    called = run(source(cases), buffers, ["out"], ROWS, device=device)
    assert called.report
    parts = np.split(called.outputs["out"].view(np.uint32), np.cumsum(sizes)[:-1])
    for case, part in zip(cases, parts, strict=True):
        found = unpack(case, part.reshape(ROWS, case.words("d"), 32))
        wanted = expected(case, capability, given[case.spelling])
        assert unlike(found, wanted) == [], case.spelling


@pytest.mark.parametrize("device", sample(["H200", "RTX 2080 Ti"], every=2))
def test_every_wmma_moves_and_rounds(device: str) -> None:
    capability = capability_of(device)
    cases = wmma_cases(capability)
    buffers = {
        "in": wmma_input(capability),
        "out": np.zeros(sum(wmma_result_bytes(case) * WMMA_ROWS for case in cases), np.uint8),
        "fragments": np.zeros(len(cases) * WMMA_ROWS * FRAGMENTS, np.uint64),
    }
    options = CallOptions(level=Level.FULL)
    text = wmma_source(capability)
    called = run(text, buffers, ["out", "fragments"], WMMA_ROWS, device=device, options=options)
    assert called.report
    results = wmma_results(capability, called.outputs["out"].view(np.uint8))
    for number, case in enumerate(cases):
        assert unlike(results[number], wmma_expected(case, capability)) == [], case.label


def half(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def single(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize(("capability", "lost_bit"), [(80, 25), (90, 26)])
def test_small_products_are_lost_beside_large_ones(capability: int, lost_bit: int) -> None:
    """The published features: so many bits below the largest term, and none of the rest."""
    for bit in (lost_bit - 1, lost_bit):
        a = np.array([[half(1), half(2.0**-13), 0, 0, 0, 0, 0, 0]], np.uint64)
        b = np.array([[half(1), half(2.0 ** (13 - bit)), 0, 0, 0, 0, 0, 0]], np.uint64)
        c = np.array([single(-1)], np.uint64)
        found = dot(capability, ("f16", "f16"), a, b, c, ("f32", "f32"))
        kept = 2.0**-bit if bit < lost_bit else 0.0
        assert int(found[0]) == single(kept), bit
