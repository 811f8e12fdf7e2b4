"""What goes wrong on the emulated device has a name and a place."""

import re
from pathlib import Path

import numpy as np
import pytest
from device_calls import run

from cuda_llm.outcomes import (
    DataRace,
    EmulatorUnsupported,
    HostCrashed,
    IllegalAccess,
    LaunchFailed,
    OutOfMemory,
    PolicyBreach,
    PolicyViolation,
    TimedOut,
    Verdict,
)
from cuda_llm.tools.device import CallOptions, CallReport, Level
from cuda_llm.verdict_wording import describe

SOURCE = (Path(__file__).parents[2] / "fixtures" / "devices" / "behaviours.cu").read_text()
MODES = re.findall(r'"([^"]+)"', SOURCE.partition("modes[] = {")[2].partition("}")[0])


def behave(mode: str, options: CallOptions | None = None) -> CallReport | Verdict:
    """Call the candidate once in one of its modes."""
    x = np.zeros(1024, np.float32)
    return run(SOURCE, {"x": x}, ["x"], MODES.index(mode), options=options).outcome


def line_of(comment: str) -> int:
    return SOURCE[: SOURCE.index(f"// {comment}")].count("\n") + 1


def test_an_access_past_the_end_names_line_and_thread() -> None:
    verdict = behave("past-the-end")
    assert isinstance(verdict, IllegalAccess)
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("out of bounds")
    assert verdict.spot.text.startswith("x[blockIdx.x * 256 + threadIdx.x] = n;")
    assert verdict.thread is not None
    assert (verdict.thread.kernel, verdict.thread.block) == ("past_the_end", (4, 0, 0))


def test_a_missing_barrier_is_a_race() -> None:
    verdict = behave("race", CallOptions(level=Level.FULL))
    assert isinstance(verdict, DataRace)
    assert verdict.spot is not None
    assert verdict.spot.line in {line_of("race"), line_of("race") - 1}


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("large-block", "cudaErrorInvalidConfiguration"),
        ("no-blocks", "cudaErrorInvalidConfiguration"),
        ("large-shared", "cudaErrorInvalidValue"),
        ("large-cooperative", "cudaErrorCooperativeLaunchTooLarge"),
    ],
)
def test_a_refused_launch_is_told_though_the_candidate_ignores_it(mode: str, error: str) -> None:
    report = behave(mode)
    assert isinstance(report, CallReport)
    assert isinstance(report.refused, LaunchFailed)
    assert (report.refused.kernel, report.refused.error) == ("fill", error)


def test_an_endless_kernel_names_its_loop() -> None:
    verdict = behave("endless", CallOptions(limit_s=0.5))
    assert isinstance(verdict, TimedOut)
    assert (verdict.stage, verdict.limit_s) == ("kernel", 0.5)
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("endless")


def test_an_endless_host_part_times_out_as_such() -> None:
    verdict = behave("host-loop", CallOptions(limit_s=0.5))
    assert isinstance(verdict, TimedOut)
    assert (verdict.stage, verdict.limit_s) == ("host", 0.5)


def test_host_code_reading_device_memory_is_refused() -> None:
    verdict = behave("touch")
    assert isinstance(verdict, PolicyViolation)
    assert verdict.rule == "host-touches-device-memory"
    assert verdict.location is not None
    assert (verdict.location.name, verdict.location.offset_bytes) == ("x", 20)


def test_copying_to_the_host_needs_the_capability() -> None:
    verdict = behave("copy-back", CallOptions(level=Level.CHECK))
    assert isinstance(verdict, PolicyViolation)
    assert verdict.rule == "host-copy"
    assert isinstance(behave("copy-back", CallOptions(device_to_host=True)), CallReport)


def test_a_large_table_from_the_host_is_refused() -> None:
    verdict = behave("copy-large")
    assert isinstance(verdict, PolicyViolation)
    assert verdict.breach == PolicyBreach(kind="large-copy", limit_bytes=1 << 20)
    assert describe(verdict) == ("api-call: cudaMemcpy of more than 1 MiB from host to device",)


def test_using_memory_that_was_refused_is_out_of_memory() -> None:
    assert isinstance(behave("out-of-memory", CallOptions(scratch_bytes=4096)), OutOfMemory)


def test_coping_with_refused_memory_is_reported() -> None:
    report = behave("cope", CallOptions(scratch_bytes=4096))
    assert isinstance(report, CallReport)
    assert report.out_of_memory is not None


def test_a_call_without_a_launch_is_noted() -> None:
    report = behave("nothing")
    assert isinstance(report, CallReport)
    assert (report.notes["launches"], report.launches) == ("0", ())
    assert "no-launch" in report.notes


def test_a_kernel_that_is_launched_has_to_be_supported() -> None:
    verdict = behave("exotic")
    assert isinstance(verdict, EmulatorUnsupported)
    assert (verdict.kernel, verdict.opcode[:3]) == ("exotic", "tex")
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("exotic")


def test_one_that_is_not_launched_need_not_be() -> None:
    assert isinstance(behave("plain"), CallReport)


@pytest.mark.parametrize(
    ("mode", "signal"),
    [
        ("null", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("throw", "SIGABRT"),
        ("illegal", "SIGILL"),
        ("hog", "SIGSEGV"),
    ],
)
def test_a_crash_of_the_host_part_names_its_signal(mode: str, signal: str) -> None:
    verdict = behave(mode)
    assert isinstance(verdict, HostCrashed)
    assert verdict.signal == signal


@pytest.mark.parametrize("call", ["openat", "socket", "clone", "fork", "execve"])
def test_a_raw_system_call_is_named(call: str) -> None:
    verdict = behave(call)
    assert isinstance(verdict, PolicyViolation)
    assert describe(verdict) == (f"syscall: the host part calls {call}",)


def test_a_flood_of_output_goes_nowhere() -> None:
    report = behave("flood")
    assert isinstance(report, CallReport)
    assert report.output == ""


@pytest.mark.parametrize(("fences", "races"), [("without_fence", True), ("with_fences", False)])
def test_an_addition_whose_result_is_dropped_orders_nothing_before_the_read(
    fences: str, races: bool
) -> None:
    """nvcc names a register for the result of every atomicAdd."""
    folder = Path(__file__).parents[2] / "fixtures" / "strangers" / "atomics"
    source = (folder / f"reduction__last_block_{fences}.cu").read_text()
    values = {"input": np.ones(8192, np.float32), "output": np.zeros(1, np.float32)}
    options = CallOptions(level=Level.FULL)
    called = run(source, values, ["output"], 8192, options=options)
    assert isinstance(called.outcome, DataRace if races else CallReport), called.outcome
