"""Counts of the emulated device explain a time that was measured elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest
from modelled_calls import called

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device import CallReport, Level
from cuda_llm.tools.device.inspection import EMULATED, KernelCounters, Stall
from cuda_llm.tools.profiler.emulated_counters import BESIDE_US, FILL_US, at_measured_time
from cuda_llm.tools.profiler.explain_measured import explain_with_counters

H200 = find_hardware("H200")
TRANSPOSE = load_task("matrix_transpose")
DIMS = {"rows": 4096, "cols": 4096}
MOVED = 4 * 4096 * 4096
"""Bytes that a transpose reads, and writes."""
TILED = """
__global__ void turn(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[32][WIDTH];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < cols && y + i < rows)
            tile[threadIdx.y + i][threadIdx.x] = in[(size_t)(y + i) * cols + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (x < rows && y + i < cols)
            out[(size_t)(y + i) * rows + x] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" void solve(const float* in, float* out, int rows, int cols) {
    turn<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(in, out, rows, cols);
}
"""
PADDED, CONFLICTING = TILED.replace("WIDTH", "33"), TILED.replace("WIDTH", "32")


@cache
def report_of(source: str) -> CallReport:
    found = called(TRANSPOSE, source, DIMS, Level.SAMPLE)
    assert isinstance(found, CallReport), found
    return found


def counted(source: str, time_us: float) -> KernelCounters:
    report = report_of(source)
    (one,) = at_measured_time(report.counters, report.launches, time_us, H200)
    return one


def explained(source: str, time_us: float) -> Profile:
    """As a run on an H200 explains a transpose that took so long there."""
    time = SizeTime(dims=DIMS, time_us=time_us, baseline_us=None, source="measured")
    launches = tuple(
        replace(one, time_us=0.0, terms_us={}, figures={}, phases=())
        for one in report_of(source).launches
    )
    measured = Profile(
        device="cuda:0 NVIDIA H200",
        hardware=H200.name,
        source="measured",
        sizes=(time,),
        launches=launches,
    )
    return explain_with_counters(TRANSPOSE, H200, measured, (counted(source, time_us),))


def test_bytes_and_passes_are_those_of_the_instructions_whatever_the_time() -> None:
    quick, slow = counted(PADDED, 40.0), counted(PADDED, 80.0)
    for one in (quick, slow):
        assert one.figures["l2_bytes"] == pytest.approx(2 * MOVED, rel=0.02)
        assert one.figures["sectors_per_request"] == pytest.approx(4)
        assert one.figures["useful_byte_share"] == pytest.approx(1)
        assert one.figures["bank_ways"] == pytest.approx(1)
    assert counted(CONFLICTING, 80.0).figures["bank_ways"] > 10


def test_shares_of_a_peak_are_counts_over_the_measured_time() -> None:
    quick, slow = counted(PADDED, 40.0), counted(PADDED, 80.0)
    ratio = slow.duration_us / quick.duration_us
    for name in ("dram_share", "issue_share", "l1_share", "int_share"):
        assert quick.figures[name] == pytest.approx(ratio * slow.figures[name])
    bytes_us = quick.figures["dram_bytes"] / quick.duration_us
    assert quick.figures["dram_share"] == pytest.approx(bytes_us / 1e3 / H200.peaks.dram_gb_s)


def test_stores_that_l2_still_holds_at_the_end_did_not_cross_dram() -> None:
    """An H200 was counted to write 43 to 49 of 67 MB back meanwhile."""
    moved = counted(PADDED, 40.0).figures["dram_bytes"]
    assert MOVED + 43e6 <= moved <= MOVED + 49e6


def test_no_share_exceeds_a_peak_where_the_measured_time_is_short() -> None:
    figures = counted(CONFLICTING, 5.0).figures
    assert max(value for name, value in figures.items() if name.endswith("_share")) == 1.0


def test_a_transpose_that_a_gpu_ran_at_the_speed_of_dram_is_limited_by_dram() -> None:
    first = explained(PADDED, 36.0).bottlenecks[0]
    assert first.code == "dram_bandwidth"
    assert f"({EMULATED})" in first.explanation
    assert "Nsight" not in first.explanation


def test_the_same_counts_in_three_times_the_time_are_latency_and_say_what_is_modelled() -> None:
    first = explained(PADDED, 110.0).bottlenecks[0]
    assert first.code == "latency"
    assert "warps wait, as modelled, for long_scoreboard" in first.explanation
    assert first.spot is not None


def test_bank_conflicts_are_named_with_their_line() -> None:
    first = explained(CONFLICTING, 80.0).bottlenecks[0]
    assert first.code == "bank_conflicts"
    assert first.spot is not None
    assert "tile[threadIdx.x][threadIdx.y + i]" in first.spot.text


def launch(kernel: str, time_us: float, blocks: int = 1000) -> LaunchProfile:
    return LaunchProfile(
        kernel=kernel,
        grid=(blocks, blocks, blocks),
        block=(256, 1, 1),
        shared_bytes=0,
        occupancy=1.0,
        time_us=time_us,
    )


def modelled(kernel: str, duration_us: float, **figures: float) -> KernelCounters:
    return KernelCounters(
        kernel=kernel, duration_us=duration_us, flushed=True, figures=figures, origin=EMULATED
    )


def test_kernels_share_the_measured_time_as_their_modelled_times_do_and_fills_have_their_own() -> (
    None
):
    both = (modelled("a", 10.0), modelled("b", 30.0))
    fill = replace(
        launch("copies and fills", 7.0, blocks=0), terms_us={"launch": 2.0}, figures={"copies": 1}
    )
    beside_us = BESIDE_US + FILL_US + 5.0 + 2 * H200.model.launch_us
    found = at_measured_time(both, (fill,), 100.0 + beside_us, H200)
    assert [one.duration_us for one in found] == pytest.approx([25.0, 75.0])


def test_a_call_without_kernels_has_no_counters() -> None:
    assert at_measured_time((), (launch("copies and fills", 2.0, blocks=0),), 5.0, H200) == ()


def explained_by(
    counters: tuple[KernelCounters, ...], launches: tuple[LaunchProfile, ...], time_us: float
) -> Profile:
    time = SizeTime(dims=DIMS, time_us=time_us, baseline_us=None, source="measured")
    measured = Profile(
        device="cuda:0",
        hardware=H200.name,
        source="measured",
        sizes=(time,),
        launches=launches,
    )
    return explain_with_counters(TRANSPOSE, H200, measured, counters)


def test_how_several_launches_share_the_time_never_looks_measured() -> None:
    both = (modelled("a", 10.0, issue_share=0.7), modelled("b", 30.0, issue_share=0.7))
    found = explained_by(both, (launch("a", 0.0), launch("b", 0.0)), 50.0)
    assert [one.time_us for one in found.launches] == [0.0, 0.0]
    assert [one.figures["issue_share"] for one in found.launches] == [0.7, 0.7]
    assert not any("our time less" in one.explanation for one in found.bottlenecks)


def test_launches_of_one_kernel_are_one_reason_together() -> None:
    rounds = tuple(modelled("a", 10.0, issue_share=0.7) for _ in range(20))
    found = explained_by(rounds, tuple(launch("a", 0.0) for _ in rounds), 220.0)
    first = found.bottlenecks[0]
    assert first.code == "issue"
    assert first.share == pytest.approx(0.7)


@pytest.mark.parametrize("stalls", [(), (Stall(reason="barrier", share=0.9),)])
def test_waiting_is_found_with_and_without_known_stalls(stalls: tuple[Stall, ...]) -> None:
    idle = replace(modelled("a", 100.0, issue_share=0.1), stalls=stalls)
    first = explained_by((idle,), (launch("a", 0.0),), 101.0).bottlenecks[0]
    assert first.code == "latency"
    assert first.share == pytest.approx(0.9)
    assert ("barrier 90%" in first.explanation) == bool(stalls)


def test_updates_of_a_word_are_named_behind_what_was_counted() -> None:
    one = modelled("a", 100.0, atomic_share=0.8, dram_share=0.3)
    codes = [found.code for found in explained_by((one,), (launch("a", 0.0),), 101.0).bottlenecks]
    assert codes[:2] == ["latency", "atomics"]


def test_warps_stall_only_while_an_sm_has_warps() -> None:
    def waste(idle: Mapping[str, float]) -> float:
        stalls = (Stall(reason="long_scoreboard", share=1.0),)
        one = replace(modelled("a", 100.0, useful_byte_share=0.5, **idle), stalls=stalls)
        found = explained_by((one,), (launch("a", 0.0),), 101.0).bottlenecks
        return next(named.share for named in found if named.code == "uncoalesced_global")

    assert waste({"idle_sm_share": 0.8}) == pytest.approx(0.2 * waste({}))
