"""Why a measured call takes as long as it does."""

from dataclasses import replace

import pytest

from cuda_llm.agents.limits import BOTTLENECK_TEXTS
from cuda_llm.hardware_profiles.ceilings import Ceilings, published_ceilings
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import LaunchProfile
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.inspection import KernelCounters, Stall
from cuda_llm.tools.profiler.achieved import Achieved, achieve
from cuda_llm.tools.profiler.explain_measured import explain_measured
from cuda_llm.tools.profiler.kernel_counters import with_counters

H200 = find_hardware("H200")
PUBLISHED = published_ceilings(H200)
TRANSPOSE = load_task("matrix_transpose")
MATMUL = load_task("matrix_multiplication")
BIG = {"rows": 8192, "cols": 8192}


def launch(
    blocks: int = 132 * 16, occupancy: float = 1.0, idle_share: float = 0.0
) -> LaunchProfile:
    return LaunchProfile(
        kernel="tiled",
        grid=(blocks, 1, 1),
        block=(256, 1, 1),
        shared_bytes=0,
        occupancy=occupancy,
        time_us=0.0,
        figures={"blocks": float(blocks), "waves": blocks / 1056, "idle_share": idle_share},
    )


def transposed(
    time_us: float, dims: dict[str, int] = BIG, ceilings: Ceilings = PUBLISHED
) -> Achieved:
    return achieve(TRANSPOSE, dims, time_us, H200, ceilings)


def counted(**changes: object) -> KernelCounters:
    figures = {
        "dram_share": 0.3,
        "dram_bytes": 5e8,
        "l2_share": 0.2,
        "l1_share": 0.25,
        "issue_share": 0.1,
    }
    figures |= changes  # type: ignore[arg-type]
    return KernelCounters(
        kernel="tiled",
        duration_us=500.0,
        flushed=True,
        figures=figures,
        stalls=(Stall(reason="long_scoreboard", share=0.7), Stall(reason="wait", share=0.1)),
    )


def test_rates_are_the_least_bytes_and_work_over_the_time() -> None:
    fast = transposed(150.0)
    assert fast.gb_s == pytest.approx(8 * 8192**2 / 150e3)
    assert fast.memory_share == pytest.approx((8 * 8192**2 / 4320e3 + 1.45) / 150)
    product = achieve(MATMUL, {"M": 4096, "N": 4096, "K": 4096}, 3000.0, H200, PUBLISHED)
    assert product.tflops == pytest.approx(2 * 4096**3 / 3000e6)
    assert product.compute_share == pytest.approx(product.tflops / 66.9)


def test_a_small_size_is_held_against_a_copy_of_its_size() -> None:
    small = transposed(3.0, {"rows": 512, "cols": 512})
    alone = small.bytes_moved / (PUBLISHED.dram_gb_s * 1e3) / 3.0
    assert small.memory_share > 3 * alone


def test_a_transpose_near_the_copy_rate_is_limited_by_dram() -> None:
    first, *_ = explain_measured(transposed(150.0), [launch()], H200, PUBLISHED)
    assert first.code == "dram_bandwidth"
    assert first.share == pytest.approx(0.84, abs=0.01)
    assert "537 MB in 150 us" in first.explanation
    assert "published" in first.explanation


def test_the_origin_of_a_ceiling_is_told() -> None:
    probed = Ceilings(
        dram_gb_s=4300.0, fp32_tflops=50.0, launch_us=1.0, measured=frozenset({"dram_gb_s"})
    )
    first, *_ = explain_measured(transposed(150.0, ceilings=probed), [launch()], H200, probed)
    assert "(measured)" in first.explanation


def test_a_matrix_product_near_the_peak_is_limited_by_arithmetic() -> None:
    product = achieve(MATMUL, {"M": 4096, "N": 4096, "K": 4096}, 2500.0, H200, PUBLISHED)
    first, *_ = explain_measured(product, [launch()], H200, PUBLISHED)
    assert first.code == "fp32"


def test_a_slow_kernel_whose_units_idle_is_limited_by_latency() -> None:
    first, *_ = explain_measured(transposed(1500.0), [launch()], H200, PUBLISHED)
    assert first.code == "latency"
    assert first.share > 0.9


def test_many_small_launches_are_limited_by_starting_them() -> None:
    small = transposed(8.0, {"rows": 64, "cols": 64})
    first, *_ = explain_measured(small, [launch(1)] * 10, H200, PUBLISHED)
    assert first.code == "launch_overhead"
    assert "10 kernels" in first.explanation


def test_few_blocks_leave_sms_without_work() -> None:
    one = launch(blocks=33, idle_share=0.75)
    first, *_ = explain_measured(transposed(1500.0), [one], H200, PUBLISHED)
    assert first.code == "tail"
    assert "99 of 132 SMs" in first.explanation


def test_low_occupancy_is_told_only_where_something_idles() -> None:
    def codes(time_us: float) -> set[str]:
        found = explain_measured(transposed(time_us), [launch(occupancy=0.06)], H200, PUBLISHED)
        return {one.code for one in found}

    assert "low_occupancy" in codes(1500.0)
    assert "low_occupancy" not in codes(126.0)


