"""Diagnoses of what both devices really say of bad kernels: the emulated one runs them here, a GPU
is known by its error codes and by what compute-sanitizer printed on an H200."""

import re
import signal
from pathlib import Path

import numpy as np
import pytest
from device_calls import run

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext
from cuda_llm.agents.reflection.reflector import diagnose_failure
from cuda_llm.facts import Replay
from cuda_llm.failures import lacks_place, with_place, with_replay
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.sanitizer import read_findings
from cuda_llm.tools.cuda.verdicts import CallContext as Ending
from cuda_llm.tools.cuda.verdicts import verdict_on_end
from cuda_llm.tools.device import CallOptions, CallReport, Level
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch
from cuda_llm.tools.runner.protocol import Reply, ReplyFrame
from cuda_llm.tools.runner.runner import Ended
from cuda_llm.wording import describe

FIXTURES = Path(__file__).parents[2] / "fixtures"
BUGS = FIXTURES / "counters"
BEHAVIOURS = (FIXTURES / "devices/behaviours.cu").read_text()
MODES = re.findall(r'"([^"]+)"', BEHAVIOURS.partition("modes[] = {")[2].partition("}")[0])
N = 1000
LAUNCHED = CallLog(launches=1, entries=(LoggedLaunch(kind=LaunchKind.KERNEL, symbol="add"),))
NONSENSE = re.compile(r"\b0[- ]bytes?\b|multiple of 0|None|<[A-Z]")
"""What stands where a fact is unknown and somebody writes it nevertheless."""


def source_of(bug: str) -> str:
    return (BUGS / f"bugs/{bug}.cu").read_text()


def diagnose(verdict: Verdict, source: str) -> Diagnosis:
    context = FailureContext(
        source=SourceFacts(source), task=load_task("vector_add"), hardware=find_hardware("H200")
    )
    found = diagnose_failure(verdict, context)
    assert found is not None, verdict
    assert not NONSENSE.search(" ".join((found.text, found.evidence, *describe(verdict))))
    return found


def emulate(source: str, limit_s: float = 5.0) -> Verdict:
    values = {name: np.ones(N, np.float32) for name in "ABC"}
    options = CallOptions(level=Level.FULL, limit_s=limit_s)
    outcome = run(source, values, ["C"], N, options=options).outcome
    verdict = outcome.refused if isinstance(outcome, CallReport) else outcome
    assert verdict is not None
    return verdict


def behave(mode: str, options: CallOptions | None = None) -> Verdict:
    x = np.zeros(1024, np.float32)
    outcome = run(BEHAVIOURS, {"x": x}, ["x"], MODES.index(mode), options=options).outcome
    verdict = outcome.refused if isinstance(outcome, CallReport) else outcome
    assert verdict is not None
    return verdict


def sanitized(bug: str, tool: str) -> Verdict:
    compiled = Compiled(
        key="0",
        name="mine.cu",
        source=source_of(bug),
        target="sm_90a",
        library=Path("candidate.so"),
        ptx=Path("kernel.ptx"),
        kernels=(),
    )
    text = (BUGS / f"sanitizer/{bug}.{tool}.txt").read_text()
    return read_findings(text, compiled)[0]


def lost(number: int) -> Verdict:
    """What a GPU's runner says whose context is lost with this error."""
    words = ReplyFrame(reply=Reply.FAULTED, number=number)
    ending = Ending(log=LAUNCHED, limit_s=3.0, arena=range(1000, 2000))
    return verdict_on_end(Ended(status=0, final_reply=words, expired=False), ending)


@pytest.mark.parametrize(
    ("bug", "tool", "code", "cause"),
    [
        ("oob_read", "memcheck", "ILLEGAL_ACCESS", "wrong bound"),
        ("oob_write", "memcheck", "ILLEGAL_ACCESS", "wrong bound"),
        ("oob_shared", "memcheck", "ILLEGAL_ACCESS", "shared array"),
        ("misaligned", "memcheck", "MISALIGNED", "vector access"),
        ("race", "racecheck", "DATA_RACE", "missing barrier"),
        ("race_ww", "racecheck", "DATA_RACE", "same word"),
        ("uninit", "initcheck", "UNINITIALISED_READ", ""),
    ],
)
def test_both_devices_lead_to_one_cause(bug: str, tool: str, code: str, cause: str) -> None:
    here = diagnose(emulate(source_of(bug)), source_of(bug))
    there = diagnose(sanitized(bug, tool), source_of(bug))
    assert here.code == there.code == code
    assert here.evidence.startswith("line ") or " at line " in here.evidence
    assert there.evidence.startswith("line ") or " at line " in there.evidence
    if cause:
        assert here.cause == there.cause == cause


def test_a_line_of_a_header_is_not_taken_for_one_of_the_kernel() -> None:
    source = source_of("oob_atomic")
    here = diagnose(emulate(source), source)
    there = diagnose(sanitized("oob_atomic", "memcheck"), source)
    assert (here.cause, there.cause) == ("wrong bound", "out of bounds")
    assert there.evidence.startswith("sm_20_atomic_functions.hpp:84; atomic of 4 bytes")


