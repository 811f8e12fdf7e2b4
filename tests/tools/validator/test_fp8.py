"""Kernels over floats of 8 bits, compiled by nvcc and executed by the emulated device: right ones
pass, wrong ones are refused."""

from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task, validated

from cuda_llm.outcomes import WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.validate import Validated

FORMATS = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
MATRIX = ("rows", "cols")
ROW_SUMS = """
#include <cuda_fp8.h>
typedef __nv_fp8_FORMAT fp8;
__device__ fp8 bits(int pattern) { fp8 one; one.__x = pattern; return one; }
__device__ float both(const fp8* x) {
    float2 two = (float2)*(const __nv_fp8x2_FORMAT*)x;
    return two.x + two.y;
}
__global__ void sums(const fp8* x, fp8* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    ACCUMULATOR sum = ACCUMULATOR(0.0f);
    for (int c = 0; c < cols - LOST; c++) sum = ADD;
    y[row] = ROUND;
}
extern "C" void solve(const fp8* x, fp8* y, int rows, int cols) {
    sums<<<(rows + 31) / 32, 32>>>(x, y, rows, cols);
}
"""
KEPT_IN_FP32 = {
    "ACCUMULATOR": "float",
    "ADD": "sum + (float)x[row * cols + c]",
    "ROUND": "fp8(sum)",
    "LOST": "0",
}
BY_PAIRS = {
    "ADD": "sum + (cols % 2 ? (float)x[row * cols + c] : c % 2 ? 0.0f : both(x + row * cols + c))"
}
"""Pairs become two halves of 16 bits by one instruction."""


def row_sums(format: str, **changed: str) -> str:
    """The source with some of its parts replaced."""
    text = ROW_SUMS
    for word, part in {**KEPT_IN_FP32, **changed}.items():
        text = text.replace(word, part)
    return text.replace("FORMAT", format)


@pytest.fixture(params=FORMATS)
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def sums(tmp_path: Path, format: str) -> Task:
    """Sums of rows, which the task wants kept in fp32 and rounded once; some overflow."""
    drawn = ("uniform_unit", "normal", "mixed", "all_equal(3)", "outliers", "denormal")
    dtype = FORMATS[format]
    return typed_task(
        tmp_path,
        [Buffer("x", dtype, MATRIX, drawn), Buffer("y", dtype, ("rows",))],
        "def reference(xp, *, x):\n    return {'y': x.sum(axis=1)}\n\n"
        "def scale(xp, *, x):\n    return {'y': xp.abs(x).sum(axis=1)}\n",
        row_sums(format),
        tolerance=f'kind = "reduction"\nterms = "cols"\nprecision = "{format}"',
        dims=MATRIX,
    )


@pytest.mark.parametrize("device", ["RTX 3090 Ti", "H200"])
@pytest.mark.parametrize("changed", [{}, BY_PAIRS], ids=["one by one", "in pairs"])
def test_sums_kept_in_fp32_are_right(
    sums: Task, format: str, device: str, changed: dict[str, str]
) -> None:
    verdict = validated(sums, row_sums(format, **changed), device)
    assert isinstance(verdict, Validated), verdict


WRONG_SUMS = {
    "sums kept in 8 bits": {
        "ACCUMULATOR": "fp8",
        "ADD": "fp8((float)sum + (float)x[row * cols + c])",
        "ROUND": "sum",
    },
    "truncated": {
        "ROUND": "fabsf(sum) < (float)bits(8) ? fp8(sum) : "
        "bits(fp8(sum).__x - (fabsf((float)fp8(sum)) > fabsf(sum)))"
    },
    "a lost element": {"LOST": "(cols > 500)"},
    "no saturation": {
        "ROUND": "fabsf(sum) > (float)bits(0x7b) ? bits(signbit(sum) ? 0xff : 0x7f) : fp8(sum)"
    },
    "saturated to the other end": {
        "ROUND": "fabsf(sum) > (float)bits(0x7b) ? fp8(-sum) : fp8(sum)"
    },
    "saturated at half of the range": {
        "ROUND": "fp8(fminf(fmaxf(sum, -(float)bits(0x7b) / 2), (float)bits(0x7b) / 2))"
    },
    "the other format": {"ROUND": "bits(__nv_fp8_OTHER(sum).__x)"},
}


