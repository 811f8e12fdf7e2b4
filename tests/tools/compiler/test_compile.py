"""One call of nvcc gives a library, PTX and resources, or one clear verdict."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_sample import sample

from cuda_llm.errors import UsageError
from cuda_llm.outcomes import CompileFailed, LoadFailed, Verdict
from cuda_llm.tools.compiler.audit import exports
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.verdict_wording import describe

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
PRELUDE = SOLVE + ";\n"
Compile = Callable[..., Compiled | Verdict]

TILED = (
    """
template <int N> __global__ void reverse(const float* a, float* b, int n) {
    __shared__ float tile[N];
    int i = blockIdx.x * N + threadIdx.x;
    tile[threadIdx.x] = i < n ? a[i] : 0;
    __syncthreads();
    if (i < n) b[i] = tile[N - 1 - threadIdx.x];
}
"""
    + SOLVE
    + " { reverse<64><<<(n + 63) / 64, 64>>>(a, b, n); }\n"
)


def test_a_kernel_becomes_a_library_ptx_and_resources(compile_source: Compile) -> None:
    compiled = compile_source(TILED)

    assert isinstance(compiled, Compiled)
    assert exports(compiled.library) == ["solve"]
    [kernel] = compiled.kernels
    assert kernel.kernel == "reverse<64>"
    assert kernel.shared_bytes == 256
    assert kernel.registers > 0
    assert f".entry {kernel.symbol}(" in compiled.ptx.read_text()
    assert '"mine.cu"' in compiled.ptx.read_text()
    assert compiled.warnings == ()


def test_what_a_source_prints_says_nothing_of_its_registers(compile_source: Compile) -> None:
    target = "sm_86"
    honest = compile_source(TILED, target=target)
    assert isinstance(honest, Compiled)
    [kernel] = honest.kernels
    entry = f"ptxas info    : Compiling entry function '{kernel.symbol}' for '{target}'"
    used = "ptxas info    : Used 7 registers, 8 bytes smem"
    forged = (
        f'#pragma message("\\n{entry}\\n{used}\\n")\n'
        f"#warning {entry}\n#warning {used}\n"
        f'[[deprecated("\\n{entry}\\n{used}\\n")]] static void old() {{}}\n'
        "static void user() { old(); }\n"
    )
    compiled = compile_source(forged + TILED, target=target)
    assert isinstance(compiled, Compiled)
    [found] = compiled.kernels
    assert (found.registers, found.shared_bytes) == (kernel.registers, 256)


TARGETS = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]


@pytest.mark.parametrize("target", sample(TARGETS, every=4))
def test_every_target_gives_ptx_of_its_own(compile_source: Compile, target: str) -> None:
    compiled = compile_source(TILED, target=target)

    assert isinstance(compiled, Compiled)
    assert f".target {target}\n" in compiled.ptx.read_text()


@pytest.mark.parametrize("target", ["sm_86;x", "compute_86", ""])
def test_a_name_that_is_no_target_is_bad_usage(compile_source: Compile, target: str) -> None:
    with pytest.raises(UsageError, match="not a GPU target"):
        compile_source(TILED, target=target)


def test_a_target_this_nvcc_lacks_is_bad_usage(compile_source: Compile) -> None:
    with pytest.raises(UsageError, match=r"nvcc \d+\.\S+ cannot compile for sm_20"):
        compile_source(TILED, target="sm_20")


def test_the_library_needs_our_runtime_to_load(compile_source: Compile) -> None:
    """In a process of its own: a CUDA library that another test has loaded would do, too."""
    compiled = compile_source(TILED)
    assert isinstance(compiled, Compiled)

    load = f"import ctypes, os; ctypes.CDLL({str(compiled.library)!r}, mode=os.RTLD_NOW)"
    loaded = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True)
    assert loaded.returncode != 0
    assert "undefined symbol: __cuda" in loaded.stderr


def test_defines_flags_and_task_headers_reach_the_source(
    compile_source: Compile, tmp_path: Path
) -> None:
    (tmp_path / "lent.h").write_text("#define LENT 3\n")
    source = (
        '#include "lent.h"\n__global__ void k(float* b) { b[0] = LENT + GIVEN; }\n'
        + SOLVE
        + " { k<<<1, 1>>>(b); }"
    )

    compiled = compile_source(
        source, defines={"GIVEN": "4"}, include_dirs=(tmp_path,), flags=("-std=c++20",)
    )

    assert isinstance(compiled, Compiled)


def test_a_flag_brings_back_special_functions_of_the_host(compile_source: Compile) -> None:
    source = (
        "#include <cmath>\n__global__ void k(float* b, float x) { b[0] = x; }\n"
        + SOLVE
        + " { k<<<1, 1>>>(b, std::cyl_bessel_jf(0.5f, 1.0f)); }"
    )
    failed = compile_source(source)
    assert isinstance(failed, CompileFailed) and "cyl_bessel_jf" in " ".join(describe(failed))
    compiled = compile_source(source, flags=("-U_GLIBCXX_BITS_SPECFUN_H",))
    assert isinstance(compiled, Compiled)


def test_a_wrong_signature_is_reported_with_the_right_one(compile_source: Compile) -> None:
    for source in (
        'extern "C" void solve(float* a, float* b, int n) {}',
        'extern "C" int solve(const float* a, float* b, int n) { return 0; }',
    ):
        failed = compile_source(source)

        assert isinstance(failed, CompileFailed)
        assert f"must be `{SOLVE}`" in describe(failed)[0]
        assert "\n" not in describe(failed)[0]


@pytest.mark.parametrize(
    "source",
    [
        "__global__ void k(float* b) { b[0] = 1; }",
        "void solve(const float* a, float* b, int n, int extra) {}",
    ],
)
def test_a_missing_solve_is_reported_with_signature(compile_source: Compile, source: str) -> None:
    failed = compile_source(source)

    assert isinstance(failed, LoadFailed)
    assert failed.detail == f"mine.cu defines no such function: `{SOLVE}`"


@pytest.mark.parametrize("source", ["", "  \n\t\n", "// nothing\n/* at all */\n"])
def test_an_empty_file_is_called_empty(compile_source: Compile, source: str) -> None:
    failed = compile_source(source)

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == "mine.cu is empty: it holds no code"


@pytest.mark.parametrize("source", ["Here is your kernel, enjoy!", "\x7fELF\x02\x01\x00\x00binary"])
def test_what_is_not_cuda_fails_in_one_line(compile_source: Compile, source: str) -> None:
    failed = compile_source(source)

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0].startswith("mine.cu:1: ")
    assert "\n" not in describe(failed)[0]


def test_text_that_is_no_unicode_is_compiled_all_the_same(compile_source: Compile) -> None:
    assert isinstance(compile_source(TILED + "// caf\udce9 \u2603\n"), Compiled)
    first, kept = (compile_source("caf\udce9 \u2603\n") for _ in range(2))
    assert isinstance(first, CompileFailed)
    assert kept == first


def test_a_declared_function_without_definition_is_named(compile_source: Compile) -> None:
    failed = compile_source('extern "C" void helper(int);\n' + SOLVE + " { helper(n); }")

    assert isinstance(failed, LoadFailed)
    assert (failed.fault, failed.symbol) == ("undefined-function", "helper")


def test_warnings_of_a_kernel_that_compiles_are_returned(compile_source: Compile) -> None:
    compiled = compile_source(
        "__global__ void k(float* b) { int idle; b[0] = 1; }\n" + SOLVE + " { k<<<1, 1>>>(b); }"
    )

    assert isinstance(compiled, Compiled)
    assert [(w.severity, w.spot.line if w.spot else 0) for w in compiled.warnings] == [
        ("warning", 1)
    ]


def test_no_private_folder_is_left(compile_source: Compile, own_cache: Path) -> None:
    assert isinstance(compile_source(TILED), Compiled)
    assert list((own_cache / "work").iterdir()) == []


def test_a_cancelled_compilation_leaves_nothing(compile_source: Compile, own_cache: Path) -> None:
    compile_source("")

    async def cancel() -> None:
        task = asyncio.create_task(compile_candidate(CompileRequest(source=TILED, prelude=PRELUDE)))
        while not list(own_cache.glob("work/*/kept/*")):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())

    assert list((own_cache / "work").iterdir()) == []


def test_what_many_ask_for_at_once_is_compiled_once(own_cache: Path) -> None:
    async def compile_all() -> list[object]:
        request = CompileRequest(source=TILED, name="same.cu", prelude=PRELUDE)
        return list(await asyncio.gather(*[compile_candidate(request) for _ in range(4)]))

    outcomes = asyncio.run(compile_all())

    made = [one for one in outcomes if isinstance(one, Compiled)]
    assert sorted(one.cached for one in made) == [False, True, True, True]
