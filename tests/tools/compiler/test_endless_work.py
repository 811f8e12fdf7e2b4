"""What makes compilers work for very long ends in seconds; heavy honest code has room."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from corpus_sample import sample

from cuda_llm.outcomes import CompileFailed, CompilerStop, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import compile_request
from cuda_llm.tools.device.candidate import Compiled, CompileLimits
from cuda_llm.verdict_wording import describe

Compile = Callable[..., Compiled | Verdict]

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
LIMITS = CompileLimits()
WALL_S = 900
"""Generous: what ends a compiler here is processor time and memory, on a busy machine too."""
TIGHT = CompileLimits(wall_s=WALL_S, cpu_s=2, front_end_cpu_s=1, memory_bytes=1 << 30)
"""What reads an ordinary source needs a quarter of a second."""
ROOM = CompileLimits(
    wall_s=WALL_S,
    cpu_s=LIMITS.cpu_s / 2,
    front_end_cpu_s=LIMITS.front_end_cpu_s / 2,
    memory_bytes=LIMITS.memory_bytes // 2,
)


def adds(value: str) -> str:
    """A kernel that adds `value`, of which `x` may be a part."""
    return (
        "__global__ void add(const float* a, float* b, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    if (i < n) {{ float x = a[i]; b[i] = x + {value}; }}\n}}\n"
        f"{SOLVE} {{ add<<<(n + 255) / 256, 256>>>(a, b, n); }}\n"
    )


def doubling(first: str, times: int) -> str:
    """Macros that each expand to the one before, twice."""
    rest = (f"#define M{i} M{i - 1} M{i - 1}\n" for i in range(1, times + 1))
    return f"#define M0 {first}\n{''.join(rest)}"


CLASSES = """
template <unsigned long P, int K> struct Node {
    static const int value = Node<2 * P, K - 1>::value + Node<2 * P + 1, K - 1>::value;
};
template <unsigned long P> struct Node<P, 0> { static const int value = 1; };
"""
DEVICE_FUNCTIONS = """
template <int K, unsigned long P> struct Walk {
    static __device__ __forceinline__ float go(float x) {
        return Walk<K - 1, 2 * P>::go(x * 1.5f) + Walk<K - 1, 2 * P + 1>::go(x + 0.5f);
    }
};
template <unsigned long P> struct Walk<0, P> {
    static __device__ __forceinline__ float go(float x) { return x * float(P); }
};
"""
TYPES = """
template <typename A, typename B> struct Pair {};
template <int N> struct Grow {
    using type = Pair<typename Grow<N - 1>::type, typename Grow<N - 1>::type>;
};
template <> struct Grow<0> { using type = Pair<int, float>; };
template <typename T> __device__ __noinline__ float size(float x) { return x + sizeof(T); }
"""
SEQUENCE = """
#include <utility>
template <int... I> __device__ float sum(float x, std::integer_sequence<int, I...>) {
    return (0.0f + ... + (x * I));
}
"""
LOOPS = """
constexpr unsigned long spin(unsigned n) {
    unsigned long s = 0;
    while (n) s += n--;
    return s;
}
"""
CONSTANTS = LOOPS + "".join(f"constexpr auto c{i} = spin({400_000 + i});\n" for i in range(200))
DEVICE_CONSTANTS = f"#ifdef __CUDA_ARCH__\n{CONSTANTS}#endif\n"
INCLUDES = (
    "#if __INCLUDE_LEVEL__ < 22\n#include __FILE__\n#include __FILE__\n#endif\n"
    "#if __INCLUDE_LEVEL__ == 0\n" + adds("1") + "#endif\n"
)
UNROLLED = f"""
__global__ void chain(const float* a, float* b) {{
    float s = 0;
#pragma unroll
    for (int i = 0; i < 64; i++)
#pragma unroll
        for (int j = 0; j < 64; j++)
#pragma unroll
            for (int k = 0; k < 64; k++) s += a[i * j + k] * s;
    b[threadIdx.x] = s;
}}
{SOLVE} {{ chain<<<1, 256>>>(a, b); }}
"""
INLINED = "float f0(float x, const float* a) { return x * a[(int)x & 1023]; }\n" + "".join(
    f"float f{i}(float x, const float* a)"
    f" {{ return f{i - 1}(x, a) + f{i - 1}(x * 0.5f + {i}, a); }}\n"
    for i in range(1, 18)
)
ON_DEVICE = INLINED.replace("float f", "__device__ __forceinline__ float f")
ON_HOST = INLINED.replace("float f", "__attribute__((always_inline)) static inline float f")
ASSEMBLED = (
    r'static void f() { asm volatile(".macro m k\n.if \\k\nm (\\k-1)\nm (\\k-1)\n.endif\n"'
    r' ".endm\nm 30"); }'
    "\n"
)


def memory(program: str) -> CompilerStop:
    return CompilerStop(kind="memory", program=program, limit_bytes=TIGHT.memory_bytes)


def time(program: str, limit_s: float = TIGHT.front_end_cpu_s) -> CompilerStop:
    return CompilerStop(kind="processor-time", program=program, limit_s=limit_s)


ENDLESS: dict[str, tuple[str, set[CompilerStop]]] = {
    "template classes": (
        CLASSES + adds("Node<1, 24>::value"),
        {memory("cudafe++"), time("cudafe++")},
    ),
    "template functions": (
        DEVICE_FUNCTIONS + adds("Walk<24, 1>::go(x)"),
        {memory("cicc"), time("cicc")},
    ),
    "types whose names double": (
        TYPES + adds("size<typename Grow<30>::type>(x)"),
        {time("cudafe++"), CompilerStop(kind="file-size", limit_bytes=TIGHT.output_bytes)},
    ),
    "a long parameter pack": (
        SEQUENCE + adds("sum(x, std::make_integer_sequence<int, 300000>())"),
        {time("cudafe++")},
    ),
    "macros in the code": (doubling("+1", 26) + adds("0 M26"), {memory("cpp"), time("cpp")}),
    "macros in a condition": (
        doubling("+1", 26) + "#if 0 M26 == 1\n#endif\n" + adds("1"),
        {memory("cpp"), time("cpp")},
    ),
    "files that include themselves": (INCLUDES, {time("cpp")}),
    "loops in constants": (CONSTANTS + adds("c1"), {time("cudafe++")}),
    "loops in constants of the device": (DEVICE_CONSTANTS + adds("1"), {time("cicc")}),
    "loops unrolled": (UNROLLED, {time("cicc", TIGHT.cpu_s)}),
    "functions inlined": (
        ON_DEVICE + adds("f17(x, a)"),
        {time("cicc", TIGHT.cpu_s), memory("cicc")},
    ),
    "functions inlined on the host": (
        ON_HOST + adds("n").replace("(a, b, n); }", "(a, b, f17(n, a)); }"),
        {time("cc1plus"), memory("cc1plus")},
    ),
    "macros of the assembler": (ASSEMBLED + adds("1").replace("{ add", "{ f(); add"), {time("as")}),
}


@pytest.mark.parametrize("kind", sample(ENDLESS, every=6))
def test_endless_work_for_a_compiler_is_refused_in_seconds(
    compile_source: Compile, kind: str
) -> None:
    source, stops = ENDLESS[kind]

    failed = compile_source(source, limits=TIGHT)

    assert isinstance(failed, CompileFailed), failed
    assert failed.stop in stops
    assert failed.fault == "too-large"
    assert "file larger" in describe(failed)[0] or " less" in describe(failed)[0]


def test_what_a_slower_machine_brings_about_is_not_remembered(
    own_cache: Path, compile_source: Compile
) -> None:
    source = CONSTANTS + adds("c1")

    assert isinstance(compile_source(source, limits=TIGHT), CompileFailed)

    assert list(own_cache.glob("compiled/*/*/manifest.json")) == []


def test_limits_follow_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LLM_COMPILE_WALL_S", "300")
    monkeypatch.setenv("CUDA_LLM_COMPILE_MEMORY_MIB", "4096")

    limits = compile_request(load_task("matrix_transpose"), "sm_86", "", "mine.cu").limits

    assert limits == CompileLimits(wall_s=300, cpu_s=150, front_end_cpu_s=50, memory_bytes=4 << 30)


CUB = """
#include <cub/cub.cuh>
extern "C" void solve(const float* a, float* b, int n) {
    size_t bytes = 0;
    cub::DeviceRadixSort::SortKeys(nullptr, bytes, a, b, n);
    void* scratch = nullptr;
    cudaMalloc(&scratch, bytes);
    cub::DeviceRadixSort::SortKeys(scratch, bytes, a, b, n);
    cub::DeviceScan::InclusiveSum(scratch, bytes, a, b, n);
    cub::DeviceReduce::Sum(scratch, bytes, a, b, n);
    cudaFree(scratch);
}
"""
GROUPS = """
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/mdspan>
#include <cuda/std/tuple>
namespace cg = cooperative_groups;
__global__ void k(const float* a, float* b) {
    __shared__ float tile[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, tile, a, sizeof tile);
    cg::wait(block);
    auto warp = cg::tiled_partition<32>(block);
    cuda::std::mdspan<float, cuda::std::extents<int, 8, 32>> rows(tile);
    float x = cg::reduce(warp, rows(warp.meta_group_rank(), warp.thread_rank()), cg::plus<float>());
    b[threadIdx.x] = cg::inclusive_scan(warp, x);
}
extern "C" void solve(const float* a, float* b, int n) { k<<<1, 256>>>(a, b); }
"""
TILES = """
template <int BM_, int BN_, int BK_, int TM_, int TN_> struct Tile {
    static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_;
    static constexpr int threads = BM * BN / TM / TN;
};
template <int I, int N> struct Steps {
    template <typename F> static __device__ __forceinline__ void each(F f) {
        f(I);
        Steps<I + 1, N>::each(f);
    }
};
template <int N> struct Steps<N, N> {
    template <typename F> static __device__ __forceinline__ void each(F) {}
};
template <typename T> __global__ __launch_bounds__(T::threads)
void k(const float* a, float* b, int n) {
    __shared__ float A[T::BK][T::BM], B[T::BK][T::BN];
    float sum[T::TM][T::TN] = {};
    int tx = threadIdx.x % (T::BN / T::TN), ty = threadIdx.x / (T::BN / T::TN);
    for (int k0 = 0; k0 < n; k0 += T::BK) {
        for (int i = threadIdx.x; i < T::BM * T::BK; i += T::threads)
            A[i % T::BK][i / T::BK] = a[(blockIdx.y * T::BM + i / T::BK) * n + k0 + i % T::BK];
        for (int i = threadIdx.x; i < T::BN * T::BK; i += T::threads)
            B[i / T::BN][i % T::BN] = a[(k0 + i / T::BN) * n + blockIdx.x * T::BN + i % T::BN];
        __syncthreads();
        Steps<0, T::BK>::each([&](int s) {
#pragma unroll
            for (int i = 0; i < T::TM; i++)
#pragma unroll
                for (int j = 0; j < T::TN; j++)
                    sum[i][j] += A[s][ty * T::TM + i] * B[s][tx * T::TN + j];
        });
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < T::TM; i++)
#pragma unroll
        for (int j = 0; j < T::TN; j++)
            b[(blockIdx.y * T::BM + ty * T::TM + i) * n + blockIdx.x * T::BN + tx * T::TN + j] =
                sum[i][j];
}
template <typename T> void go(const float* a, float* b, int n) {
    k<T><<<dim3(n / T::BN, n / T::BM), T::threads>>>(a, b, n);
}
"""
SHAPES = [
    f"Tile<{bm}, {bn}, {bk}, 8, {tn}>"
    for bm, bn, bk, tn in product((64, 128), (64, 128), (16, 32), (4, 8))
]
EIGHT_TILES = "".join(
    f"if (n == {i}) go<{shape}>(a, b, n);\n" for i, shape in enumerate(SHAPES[:8])
)
TABLE = """
#include <cuda/std/array>
constexpr auto make() {
    cuda::std::array<unsigned, 4096> table{};
    for (unsigned i = 0; i < 4096; i++) {
        unsigned c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
        table[i] = c;
    }
    return table;
}
__constant__ const cuda::std::array<unsigned, 4096> table = make();
"""
DEEP = """
template <int N> struct Power {
    static __device__ float of(float x) { return Power<N - 1>::of(x) * x + N; }
};
template <> struct Power<0> { static __device__ float of(float x) { return x; } };
"""

HONEST = {
    "cooperative groups and libcu++": ("libraries", GROUPS),
    "sort, scan and reduce of CUB": ("libraries", CUB),
    "a kernel at eight tilings": ("optimised", f"{TILES}{SOLVE} {{ {EIGHT_TILES} }}\n"),
    "4,096 products unrolled": ("optimised", UNROLLED.replace("k < 64", "k < 1")),
    "a table made at compile time": ("evaluated", TABLE + adds("table[i & 4095]")),
    "180 instantiations deep": ("evaluated", DEEP + adds("Power<180>::of(x)")),
    "a macro that repeats 1,024 times": ("evaluated", doubling("+1", 10) + adds("0 M10")),
}
"""What is heavy, and the source."""
JUDGED = sample(HONEST, every=7)


@pytest.mark.parametrize("kind", JUDGED)
def test_heavy_honest_code_needs_less_than_half_of_each_limit(
    compile_source: Compile, kind: str
) -> None:
    compiled = compile_source(HONEST[kind][1], limits=ROOM)

    assert isinstance(compiled, Compiled), describe(compiled)
