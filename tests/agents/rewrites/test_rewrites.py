"""What each rewrite makes of a kernel's text, and where it finds nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_llm.agents.rewrites.annotations import launch_bounds, restricted, unrolled
from cuda_llm.agents.rewrites.block_size import block_shape, block_threads, tile_edge
from cuda_llm.agents.rewrites.elements import fewer_threads, more_elements
from cuda_llm.agents.rewrites.full_tiles import full_tiles
from cuda_llm.agents.rewrites.kernels import REWRITES, find_rewrites
from cuda_llm.agents.rewrites.neighbours import neighbouring_loads
from cuda_llm.agents.rewrites.padding import padded_tiles
from cuda_llm.agents.rewrites.vector_width import wider_accesses
from cuda_llm.agents.syntax_tree import SyntaxTree

Rewriting = Callable[[str, int], str | None]
PLAIN = Path(__file__).parents[2] / "fixtures/plain_kernels"
SOURCES = [*sorted(PLAIN.glob("*.cu")), *sorted(PLAIN.glob("*/baseline.cu"))]
NOTHING_TO_DO = """
__global__ void one(float value) {}
extern "C" void solve(float value, int n) { one<<<n, n>>>(value); }
"""
SAXPY = """
__global__ void saxpy(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" void solve(const float* x, float* y, float a, int n) {
    const int threads = 192;
    saxpy<<<(n + threads - 1) / threads, threads>>>(x, y, a, n);
}
"""
COLUMN_SUMS = """
constexpr int SIDE = 16;
__global__ void sums(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[SIDE][SIDE];
    int col = blockIdx.x * SIDE + threadIdx.x;
    float sum = 0.0f;
    for (int row = threadIdx.y; row < rows; row += SIDE) {
        if (col < cols) sum += in[row * cols + col];
    }
    tile[threadIdx.x][threadIdx.y] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && col < cols) {
        float total = 0.0f;
        for (int k = 0; k < SIDE; k++) total += tile[threadIdx.x][k];
        out[col] = total;
    }
}
extern "C" void solve(const float* in, float* out, int rows, int cols) {
    dim3 block(SIDE, SIDE);
    sums<<<(cols + SIDE - 1) / SIDE, block>>>(in, out, rows, cols);
}
"""


def test_a_block_grows_with_the_grid_that_follows_it() -> None:
    made = block_threads(SAXPY, 512)
    assert made == SAXPY.replace("threads = 192", "threads = 512")
    literal = SAXPY.replace("(n + threads - 1) / threads, threads", "(n + 191) / 192, 192")
    made = block_threads(literal, 512)
    assert made is not None and "saxpy<<<(n + 511) / 512, 512>>>" in made


def test_a_shared_array_as_long_as_the_block_grows_with_it() -> None:
    source = SAXPY.replace("int i =", "__shared__ float copy[192];\n    int i =")
    made = block_threads(source, 64)
    assert made is not None and "copy[64]" in made


def test_a_block_whose_size_is_computed_stays() -> None:
    assert block_threads(SAXPY.replace("192", "n < 32 ? 32 : 192"), 512) is None


def test_a_constant_that_names_both_extents_changes_alone() -> None:
    assert tile_edge(COLUMN_SUMS, 32) == COLUMN_SUMS.replace("SIDE = 16", "SIDE = 32")
    assert block_shape(COLUMN_SUMS, 32008) is None


@pytest.mark.parametrize("rest", ["block.y - 1", "1 * block.y - 1"])
def test_numbers_of_the_grid_that_only_look_like_the_block_stay(rest: str) -> None:
    source = f"""
