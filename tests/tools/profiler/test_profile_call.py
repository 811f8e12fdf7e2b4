"""A measured call comes out in the shape of a modelled one."""

from pathlib import Path

import pytest

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.ceilings import Ceilings, ceilings_path, keep_ceilings
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.profiler.explain_measured import profile_call
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch, launch_profiles

H200 = find_hardware("H200")
TASK = load_task("matrix_transpose")
DIMS = {"rows": 4096, "cols": 4096}
KERNEL = KernelResources(kernel="tiled", symbol="_Z5tiled", registers=24, shared_bytes=4224)
LOGGED = LoggedLaunch(
    kind=LaunchKind.KERNEL, symbol=KERNEL.symbol, grid=(128, 128, 1), block=(32, 8, 1)
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))


def test_one_kernel_took_the_time_that_was_measured() -> None:
    found = profile_call(TASK, DIMS, 40.0, launch_profiles([LOGGED], [KERNEL], H200), H200)
    assert found.time_us == 40.0
    assert [(one.kernel, one.time_us) for one in found.launches] == [("tiled", 40.0)]
    assert found.bottlenecks[0].code == "dram_bandwidth"
    assert "(published)" in found.bottlenecks[0].explanation


def test_ceilings_of_a_probe_of_this_card_replace_the_profiles() -> None:
    probed = Ceilings(
        dram_gb_s=4100.0, fp32_tflops=60.0, launch_us=1.0, measured=frozenset({"dram_gb_s"})
    )
    keep_ceilings(H200, probed)
    found = profile_call(TASK, DIMS, 40.0, launch_profiles([LOGGED], [KERNEL], H200), H200)
    assert "(measured)" in found.bottlenecks[0].explanation
    assert found.bottlenecks[0].share == pytest.approx((8 * 4096**2 / 4100e3 + 1.45) / 40)


def test_a_probe_that_left_nonsense_is_an_error() -> None:
    ceilings_path(H200).parent.mkdir()
    ceilings_path(H200).write_text("nonsense")
    with pytest.raises(HardwareError):
        profile_call(TASK, DIMS, 40.0, (), H200)


def test_a_call_without_a_log_is_explained_by_its_rates() -> None:
    found = profile_call(TASK, DIMS, 400.0, (), H200)
    assert found.launches == ()
    assert found.bottlenecks[0].code == "latency"


def test_how_several_kernels_shared_the_time_is_unknown() -> None:
    two = launch_profiles([LOGGED, LOGGED], [KERNEL], H200)
    found = profile_call(TASK, DIMS, 80.0, two, H200)
    assert [one.time_us for one in found.launches] == [0.0, 0.0]
