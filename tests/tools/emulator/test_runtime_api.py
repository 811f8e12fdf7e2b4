"""Our CUDA runtime answers compiled candidates as CUDA does."""

import subprocess
from pathlib import Path

import numpy as np
from device_calls import run
from runtime_answers import DEVICES, MEMORY

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.compiler.audit import CUDA_CALLS
from cuda_llm.tools.emulator.codegen.libraries import runtime_library

FIXTURES = Path(__file__).parents[2] / "fixtures" / "devices"
SOURCE = (FIXTURES / "asked.h").read_text() + (FIXTURES / "api.cu").read_text()
HARDWARE = find_hardware("RTX 3090 Ti")
SUCCESS, INVALID_VALUE = 0, 1
NOT_FOUND, NOT_SUPPORTED = 500, 801


def answers(part: int, count: int) -> list[int]:
    out = np.zeros(64, np.int64)
    called = run(SOURCE, {"out": out}, ["out"], part)
    assert called.report
    return [int(value) for value in called.outputs["out"][:count]]


def test_the_import_audit_allows_exactly_what_the_runtime_answers() -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", "--without-symbol-versions", runtime_library()],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = {line.split()[-1] for line in listed.splitlines()}
    answered = {name for name in symbols if name.lstrip("_").startswith(("cuda", "cuTensorMap"))}
    assert answered == set(CUDA_CALLS.split())


def test_the_device_is_the_one_of_the_profile() -> None:
    limits = HARDWARE.limits
    facts = [
        HARDWARE.sm_count,
        limits.threads_per_block,
        32,
        *HARDWARE.compute_capability,
        limits.shared_bytes_per_block,
        limits.shared_bytes_per_block_optin,
        HARDWARE.l2_bytes,
    ]
    clock_khz = round(HARDWARE.boost_clock_mhz * 1000)
    properties = [SUCCESS, *facts, HARDWARE.memory_bytes, len(HARDWARE.name)]
    assert answers(0, 21) == [*facts, clock_khz, 1, *properties]


def test_there_is_one_device_and_one_stream() -> None:
    assert answers(1, len(DEVICES)) == DEVICES


def test_kernels_have_attributes_and_an_occupancy() -> None:
    told = answers(2, 15)
    assert told[:5] == [SUCCESS, 128, 256, 1, 86]
    assert told[5:8] == [SUCCESS, 6, 2]
    assert told[8:12] == [SUCCESS, 256, SUCCESS, 2]
    assert told[12:] == [SUCCESS, 64 << 10, SUCCESS]


def test_memory_is_checked_before_it_is_touched() -> None:
    assert answers(3, len(MEMORY)) == MEMORY


def test_module_variables_are_written_by_their_names() -> None:
    told = answers(4, 42)
    assert told[:7] == [SUCCESS, SUCCESS, INVALID_VALUE, SUCCESS, SUCCESS, 32, SUCCESS]
    assert told[40:] == [1, 4]


def test_what_newer_and_older_code_asks_for_is_there_to_be_asked() -> None:
    assert answers(5, 7) == [
        *(SUCCESS, HARDWARE.sm_count, NOT_SUPPORTED, NOT_FOUND, 1, SUCCESS, NOT_SUPPORTED)
    ]