__global__ void k(float* x, int n) {{
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (y < n) x[y] = 0.0f;
}}
extern "C" void solve(float* x, int n) {{
    dim3 block(128, 2);
    k<<<dim3(1, (n + {rest}) / block.y), block>>>(x, n);
}}
"""
    made = more_elements(source, 4)
    assert made is not None
    assert f"(n + {rest.replace('block.y', '(block.y * 4)')}) / (block.y * 4)" in made


def test_a_thread_takes_more_elements_in_fewer_blocks() -> None:
    made = more_elements(SAXPY, 4)
    assert made is not None
    assert "for (int part = 0; part < 4; part++)" in made
    assert "(n + (threads * 4) - 1) / (threads * 4), threads" in made


def test_dynamic_shared_memory_grows_with_the_block_that_it_follows() -> None:
    source = SAXPY.replace("threads, threads>>>", "threads, threads, threads * sizeof(float)>>>")
    made = more_elements(source, 2)
    assert made is not None and "threads, (threads * 2) * sizeof(float)>>>" in made
    assert "threads, bytes>>>" in (
        more_elements(source.replace("threads * sizeof(float)", "bytes"), 2) or ""
    )


def test_a_constant_of_the_host_alone_is_a_block_size_like_any_other() -> None:
    named = SAXPY.replace("const int threads = 192;", "").replace("threads", "WIDE")
    made = more_elements(f"#define WIDE 192\n{named}", 4)
    assert made is not None and "(n + (WIDE * 4) - 1) / (WIDE * 4), WIDE" in made


OTHER = """
__global__ void other(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.0f;
}
"""


@pytest.mark.parametrize("rewrite", [more_elements, wider_accesses])
def test_a_grid_that_another_kernel_needs_as_it_is_stays(rewrite: Rewriting) -> None:
    shared = SAXPY.replace("saxpy<<<(n + threads - 1) / threads,", "saxpy<<<blocks,").replace(
        "= 192;",
        "= 192, blocks = (n + threads - 1) / threads;\n    other<<<blocks, threads>>>(y, n);",
    )
    assert rewrite(OTHER + shared, 2) is not None
    lanes = OTHER.replace("0.0f;", "__shfl_sync(~0u, y[i], 0);")
    assert rewrite(lanes + shared, 2) is None


def test_what_a_thread_keeps_across_a_barrier_becomes_an_array() -> None:
    made = fewer_threads(COLUMN_SUMS, 4)
    assert made is not None
    assert "int col[4];" in made
    assert "float sum = 0.0f;" in made  # Nothing of it is left behind the barrier.
    assert "dim3 block(SIDE, SIDE / 4);" in made
    assert made.count("__syncthreads();") == 1


@pytest.mark.parametrize(
    "barrier",
    [
        "if (threadIdx.x < 32) __syncthreads();",  # Not all threads come by.
        "__shfl_down_sync(~0u, col, 1); __syncthreads();",  # Lanes talk to each other.
        "if (col >= cols) return; __syncthreads();",  # Some threads are gone.
        "dim3 me = threadIdx; __syncthreads();",  # All three numbers at once.
    ],
)
def test_threads_that_depend_on_each_other_are_not_put_together(barrier: str) -> None:
    assert fewer_threads(COLUMN_SUMS.replace("__syncthreads();", barrier), 2) is None


def test_elements_move_in_packs_with_a_scalar_rest() -> None:
    made = wider_accesses(SAXPY, 4)
    assert made is not None
    assert "i_first + 4 <= n && (size_t)(&y[i_first]) % 16 == 0" in made
    assert "pack0.at[lane] += a * pack1.at[lane]" in made
    assert "for (int i = i_first; i < i_first + 4 && i < n; i++)" in made
    assert wider_accesses(SAXPY, 8) is None


@pytest.mark.parametrize(
    "body",
    [
        "if (i < n) y[2 * i] = x[n - i];",  # No neighbours.
        "if (i < n) y[i] = y[i + 1];",  # Another turn's element.
        "if (i < n) { if (x[0] > 0) y[i] = 1.0f; }",  # Not every turn writes.
    ],
)
def test_accesses_that_no_pack_can_hold_stay(body: str) -> None:
    assert wider_accesses(SAXPY.replace("if (i < n) y[i] += a * x[i];", body), 4) is None


UNROLLED = """
__global__ void dots(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = a[4*i] * b[0] + a[4 * i + 1] * b[1];
    sum += a[4 * i + 2] * b[2] + a[4 * i + 3] * b[3];
    out[i] = sum;
}
extern "C" void solve(const float* a, const float* b, float* out, int n) {
    dots<<<(n + 127) / 128, 128>>>(a, b, out, n);
}
"""


def test_neighbouring_loads_become_one_where_they_are_aligned() -> None:
    made = neighbouring_loads(UNROLLED, 4)
    assert made is not None
    assert "if ((size_t)(&a[4*i + 0]) % 16 == 0)" in made
    assert "float sum = near0.at[0] * b[0] + near0.at[1] * b[1];" in made
    assert made.index("return;") < made.index("near0.bits")
    assert not SyntaxTree(made).has_error
    kernels = find_rewrites(UNROLLED)
    assert kernels is not None
    assert "neighbours" in {one.name for one in kernels.space.tunables}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a[4 * i + 3]", "a[4 * i + 4]"),
        ("sum += a[4", "i += 1; sum += a[4"),
        ("sum += a[4", "if (n > 3) sum += a[4"),
        ("out[i] = sum", "((float*)a)[i] = sum; a[i] = sum"),
    ],
)
def test_loads_that_are_no_neighbours_of_one_moment_stay(old: str, new: str) -> None:
    made = neighbouring_loads(UNROLLED.replace(old, new), 4) or ""
    assert "&a[" not in made


def test_a_block_within_its_bounds_asks_once() -> None:
    made = full_tiles(SAXPY, 1)
    assert made is not None
    whole, _, rest = made.partition("} else {")
    assert "const bool is_full_tile = (blockIdx.x * blockDim.x + (blockDim.x - 1)) < n;" in whole
    assert "if (i < n)" not in whole and "y[i] += a * x[i];" in whole
    assert "if (i < n) y[i]" in rest


def test_both_paths_of_full_tiles_share_their_shared_arrays() -> None:
    made = full_tiles(COLUMN_SUMS, 1)
    assert made is not None
    assert made.count("__shared__ float tile[SIDE][SIDE];") == 1
    assert made.index("__shared__") < made.index("if (is_full_tile)")


def test_an_index_that_may_shrink_with_the_thread_is_no_bound() -> None:
    assert full_tiles(SAXPY.replace("+ threadIdx.x", "- threadIdx.x"), 1) is None


def test_rows_of_shared_tiles_grow_and_no_other_array() -> None:
    made = padded_tiles(COLUMN_SUMS.replace("float sum =", "float own[2][2];\n    float sum ="), 1)
    assert made is not None
    assert "tile[SIDE][SIDE + 1]" in made and "own[2][2]" in made


def test_loops_that_say_how_they_are_unrolled_stay() -> None:
    said = COLUMN_SUMS.replace("        for (int k", "#pragma unroll\n        for (int k")
    made = unrolled(said, 4)
    assert made is not None
    assert made.count("#pragma unroll 4") == 1
    assert made.index("#pragma unroll 4") < made.index("int row = threadIdx.y")


def test_promises_to_the_compiler_are_written_once() -> None:
    made = restricted(SAXPY, 1)
    assert made is not None and "const float* __restrict__ x, float* __restrict__ y" in made
    assert restricted(made, 1) is None
    bounded = launch_bounds(SAXPY, 2)
    assert bounded is not None and "void __launch_bounds__(192, 2) saxpy" in bounded
    assert launch_bounds(bounded, 2) is None


def test_rewrites_compose_and_say_what_they_changed() -> None:
    kernels = find_rewrites(SAXPY)
    assert kernels is not None
    nothing = kernels.space.defaults
    assert kernels.write(nothing) == SAXPY
    point = {**nothing, "block_threads": 128, "vector_width": 4, "elements": 2, "restrict": 1}
    made = kernels.write(point)
    assert "threads = 128" in made and "Pack<float, 4>" in made and "part < 2" in made
    assert kernels.describe(point) == (
        "blocks of 128 threads; 4 neighbouring elements in one access where they are aligned; "
        "2 elements a thread in fewer blocks; pointers declared __restrict__, for read-only loads"
    )


def test_a_kernel_that_no_rewrite_fits_has_no_space() -> None:
    assert find_rewrites(NOTHING_TO_DO) is None
    assert find_rewrites("") is None


@pytest.mark.parametrize("path", SOURCES, ids=lambda one: one.relative_to(PLAIN).parts[0])
def test_what_rewrites_make_of_plain_kernels_parses(path: Path) -> None:
    source = path.read_text()
    kernels = find_rewrites(source)
    assert kernels is not None
    first = {one.name: one.values[-1] for one in kernels.space.tunables}
    for name in first:
        assert not SyntaxTree(
            kernels.write({**kernels.space.defaults, name: first[name]})
        ).has_error
    assert not SyntaxTree(kernels.write(first)).has_error


def test_names_of_rewrites_differ() -> None:
    assert len({one.name for one in REWRITES}) == len(REWRITES)
