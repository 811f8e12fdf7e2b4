"""Every verdict that teaches something, as each device really gives it, with the cause it leads to.

The emulated device judges kernels here. A GPU's verdicts come from its error codes and from what
compute-sanitizer printed on an H200; what the validator and the timing find out is found by them,
on arrays that refuse what CuPy's refuse.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from array_mutants import mutants
from device_calls import run
from measured_site import Buffers, Call, Candidate, MeasuredSite, running
from small_tasks import small_task
from strict_arrays import strict_arrays
from timed_vector_adds import instant, late_in_one_call, overruns, small_bench, timed, timed_site

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.agents.reflection.diagnosis import FailureContext
from cuda_llm.agents.reflection.reflector import diagnose_failure
from cuda_llm.failures import CompileFailed, Duplicate, InvalidSync, NoCode
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    EmulatorUnsupported,
    GuardOverwritten,
    ImpossibleTime,
    InfraFailed,
    LateWrite,
    Passed,
    Quarantined,
    Verdict,
)
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.protocol import Forbidden
from cuda_llm.tools.cuda.sanitizer import read_findings
from cuda_llm.tools.cuda.verdicts import CallContext, load_failure, verdict_on_end
from cuda_llm.tools.device import CallOptions, CallReport
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import check
from cuda_llm.tools.measure.times import KernelTimes
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch
from cuda_llm.tools.runner.protocol import Refusal, Reply, ReplyFrame
from cuda_llm.tools.runner.runner import Ended
from cuda_llm.tools.validator.validate import Validated, validate

FIXTURES = Path(__file__).parents[2] / "fixtures"
CHANGES_ON_REPEAT = """\
__device__ float seen[3];

__global__ void add(const float* A, const float* B, float* C, int n)
{
    bool again = seen[0] == A[0] && seen[1] == B[0] && seen[2] == n && A[0] != 0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = again ? -1 : A[i] + B[i];
}

__global__ void remember(const float* A, const float* B, int n)
{
    seen[0] = A[0];
    seen[1] = B[0];
    seen[2] = n;
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
    remember<<<1, 1>>>(A, B, n);
}
"""


@dataclass(frozen=True)
class VerdictPath:
    """A verdict of one device and the cause that reflection finds in it."""

    verdict: Callable[[], Verdict]
    source: str
    cause: str


def adversarial(name: str) -> str:
    return (FIXTURES / f"adversarial/{name}.cu").read_text()


def judged(source: str, cause: str) -> VerdictPath:
    """The emulated device's verdict on a kernel for `vector_add`."""

    def verdict() -> Verdict:
        bench = open_bench(small_task("vector_add"), open_device("emulated"))
        _, outcome = asyncio.run(check(bench, source, "solve.cu"))
        assert not isinstance(outcome, Validated)
        return outcome

    return VerdictPath(verdict, source, cause)


def called(source: str, cause: str) -> VerdictPath:
    """The emulated device's verdict on one call, which may last a second."""

    def verdict() -> Verdict:
        values = {name: np.ones(1000, np.float32) for name in "ABC"}
        outcome = run(source, values, ["C"], 1000, options=CallOptions(limit_s=1.0)).outcome
        assert not isinstance(outcome, CallReport)
        return outcome

    return VerdictPath(verdict, source, cause)


def in_mode(mode: int, cause: str) -> VerdictPath:
    """The emulated device's verdict on one way to go wrong of `behaviours.cu`."""
    source = (FIXTURES / "devices/behaviours.cu").read_text()

    def verdict() -> Verdict:
        outcome = run(source, {"x": np.zeros(1024, np.float32)}, ["x"], mode).outcome
        refused = outcome.refused if isinstance(outcome, CallReport) else outcome
        assert refused is not None
        return refused

    return VerdictPath(verdict, source, cause)


def mode_of(name: str) -> int:
    source = (FIXTURES / "devices/behaviours.cu").read_text()
    modes = source.partition("modes[] = {")[2].partition("}")[0]
    return [one.strip().strip('"') for one in modes.split(",")].index(name)


