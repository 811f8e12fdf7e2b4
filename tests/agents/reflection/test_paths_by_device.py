"""Every verdict that teaches something, as each device really gives it, with the cause it leads to.

The emulated device judges kernels here. A GPU's verdicts come from its error codes and from what
compute-sanitizer printed on an H200; what the validator and the timing find out is found by them,
on arrays that refuse what CuPy's refuse.
"""

import asyncio
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from array_mutants import mutants
from device_calls import compiled, run
from measured_site import Buffers, Call, Candidate, MeasuredSite, running
from small_tasks import small_task
from strict_arrays import strict_arrays
from timed_vector_adds import instant, late_in_one_call, overruns, small_bench, timed, timed_site

from cuda_llm.agents.kernel_facts import SourceFacts
from cuda_llm.agents.reflection.failure_hints import hint_from
from cuda_llm.agents.reflection.kernel_context import KernelContext
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    CompileFailed,
    Duplicate,
    EmulatorUnsupported,
    GuardOverwritten,
    IllegalAccess,
    InfraFailed,
    LateWrite,
    NoCode,
    Passed,
    Quarantined,
    Replay,
    Verdict,
    lacks_place,
    with_place,
    with_replay,
)
from cuda_llm.search import Hint
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.call_log import CallLog
from cuda_llm.tools.cuda.protocol import Forbidden, Order
from cuda_llm.tools.cuda.sanitizer import read_findings
from cuda_llm.tools.cuda.verdicts import CallContext, load_failure, verdict_on_end
from cuda_llm.tools.device import CallOptions, CallReport, Level, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.protocol import Refusal, ReplyFrame, RunnerReply
from cuda_llm.tools.device.runner import RunnerEnded
from cuda_llm.tools.judge.judge import check, open_bench, time_compiled
from cuda_llm.tools.judge.watched_check import WatchedCases, conclude_check, conclude_replay
from cuda_llm.tools.open_device import open_device, open_emulated
from cuda_llm.tools.profiler.launch_log import LaunchKind, LoggedLaunch
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.cases import timed_case
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.verdict_wording import describe

FIXTURES = Path(__file__).parents[2] / "fixtures"
BUGS = FIXTURES / "counters"
BEHAVIOURS = (FIXTURES / "devices/behaviours.cu").read_text()
MODES = re.findall(r'"([^"]+)"', BEHAVIOURS.partition("modes[] = {")[2].partition("}")[0])
LAUNCHED = CallLog(launches=1, entries=(LoggedLaunch(kind=LaunchKind.KERNEL, symbol="add"),))
SCENE = CallContext(
    log=LAUNCHED,
    limit_s=3.0,
    order=Order.CALL,
    arena=range(1000, 2000),
    names={"add": "add"},
)
NONSENSE = re.compile(r"\b0[- ]bytes?\b|multiple of 0|None|<[A-Z]")
"""What stands where a fact is unknown and somebody writes it nevertheless."""
CHANGES_ON_REPEAT = """\
__device__ float seen[3];
__device__ volatile int last, last_then;

__device__ bool again(const float* A, const float* B, int n)
{
    return seen[0] == A[0] && seen[1] == B[0] && seen[2] == n && A[0] != 0;
}

__global__ void run_blocks() { last = blockIdx.x; }

__global__ void add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = again(A, B, n) && last != last_then ? -1 : A[i] + B[i];
}

__global__ void remember(const float* A, const float* B, int n)
{
    if (again(A, B, n)) return;
    seen[0] = A[0];
    seen[1] = B[0];
    seen[2] = n;
    last_then = last;
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    run_blocks<<<(n + 255) / 256, 1>>>();
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
    remember<<<1, 1>>>(A, B, n);
}
"""

ONLY_FILLS = """\
__global__ void fill(float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = 0;
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    fill<<<(n + 255) / 256, 256>>>(C, n);
}
"""
"""Right where all inputs are zero, without reading one."""


@dataclass(frozen=True)
class VerdictPath:
    """A verdict of one device and the cause that reflection finds in it."""

    verdict: Callable[[], Verdict]
    source: str
    cause: str


