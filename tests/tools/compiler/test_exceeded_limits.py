"""A source that eats its limits gets a verdict and leaves nothing."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from cuda_llm.failures import CompileFailed, TimedOut
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device.candidate import Compiled, CompileLimits
from cuda_llm.wording import describe

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
Compile = Callable[..., Compiled | Verdict]

SMALL = CompileLimits(wall_s=30, cpu_s=30, memory_bytes=600 << 20, output_bytes=16 << 20)

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
    ours = psutil.Process().children(recursive=True)
    assert [process.name() for process in ours if process.name() in names] == []
    kept = [folder for folder in (shared_cache / "work").iterdir() if _mine(folder)]
    assert kept == []


def _mine(folder: Path) -> bool:
    return f"-{psutil.Process().pid}-" in folder.name


def test_a_template_bomb_runs_out_of_memory(compile_source: Compile) -> None:
    failed = compile_source(
        f"{TEMPLATE_BOMB}{SOLVE} {{ b[0] = Node<1, 22>::value; }}", limits=SMALL
    )

    assert isinstance(failed, CompileFailed)
    assert describe(failed)[0].endswith("needs more than 600 MiB of memory")


def test_a_naive_template_bomb_meets_the_depth_limit(compile_source: Compile) -> None:
    source = "template <int N> struct D { static const int v = D<N + 1>::v; };\n"
    failed = compile_source(f"{source}{SOLVE} {{ b[0] = D<0>::v; }}", limits=SMALL)

    assert isinstance(failed, CompileFailed)
    assert "instantiation" in describe(failed)[0]


@pytest.mark.parametrize("limits", [{"wall_s": 2.0, "cpu_s": 30.0}, {"wall_s": 30.0, "cpu_s": 1.0}])
def test_an_endless_constexpr_runs_out_of_time(
    compile_source: Compile, limits: dict[str, float]
) -> None:
    late = compile_source(
        f"{ENDLESS_CONSTEXPR}{SOLVE} {{}}",
        limits=CompileLimits(**limits),  # type: ignore[arg-type]
    )

    assert isinstance(late, TimedOut)
    assert late.stage == "compile"
    assert late.limit_s == min(limits.values())


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