@pytest.mark.parametrize("wrong", WRONG_SUMS)
def test_wrong_sums_are_refused(sums: Task, format: str, wrong: str) -> None:
    other = {"e4m3": "e5m2", "e5m2": "e4m3"}[format]
    source = row_sums(format, **WRONG_SUMS[wrong]).replace("OTHER", other)
    verdict = validated(sums, source, "H200")
    assert isinstance(verdict, WrongResult), verdict


SQUARES = """
#include <cuda_fp8.h>
typedef __nv_fp8_FORMAT fp8;
__global__ void squares(const fp8* x, fp8* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = (float)x[i]; y[i] = ROUND; }
}
extern "C" void solve(const fp8* x, fp8* y, int n) {
    squares<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""
ROUNDED = {
    "saturated": "fp8(v * v)",
    "infinite": "fp8(); y[i].__x = __nv_cvt_float_to_fp8(v * v, __NV_NOSAT, NAME)",
    "as the largest of four bits": "fp8(fminf(v * v, 240.0f))",
}


def squares(format: str, how: str) -> str:
    name = f"__NV_{format.upper()}"
    return SQUARES.replace("ROUND", ROUNDED[how]).replace("NAME", name).replace("FORMAT", format)


@pytest.mark.parametrize("tolerance", ['kind = "elementwise"\nprecision = "{}"', 'kind = "exact"'])
def test_numbers_beyond_the_range(tmp_path: Path, format: str, tolerance: str) -> None:
    """They become the largest number; where the format has infinities, a kernel may choose them."""
    dtype = FORMATS[format]
    task = typed_task(
        tmp_path,
        [Buffer("x", dtype, distributions=("large", "infinities", "normal")), Buffer("y", dtype)],
        "def reference(xp, *, x):\n    return {'y': x * x}\n",
        squares(format, "saturated"),
        tolerance=tolerance.format(format),
    )
    right = {"e4m3": ["saturated"], "e5m2": ["saturated", "infinite"]}[format]
    for how in ROUNDED:
        verdict = validated(task, squares(format, how), "H200")
        wanted = Validated if how in right else WrongResult
        assert isinstance(verdict, wanted), (how, verdict)


COPY = """
#include <cuda_fp8.h>
typedef __nv_fp8_FORMAT fp8;
__global__ void copy(const fp8* x, fp8* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = MOVED;
}
extern "C" void solve(const fp8* x, fp8* y, int n) {
    copy<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def copied(format: str, moved: str) -> str:
    return COPY.replace("MOVED", moved).replace("FORMAT", format)


@pytest.fixture
def copy(tmp_path: Path, format: str) -> Task:
    """Elements that are moved: every bit arrives."""
    dtype = FORMATS[format]
    drawn = ("bit_patterns", "normal", "denormal", "zeros")
    return typed_task(
        tmp_path,
        [Buffer("x", dtype, distributions=drawn), Buffer("y", dtype)],
        "PROMOTED = False\n\n\ndef reference(xp, *, x):\n    return {'y': x}\n",
        copied(format, "x[i]"),
        tolerance='kind = "exact"\nbits = true',
    )


def test_moved_elements_keep_every_bit(copy: Task, format: str) -> None:
    verdict = validated(copy, copied(format, "x[i]"))
    assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize(
    "moved",
    [
        "fp8((float)x[i])",  # the sign of a NaN, and infinities
        "x[i].__x == 0x80 ? fp8(0.0f) : x[i]",
        "x[i].__x == 0xfe ? fp8(-416.0f) : x[i]",  # a single pattern
    ],
)
def test_moved_elements_that_lose_bits_are_refused(copy: Task, format: str, moved: str) -> None:
    verdict = validated(copy, copied(format, moved))
    assert isinstance(verdict, WrongResult), verdict
