"""Sentences about refused candidates, made from the facts in their verdicts."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from cuda_llm.codec import decode_verdict, encode_verdict
from cuda_llm.outcomes import (
    BreachKind,
    CompileFailed,
    CompilerStop,
    CompilerStopKind,
    Diagnostic,
    ImpossibleTime,
    LeftOut,
    NoCode,
    PolicyBreach,
    PolicyViolation,
    Quarantined,
    ReplyFault,
    Suspicion,
    ThreadSpot,
    TimedOut,
    Verdict,
    WrongResult,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.verdict_wording import describe

AT_LOAD = "constructor: code of the kernel would run when it is loaded: "
BREACHES: dict[BreachKind, tuple[str, dict[str, Any], str]] = {
    "outside-file": (
        "include-outside",
        {"names": ("/etc/passwd",)},
        "include-outside: /etc/passwd is outside the kernel's folder: include headers by their "
        "library name",
    ),
    "forbidden-call": (
        "import",
        {"names": ("fopen", "system")},
        "import: a kernel may not call fopen, system",
    ),
    "forbidden-library": (
        "import",
        {"names": ("libz.so.1",)},
        "import: a kernel may not use libz.so.1",
    ),
    "dynamic-entry": ("import", {"names": ("DT_RPATH",)}, "import: the library carries DT_RPATH"),
    "visible-name": ("export", {"names": ("helper",)}, "export: helper is visible to others"),
    "reserved-name": (
        "export",
        {"names": ("cudaMalloc",)},
        "export: a kernel may not define cudaMalloc",
    ),
    "static-initialiser": (
        "constructor",
        {"names": ("_GLOBAL__sub_I_x",)},
        f"{AT_LOAD}an initialiser of a global object",
    ),
    "load-function": ("constructor", {"names": ("begin",)}, f"{AT_LOAD}begin"),
    "load-section": ("constructor", {"names": (".ctors",)}, f"{AT_LOAD}section .ctors"),
    "indirect-function": ("constructor", {"names": ("pick",)}, f"{AT_LOAD}pick is resolved by it"),
    "no-function": ("constructor", {}, f"{AT_LOAD}an entry that is no function"),
    "system-call": ("syscall", {"names": ("socket",)}, "syscall: the host part calls socket"),
    "large-copy": (
        "api-call",
        {"limit_bytes": 1 << 20},
        "api-call: cudaMemcpy of more than 1 MiB from host to device",
    ),
    "large-copies": (
        "api-call",
        {"limit_bytes": 4 << 20},
        "api-call: more than 4 MiB from host to device in one call",
    ),
    "unjoined-stream": (
        "api-call",
        {"names": ("add",)},
        "api-call: solve returned before add in another stream was waited for: call "
        "cudaStreamSynchronize, or cudaEventRecord and cudaStreamWaitEvent on stream 0",
    ),
}
RULES = {
    "embed-file": "a kernel may not embed files",
    "kernel-parameters": "inline PTX reads outside of the parameter that it names",
    "syscall": "the host part makes a system call that it may not",
    "host-touches-device-memory": "host code dereferences a device pointer",
    "no-launch": "the result is computed without a kernel",
    "host-copy": "solve copies from device to host",
    "runner-protocol": "the host part wrote to a descriptor that is not its own",
}
STOPS: dict[CompilerStopKind, tuple[CompilerStop, str]] = {
    "empty-source": (
        CompilerStop(kind="empty-source", file="mine.cu"),
        "mine.cu is empty: it holds no code",
    ),
    "too-many-processes": (
        CompilerStop(kind="too-many-processes"),
        "the compiler started too many processes",
    ),
    "file-size": (
        CompilerStop(kind="file-size", limit_bytes=16 << 20),
        "the compiler wrote a file larger than 16 MiB",
    ),
    "memory": (
        CompilerStop(kind="memory", program="cicc", limit_bytes=600 << 20),
        "cicc needs more than 600 MiB of memory: instantiate fewer templates, compute less at "
        "compile time, unroll and inline less",
    ),
    "processor-time": (
        CompilerStop(kind="processor-time", program="cpp", limit_s=10.0),
        "the preprocessor needs more than 10 s of processor time: expand fewer macros and include "
        "less",
    ),
    "device-code": (
        CompilerStop(kind="device-code", limit_bytes=4 << 20),
        "its device code is more than 4 MiB of PTX, which an emulated device does not translate: "
        "unroll and inline less",
    ),
    "crash": (
        CompilerStop(kind="crash", program="ptxas", signal=11),
        "ptxas crashed (signal 11)",
    ),
    "exit-code": (
        CompilerStop(kind="exit-code", program="nvcc", exit_code=2),
        "nvcc ended with code 2",
    ),
}
SUSPICIONS: dict[Suspicion, tuple[Quarantined, str]] = {
    "slow-start": (
        Quarantined(kind="slow-start", beyond_us=41.7),
        "the first calls of a batch take longer than the following ones, by 42 us more than can "
        "be explained: the time of a call depends on how many are timed",
    ),
    "merged-calls": (
        Quarantined(kind="merged-calls", beyond_us=1.26),
        "a call of which nothing is known before the one before it has ended takes longer than "
        "one of a batch, by 1.3 us more than noise explains: work of several calls may be done "
        "in one",
    ),
    "uncounted-launches": (
        Quarantined(kind="uncounted-launches", launches=70_000),
        "70,000 launches are more than can be counted: how long they take is not known",
    ),
    "unseen-stores": (
        Quarantined(kind="unseen-stores"),
        "its outputs are right, but fewer bytes were seen to be stored than they have: work is "
        "hidden from the count",
    ),
    "less-work": (
        Quarantined(kind="less-work"),
        "at a size that is timed it computes less for each result than at those where its results "
        "were compared: work may be left out",
    ),
}


def first_line(verdict: Verdict) -> str:
    """The finding, which survives being recorded."""
    assert decode_verdict(encode_verdict(verdict)) == verdict
    return describe(verdict)[0]


@pytest.mark.parametrize("kind", get_args(BreachKind))
def test_each_breach_of_a_rule_has_its_sentence(kind: BreachKind) -> None:
    rule, facts, sentence = BREACHES[kind]
    assert first_line(PolicyViolation(rule=rule, breach=PolicyBreach(kind=kind, **facts))) == (
        sentence
    )


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_broken_in_one_way_only_says_which(rule: str) -> None:
    assert first_line(PolicyViolation(rule=rule)) == f"{rule}: {RULES[rule]}"


def test_a_system_call_without_a_name_is_described_by_its_number() -> None:
    breach = PolicyBreach(kind="system-call", number=462)
    found = PolicyViolation(rule="syscall", breach=breach)
    assert first_line(found) == "syscall: the host part calls number 462"


@pytest.mark.parametrize("kind", get_args(CompilerStopKind))
def test_a_compilation_that_was_ended_names_what_ended_it(kind: CompilerStopKind) -> None:
    stop, sentence = STOPS[kind]
    assert first_line(CompileFailed(stop=stop)) == sentence


def test_a_compilation_is_described_by_its_first_error_or_by_the_signature_it_lacks() -> None:
    spot = SourceSpot(file="mine.cu", line=3, text="int a")
    error = Diagnostic(severity="error", message="expected a ';'", spot=spot)
    failed = CompileFailed(diagnostics=(error,))
    assert describe(failed) == ("mine.cu:3: expected a ';'", "  3 | int a")
    other = CompileFailed(diagnostics=(error,), fault="signature", declaration="void solve(int)")
    assert first_line(other) == "`solve` has another signature: it must be `void solve(int)`"
    assert first_line(CompileFailed(compiler_output="nvcc fatal: no")) == "nvcc fatal: no"


@pytest.mark.parametrize("kind", get_args(Suspicion))
def test_a_time_that_is_not_believed_says_why(kind: Suspicion) -> None:
    verdict, sentence = SUSPICIONS[kind]
    assert first_line(verdict) == sentence


def test_work_left_out_is_told_with_sizes_counts_and_limit() -> None:
    left_out = LeftOut(dims={"n": 4096}, counted=1.5e6, least=2e6, beside={"n": 64})
    assert first_line(Quarantined(kind="less-work", left_out=left_out)) == (
        "at n = 4,096, where its results were not compared, it does 1.5e+06 floating-point "
        "operations, of at least 2e+06 in proportion to n = 64, where they were right: let a size "
        "that is compared take the same path"
    )
    stored = replace(left_out, counted=1000.0, least=14_745.6, beside={})
    assert first_line(Quarantined(kind="unseen-stores", left_out=stored)) == (
        "at n = 4,096 it was seen to store 1,000 bytes of its outputs, of at least 14,746: work is "
        "left out, or hidden from the count"
    )


def test_a_kernel_that_does_not_end_is_named_first() -> None:
    thread = ThreadSpot(kernel="merge<4>", block=(0, 0, 0), thread=(1, 0, 0))
    endless = TimedOut(stage="kernel", limit_s=60, thread=thread)
    assert first_line(endless) == "kernel merge<4> did not finish within 60 s"
    on_gpu = TimedOut(stage="kernel", limit_s=60, kernel="merge<4>")
    assert describe(on_gpu) == ("kernel merge<4> did not finish within 60 s",)
    assert first_line(TimedOut(stage="host", limit_s=60)) == "host did not finish within 60 s"


@pytest.mark.parametrize("kind", get_args(ReplyFault))
def test_a_reply_without_a_kernel_says_what_to_do(kind: ReplyFault) -> None:
    sentence = first_line(NoCode(kind=kind, most_characters=200_000))
    assert sentence != kind
    assert "{" not in sentence
    assert ("200,000 characters" in sentence) is (kind == "too_long")


def test_a_generators_own_message_comes_before_the_words_for_its_kind() -> None:
    own = NoCode(kind="empty", message="no such file: r1-c1.cu")
    assert first_line(own) == "no such file: r1-c1.cu"
    assert first_line(NoCode(kind="shelved")) == "shelved"
    failed = NoCode(kind="call_failed", call_fault="rate_limited", said="429")
    assert first_line(failed) == "rate_limited: 429"


OFF_BY_ONE = WrongResult(
    size_class="edge",
    dims={"n": 9},
    distribution="normal",
    buffer="y",
    index=(3,),
    got=4.0,
    expected=5.0,
    error=2300.0,
    limit=8.0,
    wrong=1,
    elements=9,
)


@pytest.mark.parametrize(("limit", "has_size"), [(0.0, False), (8.0, True)])
def test_an_error_has_a_size_only_where_results_need_not_be_equal(
    limit: float, has_size: bool
) -> None:
    extent = describe(replace(OFF_BY_ONE, limit=limit))[1]
    assert extent.startswith("1 of 9 elements are wrong")
    assert ("largest error 2.3e+03 units" in extent) is has_size


@pytest.mark.parametrize(
    ("got", "name"), [("nan", "NaN"), ("-inf", "infinity"), ("4", "NaN or infinity")]
)
def test_what_is_no_number_has_no_error_in_units(got: str, name: str) -> None:
    lines = describe(replace(OFF_BY_ONE, got=float(got), error=float("inf")))
    assert lines[1].endswith(f"; {name} is right only where the reference has the same")
    assert "inf units" not in " ".join(lines)


def test_an_impossible_time_may_be_a_fault_of_the_task() -> None:
    lines = describe(ImpossibleTime(time_us=1.0, floor_us=2.0))
    assert "[roofline] of task.toml asks too much" in " ".join(lines)
