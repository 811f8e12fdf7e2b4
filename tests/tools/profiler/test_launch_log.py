"""A launch log becomes the launches of a profile."""

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch, launch_profiles

H200 = find_hardware("H200")
TILED = KernelResources(
    kernel="tiled<32>", symbol="_Z5tiledILi32EEvPf", registers=40, shared_bytes=4224
)
SUM = KernelResources(kernel="sum", symbol="_Z3sumPf", registers=128, shared_bytes=0)


def kernel(symbol: str, blocks: int, threads: int = 256, dynamic: int = 0) -> LoggedLaunch:
    return LoggedLaunch(
        kind=LaunchKind.KERNEL,
        symbol=symbol,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        dynamic_shared_bytes=dynamic,
    )


def test_launches_keep_their_order_and_are_called_as_in_the_source() -> None:
    log = [kernel(SUM.symbol, 10), kernel(TILED.symbol, 20), kernel(SUM.symbol, 1)]
    assert [one.kernel for one in launch_profiles(log, (TILED, SUM), H200)] == [
        "sum",
        "tiled<32>",
        "sum",
    ]


def test_shared_memory_is_static_and_dynamic_together() -> None:
    (launch,) = launch_profiles([kernel(TILED.symbol, 1, dynamic=1000)], (TILED,), H200)
    assert launch.shared_bytes == 5224


def test_occupancy_follows_from_the_registers() -> None:
    (launch,) = launch_profiles([kernel(SUM.symbol, 1)], (SUM,), H200)
    assert launch.occupancy == 0.25
    assert launch.figures["blocks_per_sm"] == 2


@pytest.mark.parametrize(
    ("blocks", "waves", "idle"),
    [(132, 0.5, 0.0), (264, 1.0, 0.0), (66, 0.25, 0.5), (140, 0.53, 0.47)],
)
def test_waves_and_what_an_uneven_end_leaves_idle(blocks: int, waves: float, idle: float) -> None:
    (launch,) = launch_profiles([kernel(SUM.symbol, blocks)], (SUM,), H200)
    assert launch.figures["waves"] == pytest.approx(waves, abs=0.005)
    assert launch.figures["idle_share"] == pytest.approx(idle, abs=0.005)


def test_a_kernel_that_the_compiler_does_not_know_keeps_its_symbol() -> None:
    (launch,) = launch_profiles([kernel("_Z7unknownv", 1)], (TILED,), H200)
    assert launch.kernel == "_Z7unknownv"
    assert launch.occupancy == 1.0
    assert "registers_per_thread" not in launch.figures


def test_a_block_too_large_to_launch_has_no_occupancy_and_no_waves() -> None:
    (launch,) = launch_profiles([kernel(SUM.symbol, 8, threads=2048)], (SUM,), H200)
    assert launch.occupancy == 0.0
    assert "waves" not in launch.figures


def test_copies_and_fills_are_one_entry_after_the_kernels() -> None:
    log = [
        LoggedLaunch(kind=LaunchKind.SET, bytes=1000),
        kernel(SUM.symbol, 1),
        LoggedLaunch(kind=LaunchKind.COPY, bytes=500),
    ]
    launches = launch_profiles(log, (SUM,), H200)
    assert [one.kernel for one in launches] == ["sum", "copies and fills"]
    assert launches[1].figures == {"copies": 2.0, "copied_bytes": 2000.0}


def test_cooperative_launches_and_clusters_are_told() -> None:
    log = [
        LoggedLaunch(
            kind=LaunchKind.KERNEL,
            symbol=SUM.symbol,
            grid=(2, 1, 1),
            block=(32, 1, 1),
            cooperative=True,
            cluster=2,
        )
    ]
    (launch,) = launch_profiles(log, (SUM,), H200)
    assert (launch.figures["cooperative"], launch.figures["cluster_blocks"]) == (1.0, 2.0)


def test_no_time_is_invented() -> None:
    log = [kernel(SUM.symbol, 1), LoggedLaunch(kind=LaunchKind.SET, bytes=4)]
    assert [one.time_us for one in launch_profiles(log, (SUM,), H200)] == [0.0, 0.0]
