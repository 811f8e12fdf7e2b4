import os
import subprocess
import sys
from pathlib import Path

import pytest
from gpu_world import install_nvml

from cuda_llm.tools.cuda.nvml import find_usage

QUIET = {"uuid": "GPU-1", "display": 0, "utilisation": 0, "free_bytes": 9 << 30, "processes": []}


def test_a_quiet_gpu_has_nothing_told_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, QUIET)
    company = find_usage().by_uuid["GPU-1"]
    assert company.disturbances == ()
    assert (company.free_bytes, company.driver) == (9 << 30, "580.159.03")


def test_display_load_and_other_peoples_processes_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy = QUIET | {"display": 1, "utilisation": 97, "processes": [(1, 3 << 30), (1 << 30, 0)]}
    install_nvml(tmp_path, monkeypatch, busy)
    display, others, load = find_usage().by_uuid["GPU-1"].disturbances
    assert display == "it drives a display"
    assert others.startswith("other processes use it: 1")
    assert others.endswith("(3.0 GiB), 1073741824 (0.0 GiB)")
    assert load == "it is 97 % busy"


def test_our_own_processes_are_no_company(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own GPU host processes are left out: they share a GPU by its lease."""
    waiting = [sys.executable, "-c", "input()", "cuda_llm.tools.cuda.host"]
    host = subprocess.Popen(waiting, stdin=subprocess.PIPE)
    ours = [(os.getpid(), 1), (host.pid, 1)]
    install_nvml(tmp_path, monkeypatch, QUIET | {"processes": ours})
    assert find_usage().by_uuid["GPU-1"].disturbances == ()
    host.communicate(b"\n")


def test_what_a_gpu_does_not_tell_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, {"uuid": "GPU-1"})
    company = find_usage().by_uuid["GPU-1"]
    assert (company.disturbances, company.free_bytes) == ((), None)


def test_why_nvml_cannot_be_asked_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_nvml(tmp_path, monkeypatch)
    assert find_usage().unknown == "NVML cannot be asked (NVML: Driver Not Loaded)"
    assert find_usage(["-c", "raise SystemExit(9)"]).unknown.endswith("(status 9)")
    (tmp_path / "pynvml.py").write_text("raise ImportError('none')")
    assert find_usage().unknown == "NVML cannot be asked (nvidia-ml-py is not installed)"
