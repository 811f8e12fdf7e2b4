"""Arrays in GPU memory: CuPy with own kernels, subnormals kept, and random numbers.

CuPy compiles every kernel with `-ftz=true`. Subnormal inputs would then be drawn as zeros, the
expected values of such inputs would be zeros, and a kernel that flushes subnormals would pass as
correct.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cuda_llm.errors import MissingError
from cuda_llm.tools.device.buffers import Array, Arrays, KernelProgram, LaunchKernel

THREADS_PER_BLOCK = 256

_EXACT = "-DCUDA_LLM_KEEPS_SUBNORMALS"
"""Option that marks sources to compile without `-ftz`, also in the keys of CuPy's cache."""
FLUSHED = "this CuPy flushes subnormal numbers to zero: kernels that do so are not detected"
RANDOM_SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;

struct Block { u32 word[4]; };

__device__ Block philox(u64 index, u32 draw, u32 k0, u32 k1, u32 c2, u32 c3) {
    u32 c0 = (u32)index;
    u32 c1 = draw << 8 ^ (u32)(index >> 32);
    for (int round = 0; round < 10; ++round) {
        u64 one = (u64)0xD2511F53u * c0, other = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(other >> 32) ^ c1 ^ k0;
        c1 = (u32)other;
        c2 = (u32)(one >> 32) ^ c3 ^ k1;
        c3 = (u32)one;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Block{{c0, c1, c2, c3}};
}

__device__ u64 pair(Block const& block, int half) {
    return (u64)block.word[2 * half + 1] << 32 | block.word[2 * half];
}

// Two normals from two words (Box and Muller 1958).
__device__ void normals(u32 one, u32 other, float& first, float& second) {
    float radius = sqrtf(-2.0f * logf((float)((double)one + 1.0) * 2.3283064365386963e-10f));
    float sine, cosine;
    sincospif((float)other * 4.656612873077393e-10f, &sine, &cosine);
    first = radius * cosine;
    second = radius * sine;
}

#define DRAW u64 count, u32 k0, u32 k1, u32 c2, u32 c3, u32 draw
#define INDEX ((u64)blockIdx.x * blockDim.x + threadIdx.x)

// The numbers do not depend on the type they are kept in.
template <typename T>
__device__ void whole(T* values, DRAW, long long low, u64 span) {
    u64 index = INDEX, at = 2 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 2 && at + i < count; ++i) {
        u64 word = pair(block, i);
        values[at + i] = (T)((u64)low + (span ? __umul64hi(word, span) : word));
    }
}

extern "C" __global__ void bounded64(long long* values, DRAW, long long low, u64 span) {
    whole(values, count, k0, k1, c2, c3, draw, low, span);
}

extern "C" __global__ void bounded32(int* values, DRAW, long long low, u64 span) {
    whole(values, count, k0, k1, c2, c3, draw, low, span);
}

extern "C" __global__ void unit32(float* values, DRAW) {
    u64 index = INDEX, at = 4 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 4 && at + i < count; ++i)
        values[at + i] = (float)(block.word[i] >> 8) * 5.9604644775390625e-8f;
}

extern "C" __global__ void unit64(double* values, DRAW) {
    u64 index = INDEX, at = 2 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 2 && at + i < count; ++i)
        values[at + i] = (double)(pair(block, i) >> 11) * 1.1102230246251565e-16;
}

extern "C" __global__ void normal32(float* values, DRAW) {
    u64 index = INDEX, at = 4 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    float drawn[4];
    normals(block.word[0], block.word[1], drawn[0], drawn[1]);
    normals(block.word[2], block.word[3], drawn[2], drawn[3]);
    for (int i = 0; i < 4 && at + i < count; ++i) values[at + i] = drawn[i];
}

