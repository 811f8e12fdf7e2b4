"""mbarriers, bulk copies and clusters: what is waited for, and what is missing."""

import numpy as np
import pytest
from runtime_driver import FAULT_EXIT, Run

from cuda_llm.outcomes import (
    DataRace,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    UninitialisedRead,
    Verdict,
)

LEVELS = (1, 2)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", [0, 7])
def test_a_bulk_copy_is_there_when_its_phase_is_complete(run: Run, level: int, seed: int) -> None:
    ran = run("bulk_honest", level=level, seed=seed)
    assert ran.status == 0, ran.record.fault


@pytest.mark.parametrize("level", LEVELS)
def test_a_bulk_copy_out_of_shared_memory_arrives(run: Run, level: int) -> None:
    ran = run("bulk_store_honest", level=level)
    assert ran.status == 0, ran.record.fault
    assert ran.words(0, 64) == [100 + i for i in range(64)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", [0, 7])
def test_blocks_of_a_cluster_read_each_others_memory(run: Run, level: int, seed: int) -> None:
    ran = run("cluster_honest", level=level, seed=seed)
    assert ran.status == 0, ran.record.fault
    neighbours = np.repeat([1, 0, 3, 2], 32) * 1000 + np.tile(np.arange(32), 4)
    assert ran.words(0, 128) == neighbours.tolist()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("scenario", "column"),
    [("tile_inside", 4), ("tile_over_the_edge", 32)],
)
def test_a_swizzled_tile_goes_there_and_back(
    run: Run, scenario: str, column: int, level: int
) -> None:
    ran = run(scenario, level=level)
    assert ran.status == 0, ran.record.fault
    found = np.array(ran.words(0, 6 * 48)).reshape(6, 48)
    moved = np.zeros((6, 48), int)
    inside = slice(column, min(column + 32, 48))
    moved[1:5, inside] = (1000 + np.arange(6 * 48).reshape(6, 48))[1:5, inside]
    assert found.tolist() == moved.tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_an_arrival_waits_for_the_copies_before_it(run: Run, level: int) -> None:
    assert run("arrives_with_its_copies", level=level, seed=5).status == 0


def test_a_tile_is_not_stored_from_before_the_edge(run: Run) -> None:
    fault = run("tile_before_the_edge").record.fault
    assert isinstance(fault, IllegalAccess), fault
    assert fault.access is not None
    assert (fault.access.kind, fault.access.descriptor) == ("write", "negative-start")


def test_what_is_no_tensor_map_is_refused_at_its_line(run: Run) -> None:
    fault = run("tile_without_a_map").record.fault
    assert isinstance(fault, IllegalAccess), fault
    assert fault.spot is not None
    assert fault.spot.line == 30


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("scenario", "kind", "line"),
    [
        ("bulk_odd_source", Misaligned, 30),
        ("bulk_odd_size", Misaligned, 30),
        ("bulk_past_source", IllegalAccess, 30),
        ("bulk_past_shared", IllegalAccess, 30),
        ("bulk_never_made", UninitialisedRead, 40),
        ("bulk_zero_count", InvalidSync, 10),
        ("bulk_more_bytes", InvalidSync, 40),
        ("bulk_twice", DataRace, 30),
        ("cluster_wait_alone", InvalidSync, 60),
        ("cluster_no_such_block", IllegalAccess, 30),
    ],
)
def test_misuse_is_found_at_its_line(
    run: Run, scenario: str, kind: type[Verdict], line: int, level: int
) -> None:
    ran = run(scenario, level=level)
    assert ran.status == FAULT_EXIT
    fault = ran.record.fault
    assert isinstance(fault, kind), fault
    spot = getattr(fault, "spot", None)
    assert spot is not None
    assert spot.line == line


def test_a_read_before_the_wait_is_a_fault_at_every_level(run: Run) -> None:
    for level in LEVELS:
        fault = run("bulk_no_wait", level=level).record.fault
        assert isinstance(fault, UninitialisedRead | DataRace), fault


def test_what_never_arrives_is_told_in_bytes(run: Run) -> None:
    fault = run("bulk_more_bytes").record.fault
    assert isinstance(fault, InvalidSync)
    assert (fault.reason, fault.missing_arrivals, fault.missing_bytes) == (
        "phase-incomplete",
        0,
        32,
    )


@pytest.mark.parametrize(
    ("scenario", "places", "unfenced"),
    [
        ("bulk_store_unfenced", {40, 60}, True),
        ("bulk_store_overwritten", {60, 70}, False),
    ],
)
def test_bulk_stores_race_with_what_nothing_orders(
    run: Run, scenario: str, places: set[int], unfenced: bool
) -> None:
    race = run(scenario, level=2).record.fault
    assert isinstance(race, DataRace), race
    assert race.spot is not None
    assert race.other is not None
    assert {race.spot.line, race.other.line} == places
    assert race.unfenced is unfenced


def test_a_block_that_leaves_early_takes_its_memory_along(run: Run) -> None:
    fault = run("cluster_left_early", seed=0).record.fault
    assert isinstance(fault, IllegalAccess), fault
    assert fault.access is not None
    assert fault.access.location is not None
    assert fault.access.location.freed


def test_a_relaxed_arrival_behind_a_fence_orders_what_was_before_the_fence(run: Run) -> None:
    ran = run("cluster_fenced_arrival", level=2)
    assert ran.status == 0, ran.record.fault


@pytest.mark.parametrize("scenario", ["cluster_unordered", "cluster_relaxed_arrival"])
def test_blocks_of_a_cluster_race_without_its_barrier(run: Run, scenario: str) -> None:
    fault = run(scenario, level=2).record.fault
    assert isinstance(fault, DataRace | UninitialisedRead), fault
