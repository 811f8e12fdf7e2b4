"""A source that eats its limits gets a verdict and leaves nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from ended import names_of_children

from cuda_llm.outcomes import CompileFailed, CompilerStop, InfraFailed, TimedOut, Verdict
from cuda_llm.tools.compiler.build_faults import find_exceeded_limit
from cuda_llm.tools.compiler.nvcc import DEVICE_READ, DEVICE_TEXT, PREPROCESSED
from cuda_llm.tools.device.candidate import Compiled, CompileLimits
from cuda_llm.tools.sandbox.jail import CapturedStream, JailResult
from cuda_llm.verdict_wording import describe

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
Compile = Callable[..., Compiled | Verdict]

SMALL = CompileLimits(wall_s=900, cpu_s=30, memory_bytes=600 << 20, output_bytes=16 << 20)

TEMPLATE_BOMB = """
template <unsigned long N, int K> struct Node {
    static const int value = Node<2 * N, K - 1>::value + Node<2 * N + 1, K - 1>::value;
};
template <unsigned long N> struct Node<N, 0> { static const int value = 1; };
"""

ENDLESS_CONSTEXPR = """
constexpr unsigned long spin(unsigned long n) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < n; i++) sum += i * i;
    return sum;
}
template <unsigned long N> struct Chain {
    static constexpr unsigned long value = spin(60000 + N) + Chain<N - 1>::value;
};
template <> struct Chain<0> { static constexpr unsigned long value = 0; };
static_assert(Chain<190>::value > 0, "");
"""


@pytest.fixture(autouse=True)
def nothing_left(shared_cache: Path) -> Iterator[None]:
    """No compiler runs and no private folder remains after each test."""
    yield
    names = {"nvcc", "cicc", "cudafe++", "ptxas", "cc1plus", "jail"}
    assert [name for name in names_of_children() if name in names] == []
    kept = [folder for folder in (shared_cache / "work").iterdir() if _mine(folder)]
    assert kept == []


def _mine(folder: Path) -> bool:
    return f"-{psutil.Process().pid}-" in folder.name


def test_a_template_bomb_runs_out_of_memory(compile_source: Compile) -> None:
    failed = compile_source(
        f"{TEMPLATE_BOMB}{SOLVE} {{ b[0] = Node<1, 22>::value; }}", limits=SMALL
    )

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0].startswith("cudafe++ needs more than 600 MiB of memory: ")


def test_a_naive_template_bomb_meets_the_depth_limit(compile_source: Compile) -> None:
    source = "template <int N> struct D { static const int v = D<N + 1>::v; };\n"
    failed = compile_source(f"{source}{SOLVE} {{ b[0] = D<0>::v; }}", limits=SMALL)

    assert isinstance(failed, CompileFailed)
    assert "instantiation" in describe(failed)[0]


def test_an_endless_constexpr_runs_out_of_time(compile_source: Compile) -> None:
    late = compile_source(f"{ENDLESS_CONSTEXPR}{SOLVE} {{}}", limits=CompileLimits(wall_s=1.0))

    assert late == TimedOut(stage="compile", limit_s=1.0)


def test_an_endless_constexpr_runs_out_of_processor_time(compile_source: Compile) -> None:
    limits = CompileLimits(wall_s=900, front_end_cpu_s=1.0)
    failed = compile_source(f"{ENDLESS_CONSTEXPR}{SOLVE} {{}}", limits=limits)

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0].startswith("cudafe++ needs more than ")
    assert "of processor time: " in describe(failed)[0]


def test_an_unending_loop_in_a_constant_is_an_error(compile_source: Compile) -> None:
    failed = compile_source(
        "constexpr int forever(int n) { while (true) n ^= 1; return n; }\n"
        f"constexpr int x = forever(1);\n{SOLVE} {{ b[0] = x; }}",
        limits=SMALL,
    )

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == "mine.cu:2: expression must have a constant value"


def test_a_huge_object_meets_the_size_limit(compile_source: Compile) -> None:
    failed = compile_source(
        f"static char big[200 << 20] = {{1}};\n{SOLVE} {{ b[0] = big[n]++; }}", limits=SMALL
    )

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == "the compiler wrote a file larger than 16 MiB"


def test_a_flood_of_error_directives_is_cut(compile_source: Compile) -> None:
    failed = compile_source("#error again\n" * 20_000, limits=SMALL)

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0] == "mine.cu:1: #error again"
    assert len(failed.diagnostics) <= 20


def test_a_file_that_includes_itself_ends(compile_source: Compile) -> None:
    failed = compile_source("#include __FILE__\n", limits=SMALL)

    assert isinstance(failed, CompileFailed)
    assert "nested depth" in describe(failed)[0]


def ended(folder: Path, *, cpu_s: float) -> CompileFailed | TimedOut | InfraFailed | None:
    """What is to blame where cicc was killed after `cpu_s` of processor time."""
    result = JailResult(
        command=("nvcc",),
        end="exited",
        exit_code=137,
        signal=None,
        stdout=CapturedStream(text=""),
        stderr=CapturedStream(text="Killed\n"),
        wall_s=40.0,
        cpu_s=cpu_s,
        peak_bytes=1 << 30,
        landlock_abi=0,
        namespaces=True,
    )
    return find_exceeded_limit(result, CompileLimits(), folder)


def test_a_program_that_was_killed_before_its_limit_is_no_fault_of_the_source(
    tmp_path: Path,
) -> None:
    (tmp_path / "kept").mkdir()
    for file in (PREPROCESSED, DEVICE_TEXT, DEVICE_READ):
        (tmp_path / file).touch()

    assert ended(tmp_path, cpu_s=12.0) == InfraFailed(
        component="compiler", detail="cicc was killed: memory is short"
    )
    late = CompilerStop(kind="processor-time", program="cicc", limit_s=30.0)
    assert ended(tmp_path, cpu_s=30.0) == CompileFailed(stop=late, fault="too-large")


@pytest.mark.parametrize(
    "source",
    [
        "#error No space left on device\n",
        "int x = y; // No space left on device\n",
        "#error 'mine' died due to signal 9\n",
    ],
)
def test_a_source_cannot_blame_the_machine(compile_source: Compile, source: str) -> None:
    assert isinstance(compile_source(source), CompileFailed)
