"""Counters of launches whose traffic can be worked out by hand."""

import pytest
from runtime_driver import Ran, Run

from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters

LOAD, STORE_SHARED, ATOMIC = 0, 3, 6


def account(ran: Ran) -> LaunchCounters:
    assert ran.status == 0, ran.record.fault
    (only,) = ran.record.accounts
    return only


def site(ran: Ran, number: int) -> SiteCounters:
    return account(ran).sites[number]


@pytest.mark.parametrize(
    ("scenario", "requests", "lanes", "sectors"),
    [
        ("coalesced", 4, 128, 16),
        ("stride_8", 4, 128, 32),
        ("stride_32", 4, 128, 128),
        ("broadcast", 4, 128, 4),
        ("tail", 2, 40, 5),
        ("float4", 1, 32, 16),
    ],
)
def test_a_warp_counts_the_sectors_it_touches(
    run: Run, scenario: str, requests: int, lanes: int, sectors: int
) -> None:
    counted = site(run(scenario, level=1), LOAD)
    assert (counted.requests, counted.lanes, counted.sectors) == (requests, lanes, sectors)


@pytest.mark.parametrize(
    ("scenario", "wavefronts", "ideal", "ways"),
    [
        ("row", 1, 1, 1),
        ("two_ways", 2, 1, 2),
        ("column_unpadded", 32, 1, 32),
        ("column_padded", 1, 1, 1),
        ("shared_float4", 4, 4, 1),
        ("shared_float4_broadcast", 4, 4, 1),
    ],
)
def test_a_shared_access_takes_as_many_passes_as_its_busiest_bank(
    run: Run, scenario: str, wavefronts: int, ideal: int, ways: int
) -> None:
    counted = site(run(scenario, level=1), STORE_SHARED)
    assert counted.wavefronts == wavefronts
    assert counted.ideal_wavefronts == ideal
    assert counted.worst_ways == ways


def test_atomics_on_one_address_take_turns(run: Run) -> None:
    counted = site(run("atomics_on_five_words", level=1), ATOMIC)
    assert counted.serial == 7
    assert counted.sectors == 1


def test_each_sector_is_compulsory_traffic_once(run: Run) -> None:
    ran = run("stride_8", level=1)
    assert site(ran, LOAD).l2_sectors == 32
    assert site(ran, LOAD).dram_sectors == 32
    assert account(ran).footprint_bytes == 1024


def test_blocks_that_read_the_same_bytes_ask_l2_again_but_not_dram(run: Run) -> None:
    ran = run("rereads", level=1)
    assert site(ran, LOAD).sectors == 8000
    assert site(ran, LOAD).l2_sectors == 8000
    assert site(ran, LOAD).dram_sectors == 8
    assert account(ran).footprint_bytes == 256


@pytest.mark.parametrize("level", [0, 2])
def test_nothing_is_counted_at_other_levels(run: Run, level: int) -> None:
    ran = run("strided", level=level)
    assert ran.record.accounts == ()
    assert ran.record.launches == 1


def test_basic_blocks_count_warps_and_lanes(run: Run) -> None:
    counted = account(run("tail", level=1))
    assert counted.block_warps[0] == 2
    assert counted.block_lanes[0] == 40
    assert counted.grid == (1, 1, 1)
    assert counted.block == (40, 1, 1)


def test_barriers_count_a_warp_once(run: Run) -> None:
    assert account(run("one_barrier", level=1)).barriers == 2
