"""From verdicts to causes: each kind, its likely cause in the source, and what stays hidden."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.agents.kernel_facts import SourceFacts
from cuda_llm.agents.reflection.failure_hints import hint_from
from cuda_llm.agents.reflection.kernel_context import KernelContext
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import (
    CaseKind,
    CasePattern,
    CompileFailed,
    CopyUnderWay,
    DataRace,
    DeviceAssert,
    Diagnostic,
    Duplicate,
    ElementKind,
    ElementPattern,
    EmulatorUnsupported,
    ExceededLimit,
    FailedCall,
    GuardOverwritten,
    HostCrashed,
    IllegalAccess,
    ImpossibleTime,
    InfraFailed,
    InputMutated,
    InvalidSync,
    LateWrite,
    LaunchFailed,
    LoadFailed,
    Location,
    MemoryAccess,
    Misaligned,
    NoCode,
    Nondeterministic,
    OutOfMemory,
    Passed,
    PolicyBreach,
    PolicyViolation,
    Quarantined,
    Region,
    RegionKind,
    ThreadSpot,
    TimedOut,
    UninitialisedRead,
    Verdict,
    WrongResult,
)
from cuda_llm.search import Hint
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.build_faults import with_fault

SOURCE = """\
__global__ void sum(const float* input, float* output, int n)
{
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = input[i];
    if (threadIdx.x < 32) {
        __syncthreads();
    }
    float4 v = reinterpret_cast<const float4*>(input)[i];
    for (int k = 0; k < n; ++k) {
        tile[threadIdx.x] += tile[255 - threadIdx.x];
        __syncthreads();
        tile[threadIdx.x] = v.x;
    }
    if (i <= n) output[i] = tile[0];
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    sum<<<(rows + 255) / 256, 2048>>>(input, output, rows);
}
"""
THREAD = ThreadSpot(kernel="sum", block=(1, 0, 0), thread=(7, 0, 0))
RTX = find_hardware("RTX 3090 Ti")


def at(line: int) -> SourceSpot:
    return SourceSpot(file="solve.cu", line=line, text=SOURCE.splitlines()[line - 1].strip())


def diagnose(verdict: Verdict, source: str = SOURCE) -> Hint:
    context = KernelContext(
        round=1,
        about="r1-c1",
        source=SourceFacts(source),
        task=load_task("matrix_transpose"),
        hardware=RTX,
    )
    found = hint_from(verdict, context)
    assert found is not None
    return found


PAST_INPUT = Location(
    relation="past-end", owner="buffer", name="input", offset_bytes=4004, size_bytes=4000
)


def access(line: int, **fields: Any) -> IllegalAccess:
    given: dict[str, Any] = {"space": "global", "kind": "read", "bytes": 4, "location": PAST_INPUT}
    return IllegalAccess(access=MemoryAccess(**(given | fields)), thread=THREAD, spot=at(line))


def error(message: str, line: int = 4, tool: str = "nvcc") -> CompileFailed:
    diagnostic = with_fault(Diagnostic(severity="error", message=message, spot=at(line), tool=tool))
    return CompileFailed(compiler_output=message, diagnostics=(diagnostic,))


def looks(kind: ElementKind, **fields: Any) -> WrongResult:
    return wrong(looks_like=ElementPattern(kind=kind), **fields)


def wrong(**fields: Any) -> WrongResult:
    given: dict[str, Any] = {
        "size_class": "edge",
        "dims": {"rows": 33, "cols": 31},
        "distribution": "normal",
        "buffer": "output",
        "index": (3, 4),
        "got": 1.0,
        "expected": 2.0,
        "error": 1e9,
        "limit": 4.0,
        "wrong": 10,
        "elements": 1023,
        "cases": 14,
    }
    return WrongResult(**(given | fields))


CAUSES: Mapping[str, tuple[Verdict, str]] = {
    "a reply without code": (NoCode(message="prose", kind="no_code"), "no_code"),
    "a cut reply": (NoCode(message="cut", kind="truncated"), "truncated"),
    "a repeat": (Duplicate(of="r1-c1"), "repeat"),
    "an invented name": (error('identifier "__shfl_magic" is undefined'), "undefined __shfl_magic"),
    "another solve": (
        error('declaration is incompatible with previous "solve" (declared at line 3)'),
        "signature",
    ),
    "broken text": (error('expected a ";"'), "syntax"),
    "too much static shared memory": (
        error("uses too much shared data (0x12000 bytes, 0xc000 max)", tool="ptxas"),
        "static shared memory",
    ),
    "an instruction of another GPU": (
        error("Feature 'wgmma' requires .target sm_90a or higher", tool="ptxas"),
        "unsupported instruction",
    ),
    "a host call in a kernel": (
        error('calling a __host__ function("f") from a __global__ function("sum") is not allowed'),
        "host call in device code",
    ),
    "a file of one's own": (
        PolicyViolation(
            rule="include-outside",
            breach=PolicyBreach(kind="outside-file", names=("/etc/passwd",)),
        ),
        "include-outside",
    ),
    "a function nobody defines": (
        LoadFailed(fault="undefined-function", symbol="f(int)"),
        "undefined function",
    ),
    "no solve": (LoadFailed(fault="no-solve", detail="it does not define `solve`"), "no solve"),
    "too many threads": (
        LaunchFailed(
            kernel="_Z3sumPKfPfi",
            error="cudaErrorInvalidConfiguration",
            limit=ExceededLimit(name="threads-per-block", asked=2048, allowed=1024),
        ),
        "threads a block",
    ),
    "too much dynamic shared memory": (
        LaunchFailed(
            kernel="sum",
            error="cudaErrorInvalidValue",
            limit=ExceededLimit(name="shared-memory", asked=60000, allowed=49152, static_bytes=0),
        ),
        "shared memory",
    ),
    "no check at all": (access(5), "no bound check"),
    "a check that lets it through": (access(15), "wrong bound"),
    "a vector past the end": (access(9, bytes=16), "vector tail"),
    "an index below zero": (
        access(5, location=replace(PAST_INPUT, relation="before-start", offset_bytes=-8)),
        "negative index",
    ),
    "a tile too small": (
        access(
            11,
            space="shared",
            location=Location(
                relation="past-end", owner="shared", offset_bytes=1024, size_bytes=1024
            ),
        ),
        "shared array",
    ),
    "an address of nobody": (
        access(5, location=Location(relation="nowhere", address=16)),
        "wild pointer",
    ),
    "an unaligned vector": (
        Misaligned(access=MemoryAccess(space="global", bytes=16), spot=at(9)),
        "vector access",
    ),
    "a failed assertion": (
        DeviceAssert(reason="assert", assertion="assertion `n` failed", spot=at(5)),
        "assertion",
    ),
    "no barrier between two lines": (
        DataRace(kind="write-read", spot=at(9), other=at(5)),
        "missing barrier",
    ),
    "the next turn of a loop": (
        DataRace(kind="read-write", spot=at(11), other=at(13)),
        "next turn overwrites",
    ),
    "a copy that no wait covers": (
        UninitialisedRead(
            access=MemoryAccess(space="shared"),
            spot=at(11),
            copy=CopyUnderWay(spot=at(5), lacks="wait"),
        ),
        "copy without a wait",
    ),
    "many writers of one word": (
        DataRace(kind="write-write", spot=at(5), other=at(5)),
        "same word",
    ),
    "a half-filled tile": (
        UninitialisedRead(access=MemoryAccess(space="shared"), spot=at(11)),
        "partly filled tile",
    ),
    "an output that is added to": (
        UninitialisedRead(
            access=MemoryAccess(
                space="global", location=Location(relation="inside", owner="buffer", name="output")
            ),
            spot=at(15),
        ),
        "garbage output",
    ),
    "a barrier under a branch": (
        InvalidSync(kind="divergent-barrier", spot=at(7)),
        "barrier in a branch",
    ),
    "a barrier in an uneven loop": (
        InvalidSync(kind="divergent-barrier", spot=at(12)),
        "barrier in an uneven loop",
    ),
    "a mask that does not fit": (
        InvalidSync(kind="partial-mask", spot=at(12)),
        "partial mask",
    ),
    "a phase that never completes": (
        InvalidSync(kind="deadlock", reason="phase-incomplete", missing_bytes=64, spot=at(12)),
        "phase never completes",
    ),
    "three warps of a warpgroup": (
        InvalidSync(kind="divergent-barrier", reason="missing-warps", spot=at(12)),
        "incomplete warpgroup",
    ),
    "warps that differ": (
        InvalidSync(kind="divergent-barrier", reason="different-operands", spot=at(12)),
        "incomplete warpgroup",
    ),
    "a sum that is read too early": (
        InvalidSync(kind="unwaited", spot=at(12), other=at(9)),
        "missing wgmma wait",
    ),
    "a product without a fence": (
        InvalidSync(kind="unfenced", spot=at(12)),
        "missing wgmma fence",
    ),
    "a bulk copy of what is not fenced": (
        DataRace(kind="write-read", unfenced=True, spot=at(12)),
        "missing proxy fence",
    ),
    "an endless kernel": (TimedOut(stage="kernel", limit_s=10.0, spot=at(11)), "kernel"),
    "scratch memory": (OutOfMemory(request="cudaMalloc", bytes=1, bound="quota"), "scratch memory"),
    "a crash of the host part": (HostCrashed(signal="SIGSEGV"), "bad pointer"),
    "an exit": (HostCrashed(signal="exit"), "ends the process"),
    "a driver that was robbed": (
        HostCrashed(signal="cudaErrorOperatingSystem"),
        "foreign descriptor",
    ),
    "a tail after vectors": (
        wrong(case_pattern=CasePattern(kind=CaseKind.MULTIPLE_OF, dims=("cols",), step=4)),
        "vector tail",
    ),
    "a last tile": (
        wrong(
            looks_like=ElementPattern(
                kind=ElementKind.LOCATED, region=Region(kind=RegionKind.LAST_ROWS, share=0.03)
            )
        ),
        "last tile",
    ),
    "swapped strides": (
        wrong(case_pattern=CasePattern(kind=CaseKind.EQUAL_DIMS, dims=("rows", "cols"))),
        "strides swapped",
    ),
    "lost precision": (
        looks(ElementKind.ROUNDED_TO_TF32),
        "precision",
    ),
    "one sum, a little off": (
        looks(ElementKind.ROUNDED_TO_BF16, elements=1, wrong=1, got=1.999),
        "terms or precision",
    ),
    "double counting": (
        wrong(looks_like=ElementPattern(kind=ElementKind.MULTIPLE, factor=2)),
        "counted twice",
    ),
    "everything wrong": (wrong(wrong=1023, failed_cases=14), "formula"),
    "everything wrong, sometimes": (wrong(wrong=1023, failed_cases=3), "some cases"),
    "a near miss": (wrong(error=9.0), "accuracy"),
    "bytes behind a buffer": (
        GuardOverwritten(buffer="output", side="after", offset_bytes=0),
        "vector tail",
    ),
    "a written input": (InputMutated(buffer="input"), "writes an input"),
    "a result that varies": (
        Nondeterministic(buffer="output", kind="order-of-execution"),
        "unsynchronised blocks",
    ),
    "a late write": (LateWrite(buffer="output"), "work outlives the call"),
    "an impossible time": (
        ImpossibleTime(time_us=0.1, floor_us=16.6),
        "work left out",
    ),
    "an instruction nobody runs here": (
        EmulatorUnsupported(opcode="wgmma.mma_async.sync", kernel="sum", spot=at(9)),
        "warp-group matrix operations (wgmma)",
    ),
}


@pytest.mark.parametrize("name", CAUSES)
def test_each_failure_has_a_cause_and_a_remedy(name: str) -> None:
    verdict, cause = CAUSES[name]
    found = diagnose(verdict)
    assert (found.code, found.cause) == (verdict.code, cause)
    assert found.text.endswith((".", ")"))
    assert len(found.text) <= 420


def test_every_kind_of_verdict_is_met() -> None:
    kinds = {type(verdict) for verdict, _ in CAUSES.values()}
    assert kinds | {Passed, Quarantined, InfraFailed} == set(get_args(Verdict))


@pytest.mark.parametrize(
    "verdict",
    [
        Passed(),
        Quarantined(kind="uncounted-launches", launches=1_000_000),
        InfraFailed(component="runner", detail="broke"),
        NoCode(message="no answer", kind="call_failed"),
    ],
)
def test_nothing_is_learned_where_the_kernel_is_not_to_blame(verdict: Verdict) -> None:
    context = KernelContext(
        round=1, about="r1-c1", source=SourceFacts(""), task=load_task("vector_add"), hardware=RTX
    )
    assert hint_from(verdict, context) is None


def test_without_vectors_in_the_source_a_tail_is_that_of_a_tile() -> None:
    plain = "__global__ void f(float* out) { out[threadIdx.x] = 0; }"
    assert diagnose(CAUSES["a tail after vectors"][0], plain).cause == "last tile"


def test_the_line_is_shown_with_its_text() -> None:
    assert diagnose(access(5)).evidence.startswith(
        "line 5: `tile[threadIdx.x] = input[i];`; read of 4 bytes of global memory; just past the "
        "end of buffer input; thread (7, 0, 0) of block (1, 0, 0)"
    )


def test_a_barrier_in_a_branch_names_the_branch() -> None:
    verdict = InvalidSync(kind="divergent-barrier", spot=at(7))
    assert "under line 6: `(threadIdx.x < 32)`" in diagnose(verdict).evidence


def test_a_refused_launch_shows_the_launch() -> None:
    verdict, _ = CAUSES["too many threads"]
    assert "line 20: `sum<<<(rows + 255) / 256, 2048>>>`" in diagnose(verdict).evidence


@pytest.mark.parametrize("name", CAUSES)
def test_limits_of_the_hardware_stand_in_the_hardware_text_alone(name: str) -> None:
    found = diagnose(CAUSES[name][0])
    shown = " ".join((found.text, found.evidence, *found.avoid))
    for figure in ("1024", "1,024", "49152", "49,152", "0xc000", "sm_90", "16.6", "RTX"):
        assert figure not in shown


def test_what_the_hardware_adds_stands_apart() -> None:
    assert "49,152" in diagnose(CAUSES["too much dynamic shared memory"][0]).hardware_text
    assert "sm_90a" in diagnose(CAUSES["an instruction of another GPU"][0]).hardware_text
    assert "16.6 us" in diagnose(CAUSES["an impossible time"][0]).hardware_text


def test_a_hidden_size_is_never_given_away() -> None:
    shown = wrong(size_class="hidden", dims={}, index=(977,), got=977.0, elements=None, wrong=None)
    assert "977" not in diagnose(shown).evidence
    assert "hidden" in diagnose(shown).evidence
    place = replace(PAST_INPUT, offset_bytes=977, size_bytes=976)
    assert "97" not in diagnose(access(5, location=place)).evidence
    policy = PolicyViolation(
        rule="host-touches-device-memory",
        location=replace(place, relation="inside", offset_bytes=0),
    )
    assert "976" not in diagnose(policy).evidence


def test_the_signature_is_repeated_where_it_was_changed() -> None:
    assert 'extern "C" void solve(const float* input, float* output, int rows, int cols)' in (
        diagnose(CAUSES["another solve"][0]).text
    )


@settings(max_examples=examples(60))
@given(st.text(max_size=2000), st.sampled_from(sorted(CAUSES)))
def test_text_from_outside_stays_in_the_evidence_bounded_and_printable(
    text: str, name: str
) -> None:
    verdict = CAUSES[name][0]
    plain = diagnose(verdict)
    fields = verdict.__dataclass_fields__
    poisoned: Any = verdict
    if "spot" in fields:
        poisoned = replace(poisoned, spot=SourceSpot(file=text, line=5, text=text))
    if "diagnostics" in fields:
        poisoned = error(text)
    found = diagnose(poisoned)
    text = " ".join((found.evidence, found.hardware_text))
    assert text.isprintable()
    assert len(text) <= 1200
    if len(text) > 3 and not text.isspace() and text not in plain.text:
        assert text not in found.text or isinstance(verdict, CompileFailed)


def test_a_prompt_names_at_most_three_faults_of_one_call() -> None:
    second = DataRace(kind="write-write", spot=at(15), other=at(16))
    last = IllegalAccess(spot=at(12))
    both = DataRace(kind="write-read", spot=at(9), other=at(5), further=(second, last, last))
    evidence = diagnose(both).evidence
    assert evidence.count("also DATA_RACE at line 15") == 1
    assert evidence.count("also ILLEGAL_ACCESS at line 12") == 1
    assert "also" not in diagnose(replace(both, further=())).evidence


def test_a_refused_call_and_a_kernel_never_launched_are_evidence() -> None:
    refused = FailedCall(call="cudaMemsetAsync", error="cudaErrorInvalidValue", spot=at(15))
    shown = wrong(failed_calls=(refused,), unlaunched=("tail",))
    evidence = diagnose(shown).evidence
    assert "cudaMemsetAsync at solve.cu:15 returned cudaErrorInvalidValue" in evidence
    assert "never launched in this call: tail" in evidence
    assert "returned" not in diagnose(wrong()).evidence
