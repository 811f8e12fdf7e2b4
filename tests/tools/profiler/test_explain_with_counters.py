"""Counters replace what a time alone lets one guess."""

from pathlib import Path

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.ncu import parse_table, read_counters
from cuda_llm.tools.profiler.explain_measured import explain_with_counters

RECORDED = Path(__file__).parents[2] / "fixtures/counters/ncu/transpose.csv"
H200 = find_hardware("H200")
TASK = load_task("matrix_transpose")
PROFILE = Profile(
    device="cuda:0 NVIDIA H200",
    hardware=H200.name,
    source="measured",
    sizes=(
        SizeTime(
            dims={"rows": 4096, "cols": 4096}, time_us=253.0, baseline_us=253.0, source="measured"
        ),
    ),
    launches=(
        LaunchProfile(
            kernel="matrix_transpose",
            grid=(128, 512, 1),
            block=(32, 8, 1),
            shared_bytes=0,
            occupancy=1.0,
            time_us=253.0,
            figures={"blocks": 65536.0},
        ),
    ),
)


def test_a_scattered_transpose_is_found_out() -> None:
    counters = tuple(read_counters(one, flushed=True) for one in parse_table(RECORDED.read_text()))
    found = explain_with_counters(TASK, H200, PROFILE, counters)
    assert found.bottlenecks[0].code == "uncoalesced_global"
    (launch,) = found.launches
    assert launch.time_us == 253.0
    assert (launch.figures["sectors_per_request"], launch.figures["blocks"]) == (18, 65536)
    assert found.sizes == PROFILE.sizes


def test_without_counters_nothing_changes() -> None:
    assert explain_with_counters(TASK, H200, PROFILE, ()) is PROFILE