// Gamma of shape 3/2: half of a chi-squared with three degrees of freedom.
extern "C" __global__ void gamma32(float* values, DRAW) {
    u64 index = INDEX;
    if (index >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    float a, b, c, d;
    normals(block.word[0], block.word[1], a, b);
    normals(block.word[2], block.word[3], c, d);
    values[index] = fmaxf(0.5f * (a * a + b * b + c * c), 1e-30f);
}
"""
Size: TypeAlias = int | tuple[int, ...]
RANDOM_PROGRAM = KernelProgram(
    RANDOM_SOURCE, ("bounded64", "bounded32", "unit32", "unit64", "normal32", "gamma32")
)


def launch_on_gpu(
    program: KernelProgram, kernel: str, threads: int, arguments: tuple[Any, ...]
) -> None:
    """Launch a kernel on the current device and stream, without waiting for it."""
    blocks = -(-threads // THREADS_PER_BLOCK)
    _compiled_kernels(program)[kernel]((blocks,), (THREADS_PER_BLOCK,), arguments)


@lru_cache(maxsize=8)
def _compiled_kernels(program: KernelProgram) -> dict[str, Any]:
    import cupy

    module = cupy.RawModule(code=program.source)
    return {name: module.get_function(name) for name in program.kernels}


def require_nvrtc(nvrtc: Any) -> None:
    """Raise MissingError where the library that compiles CuPy's kernels is not on this machine.

    `nvrtc` is the module `cupy.cuda.nvrtc`. The driver does not bring that library.
    """
    try:
        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        what = "CuPy lacks the libraries of a CUDA toolkit (NVRTC)"
        remedy = "install a CUDA toolkit, or CuPy's parts of it: pip install 'cuda-llm[worker]'"
        raise MissingError(what, remedy) from error


def keep_subnormals(compiler: Any) -> None:
    """Have CuPy's kernels in this process compute with subnormal numbers from now on.

    `compiler` is the module `cupy.cuda.compiler`, which has no setting for subnormals. A CuPy whose
    compiler module has another structure is left unchanged; `keeps_subnormals` finds that out.
    """
    program = getattr(compiler, "_NVRTCProgram", None)
    with_cache = getattr(compiler, "_compile_with_cache_cuda", None)
    if program is None or with_cache is None or hasattr(with_cache, "keeps_subnormals"):
        return
    compile_program = program.compile

    def compile_exactly(self: Any, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        if _EXACT in options:
            options = tuple(one for one in options if not one.startswith("-ftz="))
        return compile_program(self, options, *more, **named)

    def marked(source: str, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        return with_cache(source, (*options, _EXACT), *more, **named)

    marked.keeps_subnormals = True  # type: ignore[attr-defined]
    program.compile = compile_exactly
    compiler._compile_with_cache_cuda = marked


def keeps_subnormals(xp: Any) -> bool:
    """Return whether a subnormal number survives two conversions; `xp` is NumPy or CuPy."""
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    number = xp.full(1, 5 * smallest, xp.float64).astype(xp.float32).astype(xp.float64)
    return bool(number[0] == 5 * smallest)


class CountedRandom:
    """Random arrays on a GPU from a 128-bit seed, with the methods of NumPy's Generator that the
    validator uses.

    Names and meanings are those of numpy.random.Generator; the numbers differ: Philox4x32-10 by
    counter (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), where word i of
    draw d is a function of seed, d and i alone. cupy.random has a seed of 32 bits, few enough for a
    candidate to try them all. Single numbers (`size` None), and choices without repetition, are
    drawn on the host.
    """

    def __init__(self, xp: Any, launch: LaunchKernel, seed: int) -> None:
        self._xp = xp
        self._launch = launch
        self._words = tuple(np.uint32(seed >> shift & 0xFFFFFFFF) for shift in (0, 32, 64, 96))
        self._draws = 0
        self._host = np.random.Generator(np.random.PCG64(seed))

    def random(self, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Draw evenly over [0, 1): 24 bits in float32, 53 in float64."""
        if np.dtype(dtype) == np.float32:
            return self._draw("unit32", size, np.float32, a_block=4)
        return self._draw("unit64", size, np.float64, a_block=2)

    def standard_normal(self, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Draw with mean 0 and variance 1, within 6.7 (Box-Muller); float32 only."""
        _only_float32(dtype)
        return self._draw("normal32", size, np.float32, a_block=4)

    def standard_gamma(self, shape: float, size: Size, dtype: npt.DTypeLike = np.float64) -> Array:
        """Draw gamma of shape 1.5, float32 only: half the sum of three squared normals."""
        _only_float32(dtype)
        if shape != 1.5:
            raise ValueError(f"shape {shape}; expected 1.5")
        return self._draw("gamma32", size, np.float32, a_block=1)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size | None = None,
        dtype: npt.DTypeLike = np.int64,
        endpoint: bool = False,
    ) -> Array:
        """Draw from [low, high), or up to high; uneven by at most 2^-64 of the range."""
        first, last = (0, low) if high is None else (low, high)
        span = last - first + endpoint
        if size is None:
            return int(self._host.integers(first, last, endpoint=endpoint))
        if not 0 < span <= 1 << 64:
            raise ValueError(f"no whole numbers in [{first}, {last})")
        ends = (np.int64(first), np.uint64(span & (1 << 64) - 1))
        if np.dtype(dtype) == np.int32:
            return self._draw("bounded32", size, np.int32, 2, *ends)
        return self._draw("bounded64", size, np.int64, 2, *ends).astype(dtype, copy=False)

    def choice(
        self, options: int | Sequence[float], size: Size | None = None, replace: bool = True
    ) -> Array:
        """Draw elements of a short sequence, or whole numbers below `options` each at most once."""
        if isinstance(options, int):
            if replace:
                return self.integers(0, options, size)
            return self._xp.asarray(self._host.choice(options, size, replace=False))
        if not replace or size is None:
            raise ValueError("expected a size, and elements that may repeat")
        return self._xp.asarray(np.asarray(options))[self.integers(0, len(options), size)]

    def _draw(
        self, kernel: str, size: Size, dtype: npt.DTypeLike, a_block: int, *more: Any
    ) -> Array:
        """Draw in one launch: each thread makes `a_block` numbers from one 128-bit Philox block."""
        shape = (size,) if isinstance(size, int) else tuple(size)
        values = self._xp.empty(shape, dtype)
        count = math.prod(shape)
        if count:
            arguments = (values, np.uint64(count), *self._words, np.uint32(self._draws), *more)
            self._launch(RANDOM_PROGRAM, kernel, -(-count // a_block), arguments)
        self._draws += 1
        return values


def _only_float32(dtype: npt.DTypeLike) -> None:
    if np.dtype(dtype) != np.float32:
        raise ValueError(f"{np.dtype(dtype)}; expected float32")


def random_on_gpu(seed: int) -> CountedRandom:
    """Return a generator whose arrays are CuPy's, on the current device and stream."""
    import cupy

    return CountedRandom(cupy, launch_on_gpu, seed)


def on_gpu() -> Arrays:
    """Return CuPy's arrays on the current device, from its own pool. Raises MissingError."""
    try:
        import cupy
    except ImportError as error:
        raise MissingError("CuPy", "install it: pip install 'cuda-llm[gpu]'") from error

    require_nvrtc(cupy.cuda.nvrtc)
    keep_subnormals(cupy.cuda.compiler)
    # Reductions made of CUB's templates take up to nine seconds each to compile.
    cupy._core.set_reduction_accelerators([])
    return Arrays(
        xp=cupy,
        generator=random_on_gpu,
        to_host=cupy.asnumpy,
        at_once=1 << 24,
        part_bytes=1 << 31,
        launch=launch_on_gpu,
    )
