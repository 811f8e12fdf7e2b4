"""Numbers that a source spells."""

import pytest

from cuda_llm.source_file import numbers_in, shared_shape, short_kernel_name, thresholds_in


@pytest.mark.parametrize(
    ("source", "numbers"),
    [
        ("if (n > 12345) return;", (12345,)),
        ("int a = 0x10000u, b = 1'000'000, c = 16;", (65536, 1000000)),
        ("n >= 1 << 20; m < 256 * 1024", (1024, 262144, 1048576)),
        ("n > 1e6f", (1000000,)),
        ('// 99999\n/* 88888 */ "77777" x4096', ()),
        ("n < 99999999999999", ()),
    ],
)
def test_whole_numbers_shifts_and_products_are_found(source: str, numbers: tuple[int, ...]) -> None:
    assert numbers_in(source) == numbers


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("tile<4>", "tile<4>"),
        (
            "cub::detail::reduce::DeviceReduceKernel<cub::Policy<float, int>, 256, float*>",
            "DeviceReduceKernel<cub::Policy<…>, 256, float*>",
        ),
        ("a::" + "k<" + ", ".join(["thrust::tuple<int>"] * 9) + ">", "k<…>"),
        ("x" * 80, "x" * 59 + "…"),
    ],
)
def test_a_long_kernel_name_is_cut_to_what_tells(name: str, shown: str) -> None:
    assert short_kernel_name(name) == shown


THRESHOLDS = """
#define LIMIT 4096
constexpr int MOST = 1 << 12;
static const size_t CAP = 256 * 1024;
__global__ void k(int n, int cols) {
    if (n > LIMIT) return;
    if (cols <= MOST) x();
    for (int i = 0; i < 8; ++i) y();
    if (1024 < n || n >= CAP || n > 256 * 64) z();
    a = n << 3, b = n >> 2;
    k<<<n, 3>>>();  // n < 77
}
"""


def test_numbers_that_an_extent_is_compared_with_are_found_by_any_name() -> None:
    found = thresholds_in(THRESHOLDS, ("n", "cols", "rows"))
    assert found == {"n": (1024, 4096, 256 * 64, 256 * 1024), "cols": (4096,)}


@pytest.mark.parametrize(
    ("declaration", "size", "shape"),
    [
        ("__shared__ float tile[32][33];", 4224, (32, 33)),
        ("constexpr int T = 32;\n__shared__ __align__(16) half tile[T][T + 8];", 2560, (32, 40)),
        ("#define T (1 << 5)\n__shared__ float2 other[4], tile[T];", 256, (32,)),
        ("template <int T> void f() { __shared__ float tile[T]; }", 128, ()),
        ("__shared__ float tile[32];", 1024, ()),
        ("{ __shared__ int tile[4][8]; } { __shared__ int tile[8][4]; }", 128, ()),
        ("// __shared__ int tile[32];", 128, ()),
    ],
)
def test_extents_of_a_shared_array_are_read_where_they_are_spelled(
    declaration: str, size: int, shape: tuple[int, ...]
) -> None:
    assert shared_shape(declaration, "tile", size) == shape
