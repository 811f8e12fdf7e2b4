"""Launches of which some blocks stand for all."""

import numpy as np
import pytest
from runtime_driver import FAULT_EXIT, Ran, Run

from cuda_llm.outcomes import DependentLaunch, UninitialisedRead
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import LaunchCounters

SAMPLE, SEED = 3, 7
BLOCKS, WARPS = 4000, 2
FEW_BLOCKS, BLOCK_BYTES = 20, 256
OWN_LOAD, STORE, SHARED_LOAD = 0, 1, 6
PAGE_BYTES = 4096
FIRST_PAGES = 8192 + 4096 + 8192
"""Where the buffer lies whose pages are filled, from the start of the arena."""


def sampled(ran: Ran) -> LaunchCounters:
    assert ran.status == 0, ran.record.fault
    (only,) = ran.record.accounts
    return only


def test_few_blocks_are_executed_and_counted_for_all(run: Run) -> None:
    some, every = (
        sampled(run("many_blocks_copy", level=level, seed=SEED)) for level in (SAMPLE, 1)
    )
    assert 0 < some.sampled_blocks < BLOCKS / 10
    assert every.sampled_blocks == 0
    for site in (OWN_LOAD, STORE, SHARED_LOAD):
        counted, exact = some.sites[site], every.sites[site]
        assert counted.requests == exact.requests == BLOCKS * WARPS
        assert counted.sectors == exact.sectors
        assert counted.l2_sectors == exact.l2_sectors
    assert some.block_warps[0] == every.block_warps[0]
    assert some.path_clk == pytest.approx(every.path_clk, rel=0.1)


@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize(("name", "busy"), [("mostly_busy", 2857), ("few_busy", 150)])
def test_blocks_of_unlike_work_are_counted_as_often_as_there_are_of_them(
    run: Run, name: str, busy: int, seed: int
) -> None:
    busy_loads, idle_loads = 4000, 200
    exact = WARPS * (busy * busy_loads + (BLOCKS - busy) * idle_loads)
    some = sampled(run(f"many_blocks_{name}", level=SAMPLE, seed=seed))
    assert some.sampled_blocks < 30
    assert some.sites[OWN_LOAD].requests == pytest.approx(exact, rel=0.015)
    assert some.sites[STORE].requests == pytest.approx(BLOCKS * WARPS, rel=1e-3)
    assert 0 < some.spread < 0.05


def test_what_blocks_share_is_not_brought_from_dram_by_each(run: Run) -> None:
    some, every = (
        sampled(run("many_blocks_copy", level=level, seed=SEED)) for level in (SAMPLE, 1)
    )
    assert some.sites[OWN_LOAD].dram_sectors == every.sites[OWN_LOAD].dram_sectors
    assert every.sites[SHARED_LOAD].dram_sectors == 8
    assert some.sites[SHARED_LOAD].dram_sectors <= 8 * 10


def test_other_seeds_execute_other_blocks(run: Run) -> None:
    pool = b"\1" * 2 * PAGE_BYTES
    once, again = (
        np.flatnonzero(
            run("many_blocks_copy_pages", level=SAMPLE, seed=seed, buffer=pool).arena[FIRST_PAGES:]
        )
        for seed in (2, 3)
    )
    assert once.size
    assert not np.array_equal(once, again)


@pytest.mark.parametrize("seed", range(6))
def test_where_all_blocks_are_affordable_each_is_executed_once(run: Run, seed: int) -> None:
    pool = b"\1" * 2 * PAGE_BYTES
    ran = run("few_blocks_copy_pages", level=SAMPLE, seed=seed, buffer=pool)
    only = sampled(ran)
    assert only.sampled_blocks == 0
    assert only.sites[STORE].requests == FEW_BLOCKS * WARPS
    ones = np.flatnonzero(ran.arena == 1)
    output = np.split(ones, np.flatnonzero(np.diff(ones) > 1) + 1)[-1]
    assert len(output) == FEW_BLOCKS * BLOCK_BYTES


def test_a_page_that_is_touched_has_the_contents_of_one_of_the_pool(run: Run) -> None:
    pages = [bytes([number]) * PAGE_BYTES for number in (1, 2)]
    ran = run("many_blocks_copy_pages", level=1, buffer=b"".join(pages))
    first = -(-FIRST_PAGES // PAGE_BYTES) * PAGE_BYTES
    seen = {
        ran.arena[at : at + PAGE_BYTES].tobytes()
        for at in range(first, first + 64 * PAGE_BYTES, PAGE_BYTES)
    }
    assert seen == set(pages)


def test_a_value_of_a_block_left_out_is_no_fault_where_nothing_follows_from_it(run: Run) -> None:
    ran = run("many_blocks_read_one", level=SAMPLE, seed=SEED)
    assert sampled(ran).sampled_blocks
    whole = run("many_blocks_read_one", level=1)
    assert whole.status == FAULT_EXIT
    assert isinstance(whole.record.fault, UninitialisedRead)


def test_a_launch_that_goes_by_what_other_blocks_wrote_is_not_sampled(run: Run) -> None:
    ran = run("many_blocks_go_by_one", level=SAMPLE, seed=SEED)
    assert ran.status == FAULT_EXIT
    assert ran.record.fault is None
    spot = SourceSpot(file="kernel.cu", line=10)
    assert ran.record.dependent == DependentLaunch(kernel="kernel", spot=spot)
