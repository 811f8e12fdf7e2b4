"""Approximate functions against the results of an H200's special-function unit."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from lane_library import LaneLibrary, build_library

from cuda_llm.tools.emulator.ops.table import operations

RECORDED = Path(__file__).parents[3] / "fixtures/recorded/special_functions_h200.npz"
SAME = {
    "rcp": 0.98,
    "rsqrt": 0.98,
    "sqrt": 0.99,
    "ex2": 0.9,
    "lg2": 0.8,
    "cos": 0.4,
    "tanh": 0.5,
}
"""Least part of the results that are the same bit for bit."""
MOST_APART = {"rcp": 1, "rsqrt": 1, "sqrt": 1, "ex2": 1}
"""Units in the last place by which others differ at most."""
MOST_OFF = {"lg2": 2.0**-22, "cos": 2.0**-21, "tanh": 2.0**-18.5}
"""For functions with zeros: how far off others are at most, as the unit itself is off by more."""
Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def library(shared_cache: object) -> LaneLibrary:
    """The approximate functions alone."""
    table = operations()
    return build_library(
        {name: op for name, op in table.items() if {"approx", "full"} & {*name.split(".")}}
    )


@pytest.fixture(scope="module")
def recorded() -> dict[str, Array]:
    with np.load(RECORDED) as file:
        return {name: file[name] for name in file.files}


def places(bits: Array) -> Array:
    """Places of floats on the line of all floats."""
    signed = bits.astype(np.uint32).view(np.int32).astype(np.int64)
    return np.where(signed >= 0, signed, -(signed & 0x7FFFFFFF))


def values(bits: Array) -> Array:
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", sorted(SAME))
def test_results_are_those_of_the_hardware(
    library: LaneLibrary, recorded: dict[str, Array], name: str
) -> None:
    whole_warps = recorded[name].shape[1] // 32 * 32
    inputs, theirs = recorded[name][:, :whole_warps]
    spelling = "tanh.approx.f32" if name == "tanh" else f"{name}.approx.ftz.f32"
    (ours,) = library.columns(spelling, (inputs.astype(np.uint64),))
    normal = np.isfinite(values(theirs)) & (np.abs(values(theirs)) > 2.0**-120)
    ours, theirs = ours[normal], theirs[normal]
    apart = np.abs(places(ours) - places(theirs))
    assert (apart == 0).mean() > SAME[name]
    if name in MOST_APART:
        assert apart.max() <= MOST_APART[name]
    else:
        off = np.abs(values(ours) - values(theirs))[apart > 1]
        assert off.max() < MOST_OFF[name]


@pytest.mark.parametrize("name", ["ex2_f16", "tanh_f16", "ex2_bf16", "tanh_bf16"])
def test_results_in_halves_are_those_of_the_hardware(
    library: LaneLibrary, recorded: dict[str, Array], name: str
) -> None:
    function, _, t = name.partition("_")
    spelling = f"{function}.approx.{'ftz.' if name == 'ex2_bf16' else ''}{t}"
    (ours,) = library.columns(spelling, (np.arange(65536, dtype=np.uint64),))
    theirs = recorded[name].astype(np.int64)
    apart = np.abs((ours & np.uint64(0xFFFF)).astype(np.int64) - theirs)
    assert (apart == 0).mean() > 0.99
    assert apart.max() <= 1


def test_quotients_are_those_of_the_hardware(
    library: LaneLibrary, recorded: dict[str, Array]
) -> None:
    count = len(recorded["div_approx"])
    numbers = np.arange(count, dtype=np.uint32)
    a, b = drawn(numbers), drawn(numbers + np.uint32(0x80000000))
    exact = (a.view(np.float32) / b.view(np.float32)).view(np.uint32)
    for name, spelling in (("div_approx", "div.approx.f32"), ("div_full", "div.full.f32")):
        (ours,) = library.columns(spelling, (a.astype(np.uint64), b.astype(np.uint64)))
        apart = np.abs(places(ours) - places(exact) - recorded[name])
        assert (apart == 0).mean() > 0.97
        assert apart.max() <= 2


def drawn(numbers: Array) -> Array:
    """The numbers that `benchmarks/special_functions.cu` divides."""
    x = numbers.copy()
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    exponent = np.uint32(96) + ((x >> np.uint32(23)) & np.uint32(63))
    return (x & np.uint32(0x807FFFFF)) | (exponent << np.uint32(23))
