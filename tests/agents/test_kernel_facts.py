"""What the text of a kernel shows, and which techniques."""

import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.kernel_facts import SIGNS, SourceFacts, part_of_kernel, signs_of
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.source_tokens import blank_comments

KERNEL = """\
// __syncthreads() in a comment is none
__global__ void sum(const float* in, float* out, int n)
{
    __shared__ float tile[32][33];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < n; k += 32) {
        tile[threadIdx.y][threadIdx.x] = in[k];
        __syncthreads();
        if (threadIdx.x < 16) {
            __syncthreads();
        }
    }
    float4 v = reinterpret_cast<const float4*>(in)[i];
    if (threadIdx.x == 0)
        atomicAdd(out, v.x);
}

extern "C" void solve(const float* in, float* out, int n)
{
    const char* note = "} not a brace {";
    sum<<<dim3((n + 31) / 32, 1), 256, 3 * sizeof(float)>>>(in, out, n);
}
"""


def test_launches_are_read_with_their_configuration() -> None:
    (launch,) = SourceFacts(KERNEL).launches
    assert (launch.line, launch.kernel) == (22, "sum")
    assert (launch.grid, launch.block) == ("dim3((n + 31) / 32, 1)", "256")
    assert launch.shared == "3 * sizeof(float)"


def test_shared_arrays_barriers_vectors_and_atomics_are_found_by_line() -> None:
    facts = SourceFacts(KERNEL)
    assert [(one.line, one.name, one.extents) for one in facts.shared_arrays] == [
        (4, "tile", "[32][33]")
    ]
    assert facts.barriers == (9, 11)
    assert facts.vector_accesses == (14,)
    assert facts.atomics == (16,)


def test_a_barrier_under_a_branch_on_the_thread_is_distinguished_from_one_in_a_loop() -> None:
    facts = SourceFacts(KERNEL)
    branch = facts.branch_around(11)
    assert branch is not None
    assert (branch.first, branch.header) == (10, "(threadIdx.x < 16)")
    assert facts.branch_around(9) is None
    assert facts.around(9, "for")[0].header == "(int k = 0; k < n; k += 32)"


def test_an_early_return_counts_as_a_guard_of_what_follows_it() -> None:
    facts = SourceFacts(KERNEL)
    assert facts.left_early(9) == 6
    assert "(i >= n)" in facts.guards(14)
    assert facts.guards(5) == ()


def test_a_single_statement_below_an_if_is_a_block_too() -> None:
    assert "(threadIdx.x == 0)" in SourceFacts(KERNEL).guards(16)


def test_attributes_that_the_grammar_does_not_know_hide_no_declaration() -> None:
    source = (
        "__global__ void __cluster_dims__(2, 1, 1) f(int n) {\n"
        "    extern __shared__ __align__(16) float raw[];\n"
        "    __shared__ __align__(128) float a[2], b[ROWS][4];\n}\n"
    )
    facts = SourceFacts(source)
    assert [one.name for one in facts.functions] == ["f"]
    found = [(one.line, one.name, one.extents) for one in facts.shared_arrays]
    assert found == [(2, "raw", "[]"), (3, "a", "[2]"), (3, "b", "[ROWS][4]")]


def test_an_else_is_a_block_of_its_own_and_an_else_if_is_an_if() -> None:
    facts = SourceFacts("void f() {\n if (a)\n  g();\n else if (b < c)\n  h();\n else\n  i();\n}\n")
    found = [(one.kind, one.header, one.first, one.last) for one in facts.blocks]
    assert found == [("if", "(a)", 2, 3), ("if", "(b < c)", 4, 5), ("else", "", 6, 7)]


LONG = 1 << 17
HOSTILE = {
    **{text: text * (LONG // len(text)) for text in ("(", "{", "f(", "a<", "*", '"', "#if A\n")},
    "if (a) {": "void f() {" + "if (a) {" * 5_000 + "}" * 5_001,
    "if (a); else": "void f() {" + "if (a); else\n" * 5_000 + ";}",
    "1 +": "void f() { int x = " + "1 + " * 5_000 + "1; }",
    "namespace": "namespace a {" * 5_000 + "}" * 5_000,
    "prose": "I'm sorry, I can't: x < y (see below).\n" * 5_000,
    "null": "__global__ void f() {}\0" * 1000,
    "surrogate": "void f() { g(\udce9); }",
    "carriage returns": KERNEL.replace("\n", "\r\n"),
    "pieces": "".join(
        random.Random(1).choices("f(a){}=;*&[2],<float4 >__shared__\n\"'#\\", k=LONG)
    ),
    "half": KERNEL[: len(KERNEL) // 2],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_any_text_is_read_in_seconds_of_processor_time(name: str) -> None:
    text, started_s = HOSTILE[name], time.process_time()
    facts = SourceFacts(text)
    lines = text.count("\n") + 1
    assert all(1 <= block.first <= block.last <= lines for block in facts.blocks)
    assert all(1 <= found.line <= lines for found in facts.launches)
    assert all(1 <= found.line <= lines for found in facts.shared_arrays)
    assert signs_of(facts) <= SIGNS
    facts.guards(lines)
    part_of_kernel(facts, "f")
    assert time.process_time() - started_s < 10


@given(st.text(alphabet="if(){};<>/*\"\n aN_#%'\\", max_size=200))
def test_any_short_text_can_be_read(text: str) -> None:
    facts = SourceFacts(text)
    lines = text.count("\n") + 1
    assert all(1 <= block.first <= block.last <= lines for block in facts.blocks)
    assert all(1 <= found.line <= lines for found in facts.launches)
    assert all(1 <= found.line <= lines for found in facts.shared_arrays)
    assert blank_comments(text).count("\n") == text.count("\n")


ROOT = Path(__file__).parents[2]
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


LOADING = {
    "float v[4]; for (int k = 0; k < 4; ++k) v[k] = in[i + k * 256];": True,
    "float v[4]; for (int k = 0; k < 4; ++k) { if (k < n) { v[k] = __ldg(&in[i + k]); } }": True,
    "float v[4]; for (int k = 0; k < 4; ++k) { int j = i + k; v[k] = in[j < n ? j : 0]; }": True,
    "for (int k = 0; k < 4; ++k) { float4 a = in4[k]; own.at[k] = a; }": True,
    "float v[4];\n#pragma unroll\nfor (int k = 0; k < 4; ++k) { v[k] = in[k]; m += v[k]; }": True,
    "for (int k = 0; k < 4; ++k) { float a = in[k]; sum += a; }": False,
    "float4 a = in4[i]; float4 b = in4[i + 32];": True,
    "float a = in[i], b = in[i + 32];": True,
    "int a = index[i]; float b = in[a];": False,
    "for (int k = 0; k < 4; ++k) out[k] = in[i + k * 256];": False,
    "float v[4]; for (int k = 0; k < 4; ++k) { v[k] = in[k]; sum += v[k]; }": False,
    "__shared__ float t[64]; float a = t[i]; float b = t[i + 32];": False,
    "float v[4]; for (int k = 0; k < 4; ++k) v[k] = 0.0f;": False,
}


@pytest.mark.parametrize(("body", "shown"), LOADING.items())
def test_loads_before_the_first_use_are_recognised(body: str, shown: bool) -> None:
    head = "__global__ void f(const float* in, const float4* in4, const int* index, float* out)"
    assert ("loads_first" in signs_of(SourceFacts(f"{head}\n{{\n{body}\n}}\n"))) == shown
