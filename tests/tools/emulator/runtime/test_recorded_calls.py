"""Warp collectives and atomics against what an H200 gave for the same calls."""

from pathlib import Path

import numpy as np
import pytest
from device_calls import Array, run
from recorded_calls import ATOMICS, atomic_table, collective_table

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded"


def recorded(name: str) -> Array:
    """What the hardware wrote."""
    with np.load(RECORDED / "cuda_calls_h200.npz") as arrays:
        return arrays[name]  # type: ignore[no-any-return]


def emulated(name: str, table: Array, rows: int) -> Array:
    """What the emulated device writes."""
    buffers = {"table": table, "out": np.zeros_like(recorded(name))}
    source = (RECORDED / f"{name}.cu").read_text()
    called = run(source, buffers, ["out"], rows, device="H200")
    assert called.report
    return called.outputs["out"]


def test_collectives_give_what_the_hardware_gave() -> None:
    expected = recorded("collectives")
    found = emulated("collectives", collective_table(), len(expected))
    assert np.argwhere(found != expected).tolist() == []


@pytest.fixture(scope="module")
def atomics() -> Array:
    return emulated("atomics", atomic_table(), 0)


@pytest.mark.parametrize("name", ATOMICS)
def test_atomics_give_what_the_hardware_gave(atomics: Array, name: str) -> None:
    index = ATOMICS.index(name)
    found, expected = atomics[index], recorded("atomics")[index]
    same = found == expected
    if name == "add.f64":
        # PTX leaves the payload of a NaN open.
        same |= np.isnan(found.view(np.float64)) & np.isnan(expected.view(np.float64))
    assert np.argwhere(~same).tolist() == []
