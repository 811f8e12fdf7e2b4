"""What `cuda-llm doctor` says of GPUs, on machines that have none."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_drivers import attributes_of, build_driver
from gpu_world import install_cupy, install_nvml

from cuda_llm.cli.doctor import (
    CHECKS,
    MACHINE_LACKS,
    DoctorCheck,
    gpu_checks,
    lift_quarantine,
    run_check,
)
from cuda_llm.errors import UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.quarantine import list_quarantined, put_in_quarantine

H200 = attributes_of(find_hardware("NVIDIA H200"))
QUIET = {"uuid": H200.uuid, "display": 0, "utilisation": 0, "free_bytes": 9 << 30, "processes": []}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path / "cache"))


def by_name(findings: list[DoctorCheck], what: str) -> list[DoctorCheck]:
    return [one for one in findings if one.what == what]


def test_compilers_are_missing_unless_the_machine_is_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_LLM_NVCC", str(tmp_path / "nvcc"))
    for what in ("g++", "nvcc"):
        finding = run_check(what, CHECKS[what])
        assert finding.needed
        assert finding.remedy.endswith("; a cluster's worker with a GPU does without")


def test_a_machine_without_compilers_is_told_of_each_in_lines_and_nothing_else(
    tmp_path: Path,
) -> None:
    """The first command of a newcomer. A traceback once followed: of a task that nobody awaited."""
    ran = subprocess.run(
        [sys.executable, "-m", "cuda_llm", "doctor"],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path), "CUDA_LLM_CACHE": str(tmp_path / "c")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == MACHINE_LACKS
    assert ran.stderr == ""
    missing = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("MISSING")]
    assert missing[0] == "g++"
    assert missing[-1] == "emulated"


def test_a_missing_driver_is_reported_with_its_mend_and_is_not_needed(tmp_path: Path) -> None:
    (finding,) = gpu_checks(str(tmp_path / "libcuda.so.1"))
    assert finding.found.startswith("no CUDA driver")
    assert "install NVIDIA's driver" in finding.remedy
    assert not finding.needed


def test_without_cupy_and_nvml_each_gpu_is_reported_with_the_mends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch)
    findings = gpu_checks(build_driver(tmp_path, H200, count=2))
    assert by_name(findings, "driver")[0].found == "(CUDA 13.0)"
    assert "cuda-llm[gpu]" in by_name(findings, "cupy")[0].remedy
    assert "Driver Not Loaded" in by_name(findings, "nvml")[0].found
    assert "cuda-llm[gpu]" in by_name(findings, "cuda:1")[0].remedy


def test_other_users_of_a_gpu_are_reported_as_less_than_there_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, QUIET | {"display": 1})
    findings = by_name(gpu_checks(build_driver(tmp_path, H200)), "cuda:0")
    assert findings[0].found == "NVIDIA H200: it drives a display"
    assert "name another GPU" in findings[0].remedy


def test_a_gpu_in_quarantine_is_not_asked_and_can_be_let_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_cupy(tmp_path, monkeypatch)
    install_nvml(tmp_path, monkeypatch, QUIET)
    put_in_quarantine(H200.uuid, "cuda:0", "7 known words were wrong")
    (finding,) = by_name(gpu_checks(build_driver(tmp_path, H200)), "cuda:0")
    assert "7 known words were wrong" in finding.found
    assert "cuda-llm doctor --lift cuda:0" in finding.remedy
    assert lift_quarantine("cuda:0") == 0
    assert list_quarantined() == []
    with pytest.raises(UsageError, match="cuda:0 is not in quarantine; no GPU is"):
        lift_quarantine("cuda:0")


def test_a_quarantine_is_reported_when_the_driver_does_not_answer_either(tmp_path: Path) -> None:
    put_in_quarantine(H200.uuid, "cuda:0", "it is gone")
    first, second = gpu_checks(build_driver(tmp_path, H200, init_result=999))
    assert "it is gone" in first.found
    assert "CUresult 999" in second.found


def test_an_nvcc_too_old_for_the_gpu_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = (Path(__file__).parents[3] / "hardware_profiles/b200_sxm_180gb.toml").read_text()
    (tmp_path / "gpus").mkdir()
    newer = profile.replace('"NVIDIA B200"', '"NVIDIA N1"').replace("sm_100a", "sm_990a")
    (tmp_path / "gpus/n1.toml").write_text(
        newer.replace('aliases = ["B200", "B200 SXM"]', "aliases = []")
    )
    monkeypatch.setenv("CUDA_LLM_HARDWARE_DIR", str(tmp_path / "gpus"))
    install_cupy(tmp_path, monkeypatch)
    install_nvml(tmp_path, monkeypatch, QUIET)
    gpu = replace(attributes_of(find_hardware("NVIDIA N1")), name="NVIDIA N1")
    findings = by_name(gpu_checks(build_driver(tmp_path, gpu)), "cuda:0")
    assert any("knows no sm_990a" in one.found for one in findings)


def test_a_gpu_that_cannot_be_opened_is_reported_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here CuPy can be found, but not imported."""
    install_cupy(tmp_path, monkeypatch)
    install_nvml(tmp_path, monkeypatch, QUIET)
    *_, last = by_name(gpu_checks(build_driver(tmp_path, H200)), "cuda:0")
    assert (last.found, last.remedy) == ("CuPy", "install it: pip install 'cuda-llm[gpu]'")
    assert not last.needed
