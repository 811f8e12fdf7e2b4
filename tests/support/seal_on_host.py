"""The kernels of `seal.cu`, built with g++ and run thread by thread, where CuPy would be."""

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.cuda import build
from cuda_llm.tools.cuda.protocol import SealCall, SlotsCall
from cuda_llm.tools.device.buffers import Arrays
from cuda_llm.tools.native import find_gxx

NATIVE = Path(build.__file__).parent / "native"
SOURCE = """
#include <cstdint>
#define __device__ static inline
#define __global__
#define __grid_constant__
struct alignas(16) uint4 { uint32_t x, y, z, w; };
static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
struct Index { unsigned x, y; };
static Index blockIdx, threadIdx, blockDim{1, 1}, gridDim;
static uint32_t __umulhi(uint32_t a, uint32_t b) { return uint64_t{a} * b >> 32; }
static uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
// Every thread is the first of its warp, and alone.
static unsigned long long __shfl_down_sync(unsigned, unsigned long long, int) { return 0; }
static void __threadfence_system() {}
static void atomicAdd(unsigned long long* to, unsigned long long more) { *to += more; }
// What has no host's instruction is compiled, and never called.
#define asm if (false) asm
#include "seal.cu"
template <typename Kernel, typename Call>
static void run(Kernel kernel, unsigned threads, unsigned rows, const Call* call) {
  gridDim = {threads, rows};
  for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < threads; ++blockIdx.x) kernel(*call);
}
extern "C" void run_seal_slots(unsigned threads, unsigned rows, const gpu::SlotsCall* call) {
  run(seal_slots, threads, rows, call);
}
extern "C" void run_tag_slots(unsigned threads, unsigned rows, const gpu::SlotsCall* call) {
  run(tag_slots, threads, rows, call);
}
extern "C" void run_open_inputs(unsigned threads, unsigned rows, const gpu::SealCall* call) {
  run(open_inputs, threads, rows, call);
}
extern "C" void run_tag_outputs(unsigned threads, unsigned rows, const gpu::SealCall* call) {
  run(tag_outputs, threads, rows, call);
}
extern "C" uint64_t last_tag() { return ignored_tags; }
extern "C" void run_flush(unsigned threads, uint4* to, uint64_t blocks, uint32_t value) {
  gridDim = {threads, 1};
  blockIdx.y = 0;
  for (blockIdx.x = 0; blockIdx.x < threads; ++blockIdx.x) flush(to, blocks, value);
}
"""
CALLS = {"open_inputs": SealCall, "tag_outputs": SealCall}
"""What kernels are given; all others a SlotsCall."""


class Pointed(np.ndarray[Any, Any]):
    """An array that tells where it lies as CuPy's do."""

    @property
    def data(self) -> Any:
        """The address."""
        return SimpleNamespace(ptr=self.ctypes.data)


def pointed(array: Any) -> Any:
    """The same memory."""
    return array.view(Pointed)


class Module:
    """A `cupy.RawModule` of the file of kernels built here."""

    def __init__(self, *, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def get_function(self, name: str) -> Any:
        """A kernel as CuPy launches it."""

        kind = CALLS.get(name, SlotsCall)
        run = getattr(self.library, f"run_{name}")

        def launch(grid: tuple[int, ...], block: tuple[int, ...], given: tuple[Any, ...]) -> None:
            if name == "flush":
                to, blocks, value = map(int, given)
                run(grid[0] * block[0], ctypes.c_void_p(to), ctypes.c_uint64(blocks), value)
                return
            (by_value,) = given
            assert by_value.shape == (1,)
            assert by_value.dtype.itemsize == ctypes.sizeof(kind)
            call = kind.from_buffer_copy(by_value.tobytes())
            assert (grid[1], grid[2], *block[1:]) == (call.count, 1, 1, 1)
            run(grid[0] * block[0], grid[1], ctypes.byref(call))

        return launch


def host_cupy() -> Arrays:
    """What our side of the kernels needs of CuPy, on the host."""

    def empty(count: int, dtype: npt.DTypeLike) -> Any:
        return pointed(np.full(count, 0xA5, dtype))

    def zeros(count: int, dtype: npt.DTypeLike) -> Any:
        return pointed(np.zeros(count, dtype))

    xp = SimpleNamespace(RawModule=Module, zeros=zeros, empty=empty)
    return Arrays(xp=xp, generator=np.random.default_rng, to_host=np.asarray)


def seal_library(folder: Path) -> Path:
    """The kernels, built."""
    source, library = folder / "seal.cpp", folder / "seal.so"
    source.write_text(SOURCE)
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{NATIVE}"]
    command = [find_gxx(), *flags, str(source), "-o", str(library)]
    subprocess.run(command, check=True, timeout=600)
    return library
