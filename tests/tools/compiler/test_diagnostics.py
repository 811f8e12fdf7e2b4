"""Messages of every stage name the user's file, line and text; ptxas's figures name kernels."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cuda_llm.outcomes import CompileFailed, Diagnostic, Verdict
from cuda_llm.tools.compiler.diagnostics import (
    limit_diagnostics,
    name_kernels,
    parse_diagnostics,
    parse_resources,
)
from cuda_llm.tools.compiler.names import PathNames, demangle, without_parameters
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.verdict_wording import describe

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
def test_each_stage_names_the_line(compile_source: Compile, stage: str) -> None:
    source, line, words = STAGES[stage]
    failed = compile_source(source + LAUNCH)

    assert isinstance(failed, CompileFailed)
    first = failed.diagnostics[0]
    assert first.severity == "error"
    assert words in first.message
    assert first.spot is not None
    assert (first.spot.file, first.spot.line) == ("mine.cu", line)
    assert first.spot.text == source.splitlines()[line - 1].strip()[:200]
    assert describe(failed)[0] == f"mine.cu:{line}: {first.message}"


def test_a_file_that_was_cut_short_is_named_with_the_bracket_that_is_open(
    compile_source: Compile,
) -> None:
    failed = compile_source("__global__ void k(float* b) {}\n" + SOLVE + " {\n  k<<<1, 1>>>(b);\n")
    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == 'mine.cu:2: expected a "}" at the end of the file'
    assert failed.first_error is not None and failed.first_error.fault == "syntax"
    failed = compile_source("int x")
    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == 'expected a ";" at the end of the file'


def test_errors_come_before_warnings_in_their_order(compile_source: Compile) -> None:
    source = "__global__ void k(float* b) {\n int idle;\n b[0] = first;\n b[1] = second;\n}"
    failed = compile_source(source + LAUNCH)

    assert isinstance(failed, CompileFailed)
    assert [d.spot.line for d in failed.diagnostics if d.spot and d.severity == "error"] == [3, 4]
    assert "first" in describe(failed)[0]


def test_an_error_in_a_task_header_names_it(compile_source: Compile, tmp_path: Path) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    (lent / "broken.h").write_text("\ninline int f() { return nothing; }\n")

    failed = compile_source(
        '#include "broken.h"\n__global__ void k(float*) {}' + LAUNCH, include_dirs=(lent,)
    )

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0].startswith("lent/broken.h:2: ")
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
    assert "undefined_0" in describe(failed)[0]


def test_bytes_are_bounded_too() -> None:
    limited = limit_diagnostics(
        Diagnostic(severity="error", message=f"{i}" * 5000) for i in range(18)
    )

    assert sum(len(d.message) for d in limited.messages) <= 6000
    assert len(limited.messages) + limited.omitted == 18


def test_continuation_lines_belong_to_their_message(tmp_path: Path) -> None:
    request = CompileRequest(source="int f(int);\nint x = f();\n", name="mine.cu")
    places = PathNames(request=request, toolkit=find_toolkit(), folder=tmp_path)
    output = (
        'kernel.cu(2): error: no instance of overloaded function "f" matches the list\n'
        "            argument types are: ()\n"
        "  int x = f();\n"
        "          ^\n"
    )

    [diagnostic] = parse_diagnostics(output, places).messages

    assert diagnostic.message.endswith("matches the list; argument types are: ()")
    assert diagnostic.spot is not None and diagnostic.spot.text == "int x = f();"


PTXAS = """\
ptxas info    : 16 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function '_Z3genIfEvPT_' for 'sm_86'
ptxas info    : Function properties for _Z3genIfEvPT_
    40 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, 256 bytes smem, 8 bytes cmem[0], 6 bytes cmem[2]
ptxas info    : Compile time = 13.544 ms
ptxas info    : Function properties for _Z6helperf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_ZN12_GLOBAL__N_13addEPKfi' for 'sm_86'
ptxas info    : Function properties for _ZN12_GLOBAL__N_13addEPKfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 380 bytes cmem[0]
"""


def test_each_kernel_has_its_figures_and_name() -> None:
    tile, add = asyncio.run(name_kernels(parse_resources(PTXAS.splitlines())))

    assert (tile.kernel, tile.symbol) == ("gen<float>", "_Z3genIfEvPT_")
    assert (tile.registers, tile.shared_bytes, tile.constant_bytes) == (255, 256, 14)
    assert (tile.stack_bytes, tile.spill_store_bytes, tile.spill_load_bytes) == (40, 24, 32)
    assert (add.kernel, add.registers, add.shared_bytes) == ("(anonymous namespace)::add", 12, 0)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void tile<4, float>(float*, int)", "tile<4, float>"),
        ("add(float const*, int)", "add"),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k"),
        ("void apply<(Mode)1>(void (*)(int), float)", "apply<(Mode)1>"),
        ("plain_c_name", "plain_c_name"),
    ],
)
def test_parameters_and_return_type_are_dropped(signature: str, name: str) -> None:
    assert without_parameters(signature) == name


def test_symbols_that_are_not_mangled_stay() -> None:
    assert asyncio.run(demangle(["kernel", "_Z3addPf"])) == {
        "kernel": "kernel",
        "_Z3addPf": "add(float*)",
    }
    assert asyncio.run(demangle([])) == {}


def test_no_program_is_left_where_names_are_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "c++filt"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec /bin/sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    async def cancelled() -> int:
        work = asyncio.create_task(demangle(["_Z3addPf"]))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return int((tmp_path / "pid").read_text())

    assert not psutil.pid_exists(asyncio.run(cancelled()))


def test_plain_functions_are_readable_without_binutils(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    names = asyncio.run(demangle(["_Z3addPKfi", "kernel"]))
    assert names == {"_Z3addPKfi": "add", "kernel": "kernel"}
