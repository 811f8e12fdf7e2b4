"""Barriers, collectives, fairness and the order of blocks."""

import pytest
from runtime_driver import FAULT_EXIT, Run

from cuda_llm.outcomes import DeviceAssert, InvalidSync, LaunchFailed, TimedOut


@pytest.mark.parametrize(
    ("scenario", "kind", "line"),
    [
        ("barrier_in_both_branches", "divergent-barrier", 40),
        ("crossed_barriers", "deadlock", 50),
        ("collective_in_both_branches", "partial-mask", 60),
    ],
)
def test_a_synchronisation_that_not_all_reach_is_found(
    run: Run, scenario: str, kind: str, line: int
) -> None:
    ran = run(scenario)
    assert ran.status == FAULT_EXIT
    fault = ran.record.fault
    assert isinstance(fault, InvalidSync)
    assert fault.kind == kind
    assert fault.spot is not None
    assert fault.spot.line == line


@pytest.mark.parametrize(
    "scenario",
    [
        "one_barrier",
        "exit_before_the_barrier",
        "exit_while_others_wait",
        "half_a_warp_late",
        "collective_while_others_exit",
        "whole_collective",
        "warp_sync_in_both_branches",
    ],
)
@pytest.mark.parametrize("seed", [0, 5])
def test_an_honest_synchronisation_passes(run: Run, scenario: str, seed: int) -> None:
    ran = run(scenario, seed=seed, level=2)
    assert ran.record.fault is None
    assert ran.status == 0, ran.errors


def test_a_reducing_barrier_counts_the_whole_block(run: Run) -> None:
    assert run("barrier_reduction").words(0, 100) == [50] * 100


def test_an_endless_loop_is_found_where_it_loops(run: Run) -> None:
    ran = run("endless_loop", fuel=100_000)
    assert ran.status == FAULT_EXIT
    fault = ran.record.fault
    assert isinstance(fault, TimedOut)
    assert fault.stage == "kernel"
    assert fault.limit_s == 1.5
    assert fault.spot is not None
    assert fault.spot.line == 105


def test_a_trap_is_an_assertion(run: Run) -> None:
    fault = run("trap").record.fault
    assert isinstance(fault, DeviceAssert)
    assert fault.spot is not None
    assert fault.spot.line == 70


@pytest.mark.parametrize("seed", [0, 7])
def test_a_spin_lock_lets_every_lane_through(run: Run, seed: int) -> None:
    ran = run("spin_lock", seed=seed, fuel=50_000_000)
    assert ran.status == 0, ran.record.fault
    assert ran.words(256, 1) == [256]


@pytest.mark.parametrize("seed", [0, 3])
def test_a_scan_that_takes_tickets_finishes_in_any_order(run: Run, seed: int) -> None:
    ran = run("chain_by_ticket", seed=seed, fuel=50_000_000)
    assert ran.status == 0, ran.record.fault
    assert ran.words(0, 300) == list(range(1, 301))


def test_a_scan_by_block_number_hangs_where_later_blocks_come_first(run: Run) -> None:
    """64 blocks are resident; in descending order the first of the chain never gets in."""
    assert run("chain_by_number", seed=0, fuel=1_000_000).status == 0
    ran = run("chain_by_number", seed=1, fuel=1_000_000)
    assert isinstance(ran.record.fault, TimedOut)


@pytest.mark.parametrize("seed", [0, 9])
def test_grid_sync_waits_for_every_block(run: Run, seed: int) -> None:
    ran = run("grid_sync", seed=seed, fuel=50_000_000)
    assert ran.status == 0, ran.record.fault
    assert ran.words(0, 24 * 64) == [24] * (24 * 64)


def test_blocks_run_in_the_order_of_the_seed(run: Run) -> None:
    ascending = run("block_order", seed=0).words(0, 100)
    descending = run("block_order", seed=1).words(0, 100)
    shuffled = run("block_order", seed=42).words(0, 100)
    assert ascending == list(range(100))
    assert descending == ascending[::-1]
    assert sorted(shuffled) == ascending
    assert shuffled not in (ascending, descending)
    assert shuffled == run("block_order", seed=42).words(0, 100)


@pytest.mark.parametrize(
    ("scenario", "error"),
    [
        ("cooperative_too_large", "cudaErrorCooperativeLaunchTooLarge"),
        ("too_many_threads", "cudaErrorInvalidConfiguration"),
        ("too_much_shared_memory", "cudaErrorInvalidValue"),
        ("too_many_registers", "cudaErrorLaunchOutOfResources"),
    ],
)
def test_a_launch_that_cuda_refuses_is_refused(run: Run, scenario: str, error: str) -> None:
    ran = run(scenario)
    assert ran.status == 0, ran.record.fault
    assert isinstance(ran.record.refused, LaunchFailed)
    assert ran.record.refused.error == error


def test_opting_in_raises_the_limit_of_shared_memory(run: Run) -> None:
    ran = run("raised_shared_memory")
    assert ran.status == 0
    assert ran.record.refused is None
