"""Races in shared and global memory, and what only looks like one."""

import pytest
from runtime_driver import FAULT_EXIT, Run

from cuda_llm.outcomes import DataRace


def lines(race: object) -> set[int]:
    assert isinstance(race, DataRace), race
    assert race.spot is not None
    assert race.other is not None
    return {race.spot.line, race.other.line}


@pytest.mark.parametrize(
    ("scenario", "places"),
    [
        ("race_read_after_write", {30, 40}),
        ("race_read_pairs", {30, 40}),
        ("race_write_after_read", {30, 40}),
        ("race_write_after_write", {40}),
        ("race_atomic_then_read", {30, 70}),
        ("race_read_within_warp", {30, 40}),
        ("race_last_block_without_fence", {10, 20}),
        ("race_last_block_with_a_fence_of_its_own", {10, 20}),
        ("race_update_in_block_scope", {70}),
        ("race_read_before_an_addition", {10, 70}),
    ],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_a_missing_barrier_is_a_race_in_any_order(
    run: Run, scenario: str, places: set[int], seed: int
) -> None:
    ran = run(scenario, level=2, seed=seed)
    assert ran.status == FAULT_EXIT
    assert lines(ran.record.fault) == places


def test_a_read_that_comes_too_early_is_a_race_even_without_race_checks(run: Run) -> None:
    assert lines(run("race_read_after_write", level=0).record.fault) == {30, 40}


@pytest.mark.parametrize(
    "scenario",
    [
        "barrier_read_after_write",
        "barrier_read_pairs",
        "barrier_write_after_read",
        "barrier_write_after_write",
        "barrier_atomic_then_read",
        "read_own_word",
        "read_within_warp_that_met",
        "read_within_half_that_met",
        "last_block_behind_a_fence",
        "update_in_device_scope",
        "read_before_a_swap",
        "same_value_write_after_write",
        "neighbouring_bytes",
        "flag_spin",
        "named_barrier",
    ],
)
@pytest.mark.parametrize("seed", [0, 3])
def test_ordered_or_harmless_accesses_are_no_race(run: Run, scenario: str, seed: int) -> None:
    ran = run(scenario, level=2, seed=seed)
    assert ran.record.fault is None
    assert ran.status == 0, ran.errors


def test_races_are_only_looked_for_at_the_full_level(run: Run) -> None:
    assert run("race_write_after_write", level=1).record.fault is None
