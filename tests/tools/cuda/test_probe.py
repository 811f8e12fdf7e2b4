"""What a probe measures, as far as no GPU is needed to see that it does."""

import asyncio
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from gpu_drivers import attributes_of

from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.hardware_profiles.ceilings import find_ceilings, keep_ceilings, published_ceilings
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.nvml import name_reasons
from cuda_llm.tools.cuda.probe import (
    Probe,
    ProbedClocks,
    ProbedCopy,
    as_ceilings,
    compare_probe,
    keep_probe,
    probe_cubin,
    run_probe,
)
from cuda_llm.tools.cuda.probe_program import (
    LARGEST_BYTES,
    SMALLEST_BYTES,
    TYPES,
    copy_sizes,
    near_one,
)
from cuda_llm.tools.cuda.probed_gpu import slope_s, steps_for

H200 = find_hardware("H200")
PROBE = Probe(
    copies=(
        ProbedCopy(moved_bytes=1 << 20, cold_gb_s=800.0, warm_gb_s=2000.0),
        ProbedCopy(moved_bytes=4 << 30, cold_gb_s=4300.0, warm_gb_s=4320.0),
    ),
    fp32_tflops=60.0,
    tensor_tflops={"bf16": 700.0},
    launch_graph_us=0.8,
    launch_alone_us=6.0,
    loaded=ProbedClocks(sm_mhz=1755, memory_mhz=3201, reasons=("power_cap",)),
)


def test_what_every_run_has_in_common_is_no_part_of_a_step() -> None:
    assert slope_s(lambda count: 0.5 + count * 2e-6, 4, 32) == pytest.approx(2e-6)


def test_a_slope_needs_two_lengths() -> None:
    with pytest.raises(ValueError, match="no slope"):
        slope_s(float, 8, 8)


@pytest.mark.parametrize(
    ("rough_s", "expected"), [(1e-6, (64, 512)), (1e-3, (1, 8)), (1.0, (1, 8)), (1e-4, (5, 40))]
)
def test_the_longer_run_takes_about_what_is_wanted(
    rough_s: float, expected: tuple[int, int]
) -> None:
    assert steps_for(rough_s, 0.004, 512) == expected


def test_copies_go_from_the_smallest_to_the_largest_that_fits() -> None:
    assert copy_sizes(LARGEST_BYTES)[0] == SMALLEST_BYTES
    assert copy_sizes(LARGEST_BYTES)[-1] == LARGEST_BYTES
    assert copy_sizes(3 << 20) == [1 << 20, 2 << 20]


def test_factors_of_a_product_lie_between_one_and_two_with_random_mantissas() -> None:
    halves = near_one(np, TYPES["fp16"][2], "fp16").view(np.float16).astype(np.float32)
    singles = near_one(np, TYPES["tf32"][2], "tf32").view(np.float32)
    for drawn in (halves, singles):
        assert 1 <= drawn.min() < 1.01
        assert 1.99 < drawn.max() < 2


def test_reasons_are_told_by_name() -> None:
    assert name_reasons(0x04 | 0x40) == ("power_cap", "hw_thermal")
    assert name_reasons(0) == ()


def test_measured_figures_stand_beside_the_published_ones() -> None:
    found = {one.name: one for one in compare_probe(PROBE, H200)}
    copy = found["copy, DRAM"]
    assert (copy.published, copy.measured) == (4800.0, 4300.0)
    assert copy.share == pytest.approx(4300 / 4800)
    assert found["bf16 tensor cores, cuBLAS"].published == 989.4
    assert found["SM clock under load"].measured == 1755


def test_a_gpu_without_a_profile_has_measured_figures_alone() -> None:
    assert all(one.published is None and one.share is None for one in compare_probe(PROBE, None))


def test_kernels_are_held_against_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
    keep_ceilings(H200, as_ceilings(PROBE, published_ceilings(H200)))

    found = find_ceilings(H200)
    assert (found.dram_gb_s, found.origin("dram_gb_s")) == (4300.0, "measured")
    assert found.tensor_tflops["bf16"] == 700.0
    assert found.tensor_tflops["tf32"] == H200.peaks.tensor_dense_tflops["tf32"]


def test_the_kernels_compile() -> None:
    assert probe_cubin("sm_90").stat().st_size > 0


def answering(text: str, status: int = 0) -> list[str]:
    code = f"import sys; sys.stdout.write({text!r}); sys.stderr.write('no'); sys.exit({status})"
    return [sys.executable, "-c", code]


def probed(command: list[str], limit_s: float = 20.0) -> Probe:
    gpu = replace(attributes_of(H200), uuid="GPU-1", driver_cuda=13000)
    work = run_probe(gpu, report=print, cubin=Path("/none"), command=command, limit_s=limit_s)
    return asyncio.run(work)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "compile" not in request.node.name:
        monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))


def test_what_the_process_measured_is_told_with_whose_it_is() -> None:
    found = probed(answering(json.dumps(asdict(PROBE))))
    assert found == replace(PROBE, gpu=H200.name, uuid="GPU-1", cuda="13.0")
    assert json.loads(keep_probe(found).read_text())["fp32_tflops"] == 60.0


def test_without_cupy_the_mend_is_told() -> None:
    with pytest.raises(MissingError, match=r"cuda-llm\[gpu\]"):
        probed(answering("", 2))


@pytest.mark.parametrize("command", [answering("", 1), answering("no json")])
def test_a_probe_that_breaks_is_our_fault(command: list[str]) -> None:
    with pytest.raises(InfrastructureError):
        probed(command)


def test_a_probe_that_hangs_is_ended() -> None:
    with pytest.raises(InfrastructureError, match="did not answer"):
        probed([sys.executable, "-c", "import time; time.sleep(60)"], limit_s=0.3)
