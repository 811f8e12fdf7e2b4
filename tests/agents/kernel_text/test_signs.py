"""Which techniques the text of a kernel shows."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.kernel_text.facts import SourceFacts
from cuda_llm.agents.kernel_text.signs import SIGNS, part_of_kernel, signs_of
from cuda_llm.agents.techniques.catalogue import CATALOGUE

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests/fixtures/honest"


def signs(source: str) -> frozenset[str]:
    return signs_of(SourceFacts(source))


@pytest.mark.parametrize(
    ("file", "shows"),
    [
        ("matrix_transpose/01_tiled_padded", {"padding"}),
        ("matrix_transpose/02_swizzled", {"swizzle"}),
        ("matrix_multiplication/07_cp_async", {"async_copy"}),
        ("vector_add/02_float4_tail", {"global_vectors"}),
        ("vector_add/01_grid_stride", {"grid_stride"}),
        ("reduction/02_warp_shuffle", {"warp_shuffle"}),
        ("matrix_multiplication/03_register_blocked", {"register_blocking", "shared_vectors"}),
        ("matrix_multiplication/04_double_buffered", {"double_buffering"}),
        ("histogram/04_one_copy_a_warp", {"private_copies"}),
        ("histogram/03_int4_loads", {"global_vectors", "cache_hints"}),
        ("reduction/06_last_block", {"last_block"}),
        ("conv2d/02_constant_filter", {"constant_memory"}),
        ("histogram/05_warp_aggregated", {"match_any"}),
    ],
)
def test_techniques_of_honest_kernels_are_recognised(file: str, shows: set[str]) -> None:
    source = (ROOT / f"tests/fixtures/honest/{file}.cu").read_text()
    assert shows <= signs(source)


def test_vectors_of_shared_memory_are_told_from_those_of_other_memory() -> None:
    source = (
        ROOT / "tests/fixtures/honest/matrix_multiplication/03_register_blocked.cu"
    ).read_text()
    assert "global_vectors" not in signs(source)


@pytest.mark.parametrize("task", ["vector_add", "matrix_transpose", "histogram", "conv2d"])
def test_a_plain_baseline_shows_no_advanced_technique(task: str) -> None:
    uses = signs((ROOT / f"tasks/{task}/baseline.cu").read_text())
    assert not uses & {"async_copy", "swizzle", "double_buffering", "padding"}


def test_sources_are_searched_for_the_signs_in_the_catalogue_and_no_others() -> None:
    assert {one.shown_by for one in CATALOGUE if one.shown_by} == SIGNS


BLOCKED = """\
__device__ void load(float (&a)[8], const float* pa, int step)
{
    float4 v = *reinterpret_cast<const float4*>(pa + step);
    a[0] = v.x;
}

template <int BYTES>
__global__ void __launch_bounds__(256, 1) multiply(const float* A, float* C)
{
    extern __shared__ float tiles[];
    float* As = tiles;
    float a[8], sums[8][4];
    load(a, As + 4 * threadIdx.x, BYTES);
    C[threadIdx.x] = a[0] + sums[0][0];
}
"""


def test_a_pointer_to_shared_memory_is_followed_through_assignments_and_calls() -> None:
    assert signs(BLOCKED) >= {"shared_vectors"}
    assert "global_vectors" not in signs(BLOCKED)


def test_the_same_function_called_with_other_memory_reads_that_by_vectors() -> None:
    source = BLOCKED.replace("load(a, As + 4", "load(a, A + 4")
    assert signs(source) >= {"global_vectors"}
    assert "shared_vectors" not in signs(source)


def test_a_name_means_another_pointer_in_another_function() -> None:
    source = BLOCKED + BLOCKED.replace("load", "fetch").replace("multiply", "add").replace(
        "As = tiles", "As = C"
    )
    assert signs(source) >= {"shared_vectors", "global_vectors"}


TWO = """\
__constant__ float weights[9];

__device__ float once(const float* p)
{
    return __ldg(p);
}

namespace small {
__global__ void tiles(const float* A)
{
    __shared__ float4 tile[32];
}
}

__global__ void __launch_bounds__(256) rows(const float* A)
{
    once(A);
}
"""


def test_a_kernel_shows_what_it_and_those_it_calls_show() -> None:
    source = SourceFacts(TWO)
    rows, tiles = (part_of_kernel(source, name) for name in ("rows", "small::tiles<8, 4>"))
    assert signs_of(rows) == {"cache_hints", "launch_bounds", "constant_memory"}
    assert signs_of(tiles) == {"shared_vectors", "constant_memory"}
    assert rows.line(17) == source.line(17) == "once(A);"
    assert part_of_kernel(source, "another") is source


@pytest.mark.parametrize(
    "declaration", ["float sums[8][4];", "float a[2], sums[TM][TN];", "float sums[4] = {};"]
)
def test_a_local_array_of_outputs_is_register_blocking(declaration: str) -> None:
    assert "register_blocking" in signs(f"void f() {{ {declaration} }}")


@pytest.mark.parametrize("where", ["__shared__", "__constant__", "__device__"])
def test_an_array_elsewhere_is_none(where: str) -> None:
    assert "register_blocking" not in signs(f"{where} float tile[8][4];")


@pytest.mark.parametrize(
    "text",
    [
        'asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2));',
        "__pipeline_wait_prior(1);",
        "const int next = current ^ 1;",
    ],
)
def test_loading_the_next_tile_meanwhile_is_double_buffering(text: str) -> None:
    assert "double_buffering" in signs(f"void f() {{ {text} }}")


@pytest.mark.parametrize(
    "text", ['asm volatile("cp.async.wait_group 0;");', "__pipeline_wait_prior(0);"]
)
def test_waiting_for_all_copies_is_none(text: str) -> None:
    assert "double_buffering" not in signs(f"void f() {{ {text} }}")


@given(st.text(alphabet="f(a){}=;*&[2],<float4 >__shared__", max_size=120))
def test_any_text_shows_known_signs_only(text: str) -> None:
    assert signs(text) <= SIGNS
