"""From some blocks of a launch to all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.profiler.counters import LaunchCounters, Sharing, SiteCounters, scale_up

L2_BYTES = 1 << 20
UNSHARED = Sharing(in_block=10.0, in_wave=10.0, again=0.0)


def account(site: SiteCounters, **facts: object) -> LaunchCounters:
    known: dict[str, object] = {
        "kernel": 0,
        "grid": (100, 1, 1),
        "block": (32, 1, 1),
        "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0,
        "cooperative": False,
        "blocks_total": 100,
        "block_warps": (4.0,),
        "block_lanes": (128.0,),
        "sites": (site,),
    }
    return LaunchCounters(**(known | facts))  # type: ignore[arg-type]


def scaled(
    site: SiteCounters,
    share: Sharing = UNSHARED,
    *,
    wave_blocks: int = 10,
    shared_line: float = 0.0,
    allocated_bytes: int = 1 << 40,
    **facts: object,
) -> LaunchCounters:
    return scale_up(
        account(site, **facts),
        [share],
        counted_blocks=4,
        wave_blocks=wave_blocks,
        shared_line=shared_line,
        allocated_bytes=allocated_bytes,
        l2_bytes=L2_BYTES,
    )


def test_counts_grow_with_the_grid() -> None:
    all_blocks = scaled(
        SiteCounters(requests=8, lanes=256, sectors=32, l2_sectors=32), barriers=2.0
    )
    (site,) = all_blocks.sites
    assert (site.requests, site.lanes, site.sectors, site.l2_sectors) == (200, 6400, 800, 800)
    assert all_blocks.block_warps == (100,)
    assert all_blocks.barriers == 50
    assert all_blocks.sampled_blocks == 4


def test_what_no_block_shares_comes_from_dram_whole() -> None:
    assert scaled(SiteCounters(l2_sectors=32)).sites[0].dram_sectors == 800


def test_what_a_wave_shares_comes_from_dram_once_a_wave() -> None:
    share = Sharing(in_block=10.0, in_wave=1.0, again=0.0)
    assert scaled(SiteCounters(l2_sectors=32), share).sites[0].dram_sectors == 80


@pytest.mark.parametrize(
    ("wave_bytes", "part"), [(0.1, 0.0), (0.5, 0.0), (1.0, 0.5), (1.5, 1.0), (10.0, 1.0)]
)
def test_what_the_wave_before_had_comes_again_where_l2_is_too_small(
    wave_bytes: float, part: float
) -> None:
    share = Sharing(in_block=10.0, in_wave=10.0, again=10.0)
    sectors_of_block = wave_bytes * L2_BYTES / 32 / 10
    (site,) = scaled(SiteCounters(l2_sectors=4 * sectors_of_block), share).sites
    assert site.dram_sectors == pytest.approx(part * site.l2_sectors)


def test_buffers_that_fit_into_l2_come_from_dram_once() -> None:
    (site,) = scaled(SiteCounters(l2_sectors=1 << 20), allocated_bytes=L2_BYTES // 2).sites
    assert site.dram_sectors * 32 == pytest.approx(L2_BYTES // 2)


def test_a_line_of_atomics_grows_with_the_grid_only_where_blocks_share_it() -> None:
    site = SiteCounters(requests=4)
    assert scaled(site, worst_line=7.0).worst_line == 7
    assert scaled(site, worst_line=7.0, shared_line=8.0).worst_line == 200


@given(
    sectors=st.floats(0, 1e9),
    in_block=st.floats(1, 1e6),
    new=st.floats(0, 1),
    again=st.floats(0, 1),
    allocated=st.integers(1, 1 << 34),
)
def test_dram_moves_no_more_than_l2_is_asked_for(
    sectors: float, in_block: float, new: float, again: float, allocated: int
) -> None:
    share = Sharing(in_block=in_block, in_wave=in_block * new, again=in_block * new * again)
    (site,) = scaled(SiteCounters(l2_sectors=sectors), share, allocated_bytes=allocated).sites
    assert -1e-6 <= site.dram_sectors <= site.l2_sectors * (1 + 1e-9)
