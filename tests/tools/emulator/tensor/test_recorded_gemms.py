"""GEMMs on warps, sums in clusters, tiles and base offsets: the emulated device against NumPy, and
against what an H200 gave for the same calls."""

from functools import cache

import numpy as np
import pytest
from device_calls import run
from recorded_gemms import RECORDED, Array, programs

from cuda_llm.tools.device import CallOptions, Level

PROGRAMS = programs()
EMULATED = [name for name, one in PROGRAMS.items() if one.emulated]


@cache
def emulated(name: str) -> Array:
    """What a program leaves on the emulated H200."""
    one = PROGRAMS[name]
    values = {f"given{n}": given for n, given in enumerate(one.given)} | {"left": one.left}
    options = CallOptions(level=Level.FULL, limit_s=60.0)
    called = run(one.source, values, ["left"], *one.numbers, device="H200", options=options)
    assert called.report
    return called.outputs["left"].ravel()


@cache
def recorded() -> dict[str, Array]:
    """What the H200 left, by program; nothing before it is recorded."""
    if not RECORDED.exists():
        return {}
    with np.load(RECORDED) as arrays:
        return {name: arrays[name].ravel() for name in arrays}


def unlike(found: Array, wanted: Array) -> list[str]:
    """Return the words that differ, a few of them."""
    places = np.flatnonzero(found != wanted)
    told = [f"{at}: {int(found[at]):#x}, not {int(wanted[at]):#x}" for at in places[:3]]
    return [f"{len(places)} words", *told] if told else []


@pytest.mark.parametrize("name", EMULATED)
def test_every_program_gives_what_numpy_makes_of_it(name: str) -> None:
    found = emulated(name)
    assert (found != PROGRAMS[name].left.ravel()).any()
    assert unlike(found, PROGRAMS[name].expected().ravel()) == []


@pytest.mark.parametrize("name", EMULATED)
def test_every_program_gives_what_the_hardware_gave(name: str) -> None:
    if not RECORDED.exists():
        assert recorded() == {}, f"{RECORDED.name} is not recorded: NumPy alone is compared"
        return
    assert unlike(emulated(name), recorded()[name]) == []