def test_counters_replace_what_rates_infer() -> None:
    found = explain_measured(transposed(510.0), [launch()], H200, PUBLISHED, [counted()])
    dram = next(one for one in found if one.code == "dram_bandwidth")
    assert dram.share == pytest.approx(0.3)
    assert "Nsight Compute" in dram.explanation


def test_scattered_stores_come_before_a_busy_unit() -> None:
    scattered = counted(useful_byte_share=0.3, sectors_per_request=18.0, l1_share=0.6)
    first, *_ = explain_measured(transposed(510.0), [launch()], H200, PUBLISHED, [scattered])
    assert first.code == "uncoalesced_global"
    assert "18.0 sectors a request, 30% of the bytes used" in first.explanation


def test_a_unit_that_is_only_busy_with_waste_is_not_told_beside_it() -> None:
    def codes(useful: float) -> set[str]:
        one = counted(useful_byte_share=useful, l2_share=0.84)
        found = explain_measured(transposed(510.0), [launch()], H200, PUBLISHED, [one])
        return {bottleneck.code for bottleneck in found}

    assert "l2_bandwidth" in codes(1.0)
    assert "l2_bandwidth" not in codes(0.22)


def test_bank_conflicts_cost_what_shared_memory_is_busy() -> None:
    tile = counted(bank_ways=32.0, shared_passes_share=0.9, l1_share=0.95)
    first, *_ = explain_measured(transposed(510.0), [launch()], H200, PUBLISHED, [tile])
    assert first.code == "bank_conflicts"
    assert first.share > 0.8


@pytest.mark.parametrize(("busy", "first"), [(0.58, "latency"), (0.62, "l2_bandwidth")])
def test_a_unit_limits_a_kernel_from_60_percent_of_its_peak_on(busy: float, first: str) -> None:
    found = explain_measured(
        transposed(500.0), [launch()], H200, PUBLISHED, [counted(l2_share=busy)]
    )
    assert found[0].code == first


def test_idle_sms_are_those_that_were_counted() -> None:
    uneven = launch(blocks=168, idle_share=0.36)
    even, idle = counted(idle_sm_share=0.02), counted(idle_sm_share=0.4)
    for one, first in ((even, "latency"), (idle, "tail")):
        launches = with_counters([uneven], [one], 500.0)
        found = explain_measured(transposed(500.0), launches, H200, PUBLISHED, [one])
        assert found[0].code == first
        assert ("tail" in [reason.code for reason in found]) == (first == "tail")


def test_blocks_that_wait_side_by_side_leave_no_sm_idle() -> None:
    found = explain_measured(transposed(2000.0), [launch(168, idle_share=0.36)], H200, PUBLISHED)
    assert found[0].code == "latency"


def test_unused_bytes_are_not_held_against_a_busy_shared_memory() -> None:
    shared = counted(l1_share=0.9, shared_passes_share=0.95, useful_byte_share=0.5)
    quiet = replace(shared, stalls=(Stall(reason="mio_throttle", share=0.8),))
    found = explain_measured(transposed(500.0), [launch()], H200, PUBLISHED, [quiet])
    assert found[0].code == "shared_bandwidth"


def test_stall_reasons_are_evidence_of_latency() -> None:
    idle = counted(dram_share=0.05, l2_share=0.05, l1_share=0.05)
    first, *_ = explain_measured(transposed(1500.0), [launch()], H200, PUBLISHED, [idle])
    assert first.code == "latency"
    assert "long_scoreboard 70%, wait 10%" in first.explanation


def test_gaps_between_kernels_are_launch_overhead() -> None:
    two = [launch(), launch()]
    short = KernelCounters(kernel="tiled", duration_us=2.0, flushed=False)
    found = explain_measured(transposed(20.0), two, H200, PUBLISHED, [short, short])
    gaps = next(one for one in found if one.code == "launch_overhead")
    assert gaps.share == pytest.approx(0.8)


def test_every_code_is_one_that_the_agents_have_words_for() -> None:
    everything = counted(
        useful_byte_share=0.3,
        bank_ways=8.0,
        shared_passes_share=0.9,
        simd_efficiency=0.2,
        **{
            f"{unit}_share": 0.9
            for unit in ("l2", "l1", "issue", "fp32", "int", "fp64", "sfu", "tensor")
        },
    )
    found = {
        one.code
        for time_us in (2.0, 150.0, 5000.0)
        for counters in ([], [counted()], [everything])
        for one in explain_measured(
            transposed(time_us), [launch(33, 0.1, 0.75)], H200, PUBLISHED, counters
        )
    }
    assert len(found) > 6
    assert found <= set(BOTTLENECK_TEXTS)


def test_a_single_kernel_took_the_time_of_the_call_and_carries_its_counters() -> None:
    (shown,) = with_counters([launch()], [counted()], 512.0)
    assert shown.time_us == 512.0
    assert shown.figures["dram_bytes"] == 5e8
    assert shown.figures["waves"] == 2.0


def test_several_kernels_take_what_was_counted_and_nothing_where_nothing_was() -> None:
    assert [one.time_us for one in with_counters([launch()] * 2, [], 512.0)] == [0.0, 0.0]
    both = with_counters([launch()] * 2, [counted()] * 2, 1100.0)
    assert [one.time_us for one in both] == [500.0, 500.0]
    assert [one.time_us for one in with_counters([launch()] * 2, [counted()], 1.0)] == [0.0, 0.0]