def adversarial(name: str) -> str:
    return (FIXTURES / f"adversarial/{name}.cu").read_text()


def judged(source: str, cause: str, name: str = "solve.cu") -> VerdictPath:
    """The emulated device's verdict on a kernel for `vector_add`."""

    def verdict() -> Verdict:
        bench = open_bench(small_task("vector_add"), open_device("emulated"), seed=1)
        _, outcome = asyncio.run(check(bench, source, name))
        assert not isinstance(outcome, Validated)
        return outcome

    return VerdictPath(verdict, source, cause)


def attack(name: str, cause: str) -> VerdictPath:
    """The same of a kernel that cheats or is broken, compiled as wherever it is judged."""
    return judged(adversarial(name), cause, f"{name}.cu")


def called(source: str, cause: str) -> VerdictPath:
    """The emulated device's verdict on one call, which may last a second."""
    return VerdictPath(lambda: emulate(source, limit_s=1.0, level=Level.CHECK), source, cause)


def in_mode(mode: str, cause: str) -> VerdictPath:
    """The emulated device's verdict on one way to go wrong of `behaviours.cu`."""
    return VerdictPath(lambda: behave(mode), BEHAVIOURS, cause)


def too_quick(source: str, n: int, cause: str) -> VerdictPath:
    """The emulated device's verdict on a time for `vector_add` with inputs that are all zero."""
    task = load_task("vector_add")
    zeros = tuple(
        replace(one, distributions=("zeros",)) if one.distributions else one
        for one in task.arguments
    )
    sizes = replace(task.sizes, emulated=({"n": n},))
    task = replace(task, arguments=zeros, sizes=sizes, linear=False)

    async def verdict() -> Verdict:
        device = open_device("emulated")
        compiled = await open_bench(task, device).compile(source, "solve.cu")
        assert isinstance(compiled, Compiled), compiled
        outcome = await time_compiled(task, device, compiled)
        assert not isinstance(outcome, KernelTimes | FailedCase), outcome
        return outcome

    return VerdictPath(lambda: asyncio.run(verdict()), source, cause)


def emulate(source: str, limit_s: float = 5.0, level: Level = Level.FULL) -> Verdict:
    values = {name: np.ones(1000, np.float32) for name in "ABC"}
    options = CallOptions(level=level, limit_s=limit_s)
    return fault_in(run(source, values, ["C"], 1000, options=options).outcome)


def behave(mode: str, options: CallOptions | None = None) -> Verdict:
    x = np.zeros(1024, np.float32)
    return fault_in(run(BEHAVIOURS, {"x": x}, ["x"], MODES.index(mode), options=options).outcome)


def fault_in(outcome: CallReport | Verdict) -> Verdict:
    verdict = outcome.refused if isinstance(outcome, CallReport) else outcome
    assert verdict is not None
    return verdict


def lost(number: int, reply: RunnerReply = RunnerReply.FAULTED) -> Verdict:
    """What a GPU's runner says whose last reply is this."""
    words = ReplyFrame(reply=reply, number=number)
    return verdict_on_end(RunnerEnded(status=0, final_reply=words, expired=False), SCENE)


def ended(reply: RunnerReply, number: int, source: str, cause: str) -> VerdictPath:
    """The verdict on a GPU's runner whose last reply is this."""
    return VerdictPath(lambda: lost(number, reply), source, cause)


def hung(source: str, cause: str) -> VerdictPath:
    """The verdict on a kernel that hangs on a GPU, with the place that its replay finds."""

    def verdict() -> Verdict:
        log = replace(LAUNCHED, waiting=True)
        scene = replace(SCENE, log=log)
        late = verdict_on_end(RunnerEnded(status=-9, final_reply=None, expired=True), scene)
        assert (late.code, lacks_place(late)) == ("TIMED_OUT", True)
        return with_place(late, emulate(source))

    return VerdictPath(verdict, source, cause)


