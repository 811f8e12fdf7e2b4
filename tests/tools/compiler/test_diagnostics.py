"""Messages of every stage come back with the user's file, line and text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.failures import CompileFailed, Diagnostic
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.diagnostics import limit_diagnostics, parse_diagnostics
from cuda_llm.tools.compiler.names import PathNames
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device.candidate import Compiled, CompileRequest

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
Compile = Callable[..., Compiled | Verdict]

LAUNCH = "\n" + SOLVE + " { k<<<1, 1>>>(b); }\n"

STAGES = {
    "nvcc": ("__global__ void k(float* b) {\n  b[0] = missing_name;\n}", 2, "missing_name"),
    "preprocessor": ('#include "nothing_there.h"\n__global__ void k(float*) {}', 1, "No such file"),
    "ptxas": ('__global__ void k(float* b) {\n\n  asm volatile("bogus.u32 0;");\n}', 3, "bogus"),
    "assembler": ('__global__ void k(float*) {}\nvoid f() { asm("bogus"); }', 2, "bogus"),
    "shared memory": (
        "__global__ void k(float* b) {\n __shared__ float s[1 << 16]; s[threadIdx.x] = b[0];\n"
        " __syncthreads(); b[1] = s[0]; }",
        1,
        "k(float*)' uses too much shared data",
    ),
    "undefined device function": (
        "__device__ float f(float);\n__global__ void k(float* b) { b[0] = f(1); }",
        1,
        "f(float)",
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_each_stage_is_told_by_line(compile_source: Compile, stage: str) -> None:
    source, line, words = STAGES[stage]
    failed = compile_source(source + LAUNCH)

    assert isinstance(failed, CompileFailed)
    first = failed.diagnostics[0]
    assert first.severity == "error"
    assert words in first.message
    assert first.spot is not None
    assert (first.spot.file, first.spot.line) == ("mine.cu", line)
    assert first.spot.text == source.splitlines()[line - 1].strip()[:200]
    assert failed.reason == f"mine.cu:{line}: {first.message}"


def test_errors_come_before_warnings_in_their_order(compile_source: Compile) -> None:
    source = "__global__ void k(float* b) {\n int idle;\n b[0] = first;\n b[1] = second;\n}"
    failed = compile_source(source + LAUNCH)

    assert isinstance(failed, CompileFailed)
    assert [d.spot.line for d in failed.diagnostics if d.spot and d.severity == "error"] == [3, 4]
    assert "first" in failed.reason


def test_an_error_in_a_lent_header_is_told_in_it(compile_source: Compile, tmp_path: Path) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    (lent / "broken.h").write_text("\ninline int f() { return nothing; }\n")

    failed = compile_source(
        '#include "broken.h"\n__global__ void k(float*) {}' + LAUNCH, include_dirs=(lent,)
    )

    assert isinstance(failed, CompileFailed)
    assert failed.reason.startswith("lent/broken.h:2: ")
    assert str(tmp_path) not in repr(failed)


def test_no_private_path_leaks(compile_source: Compile, shared_cache: Path) -> None:
    for source, _, _ in STAGES.values():
        outcome = repr(compile_source(source + LAUNCH))
        assert str(shared_cache) not in outcome
        assert str(find_toolkit().root) not in outcome
        assert "kept/" not in outcome
        assert "kernel.cu" not in outcome


def test_a_flood_is_cut_and_counted(compile_source: Compile) -> None:
    failed = compile_source("".join(f"int v{i} = undefined_{i};\n" for i in range(3000)))

    assert isinstance(failed, CompileFailed)
    assert len(failed.diagnostics) == 20
    assert failed.omitted > 0
    assert len(repr(failed)) < 20_000
    assert "undefined_0" in failed.reason


def test_bytes_are_bounded_too() -> None:
    kept = limit_diagnostics(Diagnostic(severity="error", message=f"{i}" * 5000) for i in range(18))

    assert sum(len(d.message) for d in kept.kept) <= 6000
    assert len(kept.kept) + kept.omitted == 18


def test_continuation_lines_belong_to_their_message(tmp_path: Path) -> None:
    request = CompileRequest(source="int f(int);\nint x = f();\n", name="mine.cu")
    places = PathNames(request=request, toolkit=find_toolkit(), folder=tmp_path)
    output = (
        'kernel.cu(2): error: no instance of overloaded function "f" matches the list\n'
        "            argument types are: ()\n"
        "  int x = f();\n"
        "          ^\n"
    )

    [diagnostic] = parse_diagnostics(output, places).kept

    assert diagnostic.message.endswith("matches the list; argument types are: ()")
    assert diagnostic.spot is not None and diagnostic.spot.text == "int x = f();"
