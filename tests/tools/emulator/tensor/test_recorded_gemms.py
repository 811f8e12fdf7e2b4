"""GEMMs on warps, sums in clusters, tiles and base offsets: the emulated device and NumPy against
what an H200 gave for the same calls, and against each other where nothing is recorded."""

from functools import cache

import numpy as np
import pytest
from corpus_sample import sample
from device_calls import run
from recorded_gemms import NOT_RECORDED, RECORDED, REFUSED, Array, is_recorded, programs
from tile_cases import PARTS

from cuda_llm.outcomes import IllegalAccess, Misaligned
from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.verdict_wording import describe

PROGRAMS = programs()
EMULATED = sample((name for name, one in PROGRAMS.items() if one.emulated), every=12)
OF_THE_HARDWARE = [name for name in PROGRAMS if is_recorded(name)]


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
    """What the H200 left, by program."""
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


@pytest.mark.parametrize("name", [name for name in EMULATED if is_recorded(name)])
def test_every_recorded_program_gives_what_the_hardware_gave(name: str) -> None:
    assert unlike(emulated(name), recorded()[name]) == []


@pytest.mark.parametrize("name", OF_THE_HARDWARE)
def test_numpy_makes_of_every_recorded_program_what_the_hardware_made(name: str) -> None:
    assert unlike(PROGRAMS[name].expected().ravel(), recorded()[name]) == []


def test_what_is_not_recorded_is_named_with_its_reason() -> None:
    assert sorted(recorded()) == sorted(OF_THE_HARDWARE)
    missing = [name for name in PROGRAMS if not is_recorded(name)]
    assert {name.split()[-1] for name in missing} == set(NOT_RECORDED)


def test_the_hardware_refused_what_begins_between_units_or_is_written_from_before_the_tensor() -> (
    None
):
    illegal = {
        name.removesuffix(" before")
        for name, cases in PARTS.items()
        if any(case.at[0] * case.width % 16 or case.is_before for case in cases)
    }
    assert illegal == REFUSED


def refused(part: str) -> object:
    """What the emulated device says of a program."""
    one = PROGRAMS[part]
    values = {"given0": one.given[0], "left": one.left}
    return run(one.source, values, ["left"], *one.numbers, device="H200").outcome


def test_the_emulated_device_refuses_a_tile_that_begins_between_multiples_of_16_bytes() -> None:
    outcome = refused("unaligned")
    assert isinstance(outcome, Misaligned), outcome
    assert outcome.access is not None
    assert (outcome.access.space, outcome.access.bytes) == ("global", 16)


@pytest.mark.parametrize("part", [name for name in PARTS if name.endswith(" before")])
def test_the_emulated_device_refuses_a_tile_that_is_written_from_before_the_tensor(
    part: str,
) -> None:
    outcome = refused(part)
    assert isinstance(outcome, IllegalAccess), outcome
    assert outcome.access is not None
    assert outcome.access.descriptor == "negative-start"
    assert "a tile that is written begins at a negative coordinate" in " ".join(describe(outcome))
