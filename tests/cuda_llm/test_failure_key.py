"""What makes two failures one."""

from dataclasses import replace

from cuda_llm.outcomes import (
    CompileFailed,
    Diagnostic,
    ElementKind,
    ElementPattern,
    IllegalAccess,
    Location,
    MemoryAccess,
    Passed,
    Region,
    RegionKind,
    WrongResult,
    failure_key,
)
from cuda_llm.source_file import SourceSpot

TAIL = WrongResult(
    size_class="edge",
    dims={"n": 3},
    distribution="normal",
    buffer="C",
    index=(2,),
    got=0.0,
    expected=1.0,
    error=1e9,
    limit=4.0,
    wrong=1,
    elements=3,
    looks_like=ElementPattern(
        kind=ElementKind.LOCATED, region=Region(kind=RegionKind.LAST_ELEMENTS, share=0.3)
    ),
)
PAST_END = IllegalAccess(
    spot=SourceSpot(file="solve.cu", line=4),
    access=MemoryAccess(
        space="global",
        kind="read",
        bytes=4,
        location=Location(relation="past-end", owner="buffer", name="A", offset_bytes=4000),
    ),
)


def test_failures_that_differ_only_in_figures_are_the_same() -> None:
    other = replace(TAIL, dims={"n": 7}, index=(6,), got=5.0, wrong=2, elements=7)
    assert failure_key(other) == failure_key(TAIL) == "WRONG_RESULT/C/located/last-elements"
    elsewhere = replace(PAST_END, spot=SourceSpot(file="solve.cu", line=9))
    assert failure_key(elsewhere) == failure_key(PAST_END)


def test_another_pattern_is_another_failure() -> None:
    zeros = replace(TAIL, looks_like=ElementPattern(kind=ElementKind.ZEROS))
    assert failure_key(zeros) != failure_key(TAIL)


def test_an_unknown_name_is_another_failure_than_another_unknown_name() -> None:
    def unknown(name: str, line: int) -> CompileFailed:
        message = f'identifier "{name}" is undefined'
        spot = SourceSpot(file="solve.cu", line=line)
        error = Diagnostic(
            severity="error", message=message, spot=spot, fault="undefined-name", subject=name
        )
        return CompileFailed(compiler_output=f"line {line}: {message}", diagnostics=(error,))

    assert failure_key(unknown("lane", 3)) == failure_key(unknown("lane", 30))
    assert failure_key(unknown("lane", 3)) != failure_key(unknown("warp", 3))


def test_a_kernel_that_passed_has_its_code_alone() -> None:
    assert failure_key(Passed()) == "PASSED"
