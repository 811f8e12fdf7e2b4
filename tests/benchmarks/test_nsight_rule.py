"""Which bottleneck counters show: on recorded pages of Nsight Compute, and case by case."""

from pathlib import Path

import pytest
from nsight_rule import DURATION, STALLED, Metrics, show_bottleneck

from cuda_llm.tools.cuda.ncu import parse_table

RECORDED = Path(__file__).parents[1] / "fixtures/counters/ncu"
ELAPSED = ".avg.pct_of_peak_sustained_elapsed"


def launch(**more: float) -> Metrics:
    """Of 50 us, all SMs at work, warps waiting for global memory."""
    return {
        DURATION: 50e-6,
        "sm__cycles_active.avg": 80e3,
        "sm__cycles_active.max": 81e3,
        "sm__cycles_elapsed.max": 83e3,
        STALLED.format("long_scoreboard"): 6.0,
        STALLED.format("wait"): 1.0,
        **more,
    }


def test_a_scattered_transpose_is_bound_by_a_memory_whose_bytes_are_not_used() -> None:
    shown = show_bottleneck(
        [one.metrics for one in parse_table((RECORDED / "transpose.csv").read_text())]
    )
    assert "uncoalesced_global" in shown.terms


@pytest.mark.parametrize(
    ("metric", "bottleneck", "code"),
    [
        ("dram__throughput", "dram", "dram_bandwidth"),
        ("lts__t_sectors", "l2", "l2_bandwidth"),
        ("l1tex__throughput", "l1", "l1_bandwidth"),
        ("smsp__issue_active", "issue", "issue"),
        ("sm__pipe_fma_cycles_active", "fma", "fp32"),
        ("sm__inst_executed_pipe_xu", "xu", "sfu"),
    ],
)
def test_the_unit_that_is_busiest_is_the_bottleneck(
    metric: str, bottleneck: str, code: str
) -> None:
    shown = show_bottleneck([launch(**{metric + ELAPSED: 0.8, "sm__inst_issued" + ELAPSED: 0.3})])
    assert shown.bottleneck == bottleneck
    assert code in shown.strict
    assert shown.balanced == ()


def test_units_within_ten_points_of_the_busiest_are_in_balance_with_it() -> None:
    shown = show_bottleneck(
        [launch(**{"dram__throughput" + ELAPSED: 0.8, "lts__t_sectors" + ELAPSED: 0.72})]
    )
    assert (shown.bottleneck, shown.balanced) == ("dram", ("l2",))
    assert shown.strict == {"dram_bandwidth"}
    assert shown.terms == {"dram_bandwidth", "l2_bandwidth"}


def test_where_no_unit_is_busy_it_is_latency_with_the_reason_for_which_warps_stall() -> None:
    shown = show_bottleneck([launch(**{"dram__throughput" + ELAPSED: 0.55})])
    assert (shown.bottleneck, shown.stall) == ("latency", "long_scoreboard")
    assert shown.terms == {"latency"}


def test_sms_without_warps_are_a_tail() -> None:
    shown = show_bottleneck([launch(**{"sm__cycles_active.avg": 40e3})])
    assert shown.terms == {"tail"}


def test_a_kernel_that_hardly_takes_longer_than_its_start_is_bound_by_the_launch() -> None:
    short = launch(**{DURATION: 3e-6, "dram__throughput" + ELAPSED: 0.7})
    assert show_bottleneck([short]).terms == {"launch_overhead"}
    assert show_bottleneck([short, launch()]).bottleneck == "latency"


def test_the_launch_that_takes_longest_decides() -> None:
    first = launch(**{"dram__throughput" + ELAPSED: 0.9})
    second = launch(**{DURATION: 90e-6, "lts__t_sectors" + ELAPSED: 0.9})
    assert show_bottleneck([first, second]).bottleneck == "l2"


SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"


@pytest.mark.parametrize(
    ("counted", "code"),
    [
        (
            {
                "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 320.0,
                "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct": 0.2,
            },
            "uncoalesced_global",
        ),
        (
            {
                "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum": 320.0,
                "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": 10.0,
            },
            "atomic_contention",
        ),
        ({"l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": 320.0}, "local_memory"),
        ({"smsp__thread_inst_executed_per_inst_executed.ratio": 8.0}, "divergence"),
        ({"sm__maximum_warps_per_active_cycle_pct": 0.25}, "low_occupancy"),
    ],
)
def test_a_waste_that_is_counted_is_the_cause_of_waiting(
    counted: dict[str, float], code: str
) -> None:
    assert show_bottleneck([launch(**counted)]).causes == (code,)


def test_conflicts_are_the_cause_of_a_busy_shared_memory_alone() -> None:
    conflicts = {
        f"{SHARED}.sum": 100.0,
        "l1tex__data_pipe_lsu_wavefronts.sum": 120.0,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 60.0,
    }
    busy = show_bottleneck([launch(**conflicts, **{"l1tex__throughput" + ELAPSED: 0.9})])
    assert busy.terms == {"shared_bandwidth", "bank_conflicts"}
    assert show_bottleneck([launch(**conflicts)]).terms == {"latency"}


def test_l2_is_read_from_what_memory_throughput_is_made_of_but_was_not_meant_to_be() -> None:
    streams = launch(
        **{"dram__throughput" + ELAPSED: 0.62, "lts__throughput" + ELAPSED: 0.8}
        | {"lts__d_sectors" + ELAPSED: 0.5}
    )
    assert show_bottleneck([streams]).terms == {"dram_bandwidth"}
    assert show_bottleneck([streams], as_written=True).terms == {"l2_bandwidth"}


def test_waiting_on_a_grid_of_less_than_a_wave_is_its_size_too() -> None:
    small = launch(launch__waves_per_multiprocessor=0.2)
    assert show_bottleneck([small]).terms == {"latency", "tail"}
    assert show_bottleneck([small], as_written=True).terms == {"latency"}


def test_without_a_launch_nothing_is_shown() -> None:
    with pytest.raises(ValueError, match="no launch"):
        show_bottleneck([])
