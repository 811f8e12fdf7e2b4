"""`cuda-llm hardware` shows what is known, and refuses what is not."""

from dataclasses import replace
from pathlib import Path

import pytest
from commands import Command
from typer.testing import CliRunner

from cuda_llm.cli.hardware import hardware_app
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.ceilings import keep_ceilings, published_ceilings
from cuda_llm.hardware_profiles.lookup import find_hardware


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")


def test_list_shows_every_profile() -> None:
    result = CliRunner().invoke(hardware_app, ["list"])
    assert result.exit_code == 0
    for name in ("NVIDIA GeForce RTX 3090 Ti", "GTX 1660 SUPER", "NVIDIA H200", "sm_86", "1008"):
        assert name in result.stdout


def test_show_gives_each_figure_with_its_source() -> None:
    result = CliRunner().invoke(hardware_app, ["show", "rtx 3090 ti"])
    assert result.exit_code == 0
    line = next(line for line in result.stdout.splitlines() if "limits.blocks_per_sm" in line)
    assert "16" in line
    assert "Programming Guide" in line
    line = next(line for line in result.stdout.splitlines() if "tensor_sparse_tflops.tf32" in line)
    assert "80" in line
    assert "whitepaper" in line


def test_show_has_what_a_probe_measured_below_what_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
    profile = find_hardware("H200")
    found = replace(
        published_ceilings(profile), dram_gb_s=3945.0, measured=frozenset({"dram_gb_s"})
    )
    keep_ceilings(profile, found)

    lines = CliRunner().invoke(hardware_app, ["show", "H200"]).stdout.splitlines()
    (measured,) = [number for number, line in enumerate(lines) if "measured here" in line]
    assert "3,945" in lines[measured]
    assert any("peaks.dram_gb_s" in line for line in lines[measured - 3 : measured])


def test_show_of_an_unknown_gpu_raises_the_error_the_command_line_prints() -> None:
    result = CliRunner().invoke(hardware_app, ["show", "RTX 3090"])
    assert isinstance(result.exception, HardwareError)


def test_detect_names_the_gpus_or_says_what_is_missing(command: Command) -> None:
    ran = command("hardware", "detect")
    if Path("/dev/nvidiactl").exists():
        assert ran.stdout.startswith("cuda:0  ")
    else:
        assert ran.code == 3
        assert "CUDA driver" in ran.complaint