def ended(reply: Reply, number: int, source: str, cause: str) -> VerdictPath:
    """The verdict on a GPU's runner whose last reply is this."""
    words = ReplyFrame(reply=reply, number=number)
    log = CallLog(launches=1, entries=(LoggedLaunch(kind=LaunchKind.KERNEL, symbol="add"),))
    context = CallContext(log=log, limit_s=3.0, arena=range(1000, 2000))
    last = Ended(status=0, final_reply=words, expired=False)
    return VerdictPath(lambda: verdict_on_end(last, context), source, cause)


def sanitized(bug: str, tool: str, cause: str) -> VerdictPath:
    """The verdict in what compute-sanitizer printed on an H200."""
    source = (FIXTURES / f"counters/bugs/{bug}.cu").read_text()
    nowhere = Path("nowhere")
    compiled = Compiled(
        key="0",
        name="mine.cu",
        source=source,
        target="sm_90a",
        library=nowhere,
        ptx=nowhere,
        kernels=(),
    )
    text = (FIXTURES / f"counters/sanitizer/{bug}.{tool}.txt").read_text()
    return VerdictPath(lambda: read_findings(text, compiled)[0], source, cause)


def validated(candidate: Candidate, source: str, cause: str) -> VerdictPath:
    """The validator's verdict over arrays that behave like CuPy's."""

    def verdict() -> Verdict:
        arrays, _ = strict_arrays()
        session = running(candidate, arrays=arrays)
        outcome = asyncio.run(validate(small_task("vector_add"), session, arrays=arrays))
        assert not isinstance(outcome, Validated)
        return outcome

    return VerdictPath(verdict, source, cause)


def measured(script: Callable[[Call], float], n: int, source: str, cause: str) -> VerdictPath:
    """The timing's verdict over arrays that behave like CuPy's."""

    def verdict() -> Verdict:
        plain = timed_site(script, chip="t4")
        arrays, _ = strict_arrays()
        site = MeasuredSite(hardware=plain.hardware, scripts=plain.scripts, arrays=arrays)
        outcome = timed(site, small_bench(n))
        assert not isinstance(outcome, KernelTimes)
        return outcome

    return VerdictPath(verdict, source, cause)


def changes_its_input(b: Buffers, options: CallOptions) -> None:
    b["C"][...] = b["A"] + b["B"]
    b["A"][0] += 1


