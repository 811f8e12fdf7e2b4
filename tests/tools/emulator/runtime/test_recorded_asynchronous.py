"""Tiles, bulk reductions, mbarriers and places in clusters: against NumPy, and against what an H200
gave for the same calls."""

from pathlib import Path

import numpy as np
import pytest
from asynchronous_oracle import CASES, REDUCTIONS, SOURCE, TILES, WORDS, expected, table
from device_calls import Array, run

from cuda_llm.tools.device import CallOptions, Level

RECORD = Path(__file__).parents[3] / "fixtures" / "recorded" / "asynchronous_h200.npz"
NAMES = [
    *(f"tile {numbers}" for numbers in TILES),
    *REDUCTIONS,
    "states of an mbarrier",
    "places in clusters",
]


@pytest.fixture(scope="module", params=[Level.CHECK, Level.FULL])
def emulated(request: pytest.FixtureRequest) -> Array:
    buffers = {"table": table(), "out": np.zeros((CASES, WORDS), np.uint32)}
    called = run(
        SOURCE, buffers, ["out"], 0, device="H200", options=CallOptions(level=request.param)
    )
    assert called.report
    return called.outputs["out"]


def differing(found: Array, wanted: Array) -> list[str]:
    return [
        f"{name}: {np.argwhere(a != b).ravel()[:4]}"
        for name, a, b in zip(NAMES, found, wanted, strict=True)
        if (a != b).any()
    ]


def test_every_case_gives_what_numpy_makes_of_it(emulated: Array) -> None:
    assert len(TILES) > 50
    assert len(REDUCTIONS) > 20
    assert differing(emulated, expected()) == []


def test_every_case_gives_what_the_hardware_gave(emulated: Array) -> None:
    with np.load(RECORD) as arrays:
        assert differing(emulated, arrays["asynchronous"]) == []