def source_of(bug: str) -> str:
    return (BUGS / f"bugs/{bug}.cu").read_text()


def finding(bug: str, tool: str) -> Verdict:
    """The verdict in what compute-sanitizer printed on an H200."""
    nowhere = Path("nowhere")
    compiled = Compiled(
        key="0",
        name="mine.cu",
        source=source_of(bug),
        target="sm_90a",
        library=nowhere,
        ptx=nowhere,
        kernels=(),
    )
    text = (BUGS / f"sanitizer/{bug}.{tool}.txt").read_text()
    return read_findings(text, compiled)[0]


def sanitized(bug: str, tool: str, cause: str) -> VerdictPath:
    """The verdict in what compute-sanitizer printed on an H200."""
    return VerdictPath(lambda: finding(bug, tool), source_of(bug), cause)


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
    """Right but where it has seen the inputs before, in another order of blocks."""

    def __init__(self) -> None:
        self.seeds: dict[bytes, int] = {}

    def __call__(self, b: Buffers, options: CallOptions) -> None:
        seed = self.seeds.setdefault(b["A"].tobytes() + b["B"].tobytes(), options.schedule_seed)
        b["C"][...] = b["A"] + b["B"] if seed == options.schedule_seed else -1


CHANGES_INPUT = adversarial("changes_its_input")
PAST_END = adversarial("reads_past_the_end")
PLAIN = adversarial("exits")
EMULATED: Mapping[str, VerdictPath] = {
    "POLICY_VIOLATION": attack("opens_a_file", "syscall"),
    "LOAD_FAILED": attack("calls_our_runtime", "undefined function"),
    "LAUNCH_FAILED": attack("launch_refused_and_ignored", "configuration"),
    "ILLEGAL_ACCESS": attack("reads_past_the_end", "wrong bound"),
    "MISALIGNED": attack("misaligned_vectors", "vector access"),
    "DEVICE_ASSERT": attack("traps", "assertion"),
    "DATA_RACE": attack("races_in_shared_memory", "missing barrier"),
    "UNINITIALISED_READ": attack("adds_to_what_it_finds", "garbage output"),
    "INVALID_SYNC": attack("barrier_not_for_all", "partial mask"),
    "TIMED_OUT": called(adversarial("never_ends"), "kernel"),
    "OUT_OF_MEMORY": attack("takes_all_memory", "scratch memory"),
    "HOST_CRASHED": attack("exits", "ends the process"),
    "WRONG_RESULT": attack("only_fills", "nothing computed"),
    "INPUT_MUTATED": attack("changes_its_input", "writes an input"),
    "NONDETERMINISTIC": judged(CHANGES_ON_REPEAT, "unsynchronised blocks"),
    "IMPOSSIBLE_TIME": too_quick(ONLY_FILLS, 1 << 22, "work left out"),
    "EMULATOR_UNSUPPORTED": in_mode("exotic", "textures and surfaces"),
}
GPU: Mapping[str, VerdictPath] = {
    "POLICY_VIOLATION": ended(RunnerReply.FORBIDDEN, Forbidden.HOST_COPY, PLAIN, "host-copy"),
    "LOAD_FAILED": VerdictPath(
        lambda: load_failure(ReplyFrame(reply=RunnerReply.REFUSED, number=Refusal.DRIVER)),
        PLAIN,
        "device code",
    ),
    "LAUNCH_FAILED": ended(RunnerReply.FAULTED, 701, PLAIN, "registers"),
    "ILLEGAL_ACCESS": ended(RunnerReply.FAULTED, 700, PAST_END, "place unknown"),
    "MISALIGNED": ended(
        RunnerReply.FAULTED, 716, adversarial("misaligned_vectors"), "vector access"
    ),
    "DEVICE_ASSERT": ended(RunnerReply.FAULTED, 710, adversarial("traps"), "assertion"),
    "DATA_RACE": sanitized("race", "racecheck", "missing barrier"),
    "UNINITIALISED_READ": sanitized("uninit", "initcheck", "unwritten memory"),
    "INVALID_SYNC": hung(adversarial("barrier_not_for_all"), "partial mask"),
    "TIMED_OUT": ended(RunnerReply.FAULTED, 702, adversarial("never_ends"), "kernel"),
    "OUT_OF_MEMORY": ended(
        RunnerReply.FAULTED, 2, adversarial("takes_all_memory"), "scratch memory"
    ),
    "HOST_CRASHED": ended(RunnerReply.DIED, signal.SIGFPE, PLAIN, "division by zero"),
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
NOT_BY_THE_EMULATED = {GuardOverwritten, LateWrite}
"""It stops what would change a guard, and a call returns when its kernels have ended: see the tests
below."""
NOT_BY_A_GPU = {EmulatorUnsupported}
"""Not even where the emulated device is asked about its kernel: see below."""


@pytest.mark.evidence
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
    found = diagnose(verdict, path.source)
    assert found.text.endswith(".")
    return found.cause


def diagnose(verdict: Verdict, source: str) -> Hint:
    context = KernelContext(
        round=1,
        about="r1-c1",
        source=SourceFacts(source),
        task=small_task("vector_add"),
        hardware=find_hardware("H200"),
    )
    found = hint_from(verdict, context)
    assert found is not None, verdict
    assert not NONSENSE.search(" ".join((found.text, found.evidence, *describe(verdict))))
    return found


OUTSIDE: Mapping[str, str] = {
    "a store behind": "k<<<1, 1>>>(C + n);",
    "a store before": "k<<<1, 1>>>(C - 1);",
    "an atomic behind": "add<<<1, 1>>>(C + n);",
    "a store far behind": "k<<<1, 1>>>(C + n + 512);",
    "a fill": "cudaMemset(C, 1, (n + 1) * sizeof(float));",
    "a copy": "cudaMemcpy(C + 1, A, n * sizeof(float), cudaMemcpyDeviceToDevice);",
}


@pytest.mark.evidence
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("way", OUTSIDE)
def test_the_emulated_device_stops_what_would_change_a_guard(way: str, level: Level) -> None:
    ways = "\n".join(f"if (way == {at}) {call}" for at, call in enumerate(OUTSIDE.values()))
    source = (
        "__global__ void k(float* p) { *p = 1; }\n"
        "__global__ void add(float* p) { atomicAdd(p, 1.0f); }\n"
        f'extern "C" void solve(const float* A, float* C, int n, int way) {{\n{ways}\n}}\n'
    )

    async def call() -> CallReport | Verdict:
        device = open_emulated()
        async with device.open(await compiled(source, device.hardware.target)) as session:
            assert isinstance(session, Session)
            roles = {"A": Role.IN, "C": Role.OUT}
            placed = session.place(
                [
                    BufferSpec(name=n, role=r, dtype="float32", shape=(100,))
                    for n, r in roles.items()
                ]
            )
            guards = [g for one in placed.values() for g in (one.guard_before, one.guard_after)]
            for guard in guards:
                guard[...] = 0x5A
            scalars = [Scalar(value=one, ctype="int") for one in (100, list(OUTSIDE).index(way))]
            outcome = await session.call(["A", "C", *scalars], CallOptions(level=level))
            assert all((guard == 0x5A).all() for guard in guards)
            return outcome

    outcome = asyncio.run(call())
    if way in {"a fill", "a copy"}:
        assert isinstance(outcome, CallReport)  # CUDA answers such a call with an error.
        assert outcome.launches == ()
    else:
        assert isinstance(outcome, IllegalAccess)


@pytest.mark.evidence
def test_on_the_emulated_device_nothing_runs_once_a_call_has_returned() -> None:
    source = """\
    #include <cstdlib>
    __global__ void clear(float* C, int n) { for (int i = 0; i < n; ++i) C[i] = 0; }
    __global__ void add(float* C, int n) { for (int i = 0; i < n; ++i) C[i] += 1; }
    float* late; int many;
    extern "C" void solve(float* C, int n)
    {
        late = C, many = n;
        atexit([] { add<<<1, 1>>>(late, many); });
        clear<<<1, 1>>>(C, n);
        for (int i = 0; i < 50; ++i) add<<<1, 1>>>(C, n);
    }
    """

    async def call() -> None:
        device = open_emulated()
        async with device.open(await compiled(source, device.hardware.target)) as session:
            assert isinstance(session, Session)
            spec = BufferSpec(name="C", role=Role.OUT, dtype="float32", shape=(1000,))
            output = session.place([spec])["C"].data
            report = await session.call(["C", Scalar(value=1000, ctype="int")], CallOptions())
            assert isinstance(report, CallReport), report
            assert (output == 50).all()
            await asyncio.sleep(0.2)
            assert (output == 50).all()

    asyncio.run(call())
    assert attack("starts_a_thread", "").verdict().code == "POLICY_VIOLATION"


def test_a_gpus_verdict_stands_where_the_emulated_device_cannot_run_the_kernel() -> None:
    unable = behave("exotic")
    assert isinstance(unable, EmulatorUnsupported)
    case = timed_case(small_task("vector_add"), {"n": 8}, Level.CHECK)
    failed = FailedCase(verdict=lost(700), case=case, inputs={}, buffer_bytes=96)
    verdict = conclude_replay(failed, unable, 30.0)
    assert isinstance(verdict, IllegalAccess)
    assert verdict.replay is not None and verdict.replay.outcome == "not-run"
    assert "exotic needs tex.1d.v4.f32.s32" in verdict.replay.detail
    assert conclude_check(WatchedCases(verdict=unable)).fault is None


def test_no_last_word_of_a_gpus_runner_is_about_the_emulated_device() -> None:
    codes = {lost(number, reply).code for reply in RunnerReply for number in range(1000)}
    assert "ILLEGAL_ACCESS" in codes
    assert EmulatorUnsupported.code not in codes


SEEN_BY_BOTH: list[tuple[str, str, str, str]] = [
    ("oob_read", "memcheck", "ILLEGAL_ACCESS", "wrong bound"),
    ("oob_write", "memcheck", "ILLEGAL_ACCESS", "wrong bound"),
    ("oob_shared", "memcheck", "ILLEGAL_ACCESS", "shared array"),
    ("misaligned", "memcheck", "MISALIGNED", "vector access"),
    ("race", "racecheck", "DATA_RACE", "missing barrier"),
    ("race_ww", "racecheck", "DATA_RACE", "same word"),
    ("uninit", "initcheck", "UNINITIALISED_READ", ""),
]
"""Bug, tool of compute-sanitizer, code and cause."""


@pytest.mark.evidence
@pytest.mark.parametrize(("bug", "tool", "code", "cause"), SEEN_BY_BOTH)
def test_both_devices_lead_to_one_cause(bug: str, tool: str, code: str, cause: str) -> None:
    here = diagnose(emulate(source_of(bug)), source_of(bug))
    there = diagnose(finding(bug, tool), source_of(bug))
    assert here.code == there.code == code
    assert here.evidence.startswith("line ") or " at line " in here.evidence
    assert there.evidence.startswith("line ") or " at line " in there.evidence
    if cause:
        assert here.cause == there.cause == cause


@pytest.mark.evidence
def test_a_line_of_a_header_is_not_taken_for_one_of_the_kernel() -> None:
    source = source_of("oob_atomic")
    here = diagnose(emulate(source), source)
    there = diagnose(finding("oob_atomic", "memcheck"), source)
    assert (here.cause, there.cause) == ("wrong bound", "out of bounds")
    assert there.evidence.startswith("sm_20_atomic_functions.hpp:84; atomic of 4 bytes")


@pytest.mark.evidence
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
        (710, "DEVICE_ASSERT", "assertion", "relies on"),
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


@pytest.mark.evidence
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


def test_a_host_part_that_dies_on_a_gpu_is_described_by_its_signal() -> None:
    verdict = lost(signal.SIGFPE, RunnerReply.DIED)
    assert diagnose(verdict, source_of("clean")).cause == "division by zero"