class ChangesOnRepeat:
    """Right but where it has seen the inputs before."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def __call__(self, b: Buffers, options: CallOptions) -> None:
        key = b["A"].tobytes() + b["B"].tobytes()
        b["C"][...] = -1 if key in self.seen else b["A"] + b["B"]
        self.seen.add(key)


CHANGES_INPUT = adversarial("changes_its_input")
PAST_END = adversarial("reads_past_the_end")
PLAIN = adversarial("exits")
EMULATED: Mapping[str, VerdictPath] = {
    "POLICY_VIOLATION": judged(adversarial("opens_a_file"), "syscall"),
    "LOAD_FAILED": judged(adversarial("calls_our_runtime"), "undefined function"),
    "LAUNCH_FAILED": judged(adversarial("launch_refused_and_ignored"), "configuration"),
    "ILLEGAL_ACCESS": judged(PAST_END, "wrong bound"),
    "MISALIGNED": judged(adversarial("misaligned_vectors"), "vector access"),
    "DEVICE_ASSERT": judged(adversarial("traps"), "assertion"),
    "DATA_RACE": judged(adversarial("races_in_shared_memory"), "missing barrier"),
    "UNINITIALISED_READ": judged(adversarial("adds_to_what_it_finds"), "garbage output"),
    "INVALID_SYNC": judged(adversarial("barrier_not_for_all"), "partial mask"),
    "TIMED_OUT": called(adversarial("never_ends"), "kernel"),
    "OUT_OF_MEMORY": judged(adversarial("takes_all_memory"), "scratch memory"),
    "HOST_CRASHED": judged(PLAIN, "ends the process"),
    "WRONG_RESULT": judged(adversarial("only_fills"), "nothing computed"),
    "INPUT_MUTATED": judged(CHANGES_INPUT, "writes an input"),
    "NONDETERMINISTIC": judged(CHANGES_ON_REPEAT, "unsynchronised blocks"),
    "EMULATOR_UNSUPPORTED": in_mode(mode_of("exotic"), "textures and surfaces"),
}
GPU: Mapping[str, VerdictPath] = {
    "POLICY_VIOLATION": ended(Reply.FORBIDDEN, Forbidden.HOST_COPY, PLAIN, "host-copy"),
    "LOAD_FAILED": VerdictPath(
        lambda: load_failure(ReplyFrame(reply=Reply.REFUSED, number=Refusal.DRIVER)),
        PLAIN,
        "device code",
    ),
    "LAUNCH_FAILED": ended(Reply.FAULTED, 701, PLAIN, "registers"),
    "ILLEGAL_ACCESS": ended(Reply.FAULTED, 700, PAST_END, "place unknown"),
    "MISALIGNED": ended(Reply.FAULTED, 716, adversarial("misaligned_vectors"), "vector access"),
    "DEVICE_ASSERT": ended(Reply.FAULTED, 710, adversarial("traps"), "assertion"),
    "DATA_RACE": sanitized("race", "racecheck", "missing barrier"),
    "UNINITIALISED_READ": sanitized("uninit", "initcheck", "unwritten memory"),
    "TIMED_OUT": ended(Reply.FAULTED, 702, adversarial("never_ends"), "kernel"),
    "OUT_OF_MEMORY": ended(Reply.FAULTED, 2, adversarial("takes_all_memory"), "scratch memory"),
    "HOST_CRASHED": ended(Reply.DIED, signal.SIGFPE, PLAIN, "division by zero"),
    "WRONG_RESULT": validated(mutants("vector_add")["zero"], PLAIN, "nothing computed"),
    "GUARD_OVERWRITTEN": measured(overruns, 96, PLAIN, "unchecked store"),
    "INPUT_MUTATED": validated(changes_its_input, CHANGES_INPUT, "writes an input"),
    "NONDETERMINISTIC": validated(ChangesOnRepeat(), CHANGES_ON_REPEAT, "unsynchronised blocks"),
    "LATE_WRITE": measured(late_in_one_call, 96, PLAIN, "work outlives the call"),
    "IMPOSSIBLE_TIME": measured(instant, 65536, PLAIN, "work left out"),
}

TEACHES_NOTHING = {Passed, Quarantined, InfraFailed}
BEFORE_ANY_DEVICE = {NoCode, Duplicate, CompileFailed}
"""Of the reply, the run and the compiler; `test_failures.py` and `test_real_verdicts.py`."""
NOT_BY_THE_EMULATED = {GuardOverwritten, LateWrite, ImpossibleTime}
"""It stops a store at the buffer's end, a call returns when its kernels have ended, and its times
are modelled from what was executed."""
NOT_BY_A_GPU = {EmulatorUnsupported, InvalidSync}
"""It hangs at such a barrier, or goes on: the emulated device beside it says INVALID_SYNC."""


@pytest.mark.parametrize("code", EMULATED)
def test_the_emulated_devices_verdict_leads_to_its_cause(code: str) -> None:
    assert cause_of(EMULATED[code], code) == EMULATED[code].cause


@pytest.mark.parametrize("code", GPU)
def test_a_gpus_verdict_leads_to_its_cause(code: str) -> None:
    assert cause_of(GPU[code], code) == GPU[code].cause


def test_every_kind_of_verdict_has_its_path_on_each_device() -> None:
    kinds = {one for one in get_args(Verdict) if one not in TEACHES_NOTHING | BEFORE_ANY_DEVICE}
    assert set(EMULATED) == {one.code for one in kinds - NOT_BY_THE_EMULATED}
    assert set(GPU) == {one.code for one in kinds - NOT_BY_A_GPU}


def cause_of(path: VerdictPath, code: str) -> str:
    verdict = path.verdict()
    assert verdict.code == code, verdict
    context = FailureContext(
        source=SourceFacts(path.source),
        task=small_task("vector_add"),
        hardware=find_hardware("H200"),
    )
    found = diagnose_failure(verdict, context)
    assert found is not None
    assert found.text.endswith(".")
    return found.cause