@pytest.mark.parametrize(
    ("bug", "code", "cause"),
    [
        ("asserts", "DEVICE_ASSERT", "assertion"),
        ("refused", "LAUNCH_FAILED", "configuration"),
    ],
)
def test_what_no_sanitizer_reports_the_emulated_device_does(
    bug: str, code: str, cause: str
) -> None:
    found = diagnose(emulate(source_of(bug), limit_s=1.0), source_of(bug))
    assert (found.code, found.cause) == (code, cause)
    assert "line " in found.evidence


@pytest.mark.parametrize(
    ("mode", "code", "cause"),
    [
        ("past-the-end", "ILLEGAL_ACCESS", "no bound check"),
        ("touch", "POLICY_VIOLATION", "host-touches-device-memory"),
        ("copy-back", "POLICY_VIOLATION", "host-copy"),
        ("openat", "POLICY_VIOLATION", "syscall"),
        ("endless", "TIMED_OUT", "kernel"),
        ("host-loop", "TIMED_OUT", "host"),
        ("null", "HOST_CRASHED", "bad pointer"),
        ("abort", "HOST_CRASHED", "ends the process"),
        ("large-block", "LAUNCH_FAILED", "configuration"),
        ("no-blocks", "LAUNCH_FAILED", "configuration"),
        ("large-shared", "LAUNCH_FAILED", "shared memory"),
        ("large-cooperative", "LAUNCH_FAILED", "cooperative grid"),
        ("out-of-memory", "OUT_OF_MEMORY", "scratch memory"),
        ("exotic", "EMULATOR_UNSUPPORTED", "textures and surfaces"),
    ],
)
def test_what_goes_wrong_around_a_kernel_has_its_cause(mode: str, code: str, cause: str) -> None:
    options = CallOptions(limit_s=1.0, scratch_bytes=4096 if mode == "out-of-memory" else 0)
    found = diagnose(behave(mode, options), BEHAVIOURS)
    assert (found.code, found.cause) == (code, cause)


@pytest.mark.parametrize(
    ("number", "code", "cause", "words"),
    [
        (700, "ILLEGAL_ACCESS", "place unknown", "a thread touched memory that is not its own"),
        (714, "ILLEGAL_ACCESS", "stack", "recursion"),
        (717, "ILLEGAL_ACCESS", "address space", "inline PTX"),
        (716, "MISALIGNED", "vector access", "not a multiple of the size"),
        (710, "DEVICE_ASSERT", "assertion", "takes for granted"),
        (715, "DEVICE_ASSERT", "illegal instruction", "inline PTX"),
        (718, "DEVICE_ASSERT", "wild jump", "calls through pointers"),
        (719, "DEVICE_ASSERT", "launch failure", "shared or local memory"),
        (702, "TIMED_OUT", "kernel", "does not end"),
        (2, "OUT_OF_MEMORY", "scratch memory", "Free what cudaMalloc gave"),
        (701, "LAUNCH_FAILED", "registers", "registers"),
        (720, "LAUNCH_FAILED", "cooperative grid", "cooperative"),
        (912, "LAUNCH_FAILED", "cluster", "cluster"),
        (304, "HOST_CRASHED", "foreign descriptor", "descriptor"),
    ],
)
def test_an_error_code_alone_says_what_it_means_and_how_to_find_out(
    number: int, code: str, cause: str, words: str
) -> None:
    source = source_of("misaligned")
    verdict = lost(number)
    found = diagnose(verdict, source)
    assert (found.code, found.cause) == (code, cause)
    assert words in f"{found.text} {found.evidence}"
    if code in {"ILLEGAL_ACCESS", "MISALIGNED", "DEVICE_ASSERT"}:
        assert lacks_place(verdict)
        assert "(cudaError" in found.evidence
        assert "line 14: `add<<<" in found.evidence
        assert "compute-sanitizer" in found.evidence


def test_the_emulated_devices_place_completes_a_gpus_error() -> None:
    source = source_of("oob_shared")
    located = with_place(lost(719), emulate(source))
    found = diagnose(located, source)
    assert not lacks_place(located)
    assert (found.code, found.cause) == ("ILLEGAL_ACCESS", "shared array")
    assert found.evidence.startswith("line 7: `tile[threadIdx.x]")
    assert "(cudaErrorLaunchFailure in add)" in found.evidence
    assert "the emulated device ran the case" in " ".join(describe(located))


def test_a_read_of_nothing_does_not_stand_for_an_access_that_a_gpu_refused() -> None:
    met = emulate(source_of("uninit"))
    verdict = with_place(lost(700), met)
    assert (met.code, verdict.code) == ("UNINITIALISED_READ", "ILLEGAL_ACCESS")
    assert "UNINITIALISED_READ" in " ".join(describe(verdict))


def test_a_search_that_found_no_place_says_so() -> None:
    nothing = with_replay(lost(700), Replay(outcome="nothing-found"))
    assert not lacks_place(nothing)
    assert "found nothing" in diagnose(nothing, source_of("clean")).evidence
    late = with_replay(lost(700), Replay(outcome="not-finished", limit_s=20))
    assert "within 20 s" in diagnose(late, source_of("clean")).evidence


def test_a_host_part_that_dies_on_a_gpu_is_diagnosed_by_its_signal() -> None:
    words = ReplyFrame(reply=Reply.DIED, number=signal.SIGFPE)
    ending = Ending(log=LAUNCHED, limit_s=3.0, arena=range(1000, 2000))
    verdict = verdict_on_end(Ended(status=0, final_reply=words, expired=False), ending)
    assert diagnose(verdict, source_of("clean")).cause == "division by zero"
