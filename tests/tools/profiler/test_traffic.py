"""What each kind of access asks of the memory system."""

from dataclasses import replace

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.tables import InstructionSite, KernelTable
from cuda_llm.tools.profiler.traffic import (
    ATOMIC_LINE_CLK,
    Traffic,
    l2_slices,
    launch_traffic,
    site_traffic,
)

AMPERE = find_hardware("RTX 3090 Ti")
TURING = find_hardware("GTX 1660 SUPER")
COALESCED = SiteCounters(requests=10, lanes=320, sectors=40, l2_sectors=40, dram_sectors=40)
STRIDED = SiteCounters(requests=10, lanes=320, sectors=320, l2_sectors=40, dram_sectors=40)


def traffic(opcode: str, space: str, kind: str, *counts: SiteCounters) -> Traffic:
    """Traffic of one block with a site for each of `counts`."""
    site = InstructionSite(opcode=opcode, space=space, kind=kind, bytes=4, block=0, spot=None)
    account = LaunchCounters(
        kernel=0,
        grid=(1, 1, 1),
        block=(32, 1, 1),
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=1,
        block_warps=(),
        block_lanes=(),
        sites=counts,
    )
    return launch_traffic(account, KernelTable(symbol="k", sites=(site,) * len(counts)), AMPERE)


def test_a_coalesced_request_takes_one_clock_and_a_strided_one_eight() -> None:
    assert traffic("ld.global.f32", "global", "load", COALESCED).l1_clk == 10
    assert traffic("ld.global.f32", "global", "load", STRIDED).l1_clk == 80


def test_turing_needs_two_clocks_for_what_ampere_does_in_one() -> None:
    site = InstructionSite(
        opcode="ld.shared.f32", space="shared", kind="load", bytes=4, block=0, spot=None
    )
    count = SiteCounters(requests=10, lanes=320, wavefronts=320, ideal_wavefronts=10)
    on_ampere = site_traffic(site, count, AMPERE).shared_clk
    assert on_ampere == 320
    assert site_traffic(site, count, TURING).shared_clk == 2 * on_ampere


def test_a_load_finds_in_l1_what_its_block_has_loaded() -> None:
    assert traffic("ld.global.f32", "global", "load", STRIDED).l2_bytes == 40 * 32


@pytest.mark.parametrize("opcode", ["ld.global.cg.f32", "ld.volatile.global.f32"])
def test_a_load_that_goes_past_l1_asks_l2_for_every_sector(opcode: str) -> None:
    assert traffic(opcode, "global", "load", STRIDED).l2_bytes == 320 * 32


def test_a_store_is_written_through() -> None:
    moved = traffic("st.global.f32", "global", "store", STRIDED)
    assert moved.l2_bytes == 320 * 32
    assert moved.dram_bytes == 40 * 32


def test_a_slice_of_l2_takes_one_line_of_a_request_a_clock() -> None:
    whole_lines = replace(COALESCED, lines=10)
    scattered = replace(COALESCED, lines=40)
    unknown, full, half = (
        traffic("st.global.f32", "global", "store", one)
        for one in (COALESCED, whole_lines, scattered)
    )
    assert full.l2_clk == unknown.l2_clk == full.l2_bytes / AMPERE.model.l2_bytes_per_clk
    assert half.l2_clk == 2 * full.l2_clk


def test_atomics_on_one_address_take_turns() -> None:
    one = SiteCounters(requests=10, lanes=320, sectors=10, l2_sectors=1, dram_sectors=1, serial=320)
    clocks = traffic("atom.global.add.u32", "global", "atomic", one).atomic_clk
    assert clocks == pytest.approx(320 * ATOMIC_LINE_CLK)


def test_atomics_on_one_line_wait_for_it_at_whatever_address() -> None:
    """Eight bins of a histogram share a line of L2: one request to all of them passes once each."""
    bins = SiteCounters(requests=10, lanes=40, sectors=40, l2_sectors=4, dram_sectors=4, serial=10)
    clocks = traffic("atom.global.add.u32", "global", "atomic", bins).atomic_clk
    assert clocks == pytest.approx(40 * ATOMIC_LINE_CLK)


def test_atomics_on_many_lines_are_spread_over_the_slices() -> None:
    many = SiteCounters(
        requests=1000, lanes=32000, sectors=4000, l2_sectors=4000, dram_sectors=4000, serial=1000
    )
    clocks = traffic("atom.global.add.u32", "global", "atomic", many).atomic_clk
    assert clocks == pytest.approx(4000 / l2_slices(AMPERE))


def test_copies_of_an_atomic_share_what_the_first_one_touched() -> None:
    first = SiteCounters(
        requests=100, lanes=3200, sectors=2000, l2_sectors=32, dram_sectors=32, serial=200
    )
    again = SiteCounters(requests=100, lanes=3200, sectors=2000, serial=200)
    once = traffic("atom.global.add.u32", "global", "atomic", first).atomic_clk
    assert traffic("atom.global.add.u32", "global", "atomic", first, again).atomic_clk == 2 * once


def test_atomics_on_shared_memory_take_turns_within_a_warp_and_floats_retry() -> None:
    count = SiteCounters(requests=10, lanes=320, wavefronts=10, ideal_wavefronts=10, serial=320)
    integer = traffic("atom.shared.add.u32", "shared", "atomic", count)
    assert integer.shared_clk == 320
    assert integer.l2_bytes == 0
    assert traffic("atom.shared.add.f32", "shared", "atomic", count).shared_clk == 1920


def test_local_memory_asks_l2_for_what_l1_has_lost_and_constants_are_free() -> None:
    kept = replace(COALESCED, l2_sectors=0, dram_sectors=0)
    for opcode, kind in (("ld.local.f32", "load"), ("st.local.f32", "store")):
        local = traffic(opcode, "local", kind, kept)
        assert (local.l1_clk, local.l2_bytes) == (10, 0)
        lost = traffic(opcode, "local", kind, replace(kept, l2_sectors=30))
        assert lost.l2_bytes == 30 * 32
    assert traffic("ld.const.f32", "const", "load", COALESCED) == Traffic()


def test_l1_looks_up_a_line_a_clock_however_little_of_it_is_wanted() -> None:
    """An H200 takes 32 clocks for a load whose lanes touch a line each, 8 for a line of four."""
    rows = replace(COALESCED, sectors=320, lines=320)
    assert traffic("ld.global.f32", "global", "load", rows).l1_clk == 320
    sectors = replace(COALESCED, sectors=320, lines=80)
    assert traffic("ld.global.f32", "global", "load", sectors).l1_clk == 80


def test_a_generic_access_is_what_its_counters_say() -> None:
    assert traffic("ld.f32", "generic", "load", COALESCED).l2_bytes == 40 * 32
    on_shared = SiteCounters(requests=10, lanes=320, wavefronts=20, ideal_wavefronts=10)
    moved = traffic("ld.f32", "generic", "load", on_shared)
    assert (moved.shared_clk, moved.l2_bytes) == (20, 0)
