"""Kernels over bfloat16, compiled by nvcc and executed by the emulated device: right ones pass,
wrong ones are refused."""

from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task, validated

from cuda_llm.outcomes import WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.validate import Validated

ROW_SUMS = """
__global__ void sums(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    ACCUMULATOR sum = ZERO;
    for (int c = 0; c < cols - LOST; c++) sum = ADD;
    y[row] = ROUND;
}
extern "C" void solve(const __nv_bfloat16* x, __nv_bfloat16* y, int rows, int cols) {
    sums<<<(rows + 31) / 32, 32>>>(x, y, rows, cols);
}
"""
KEPT_IN_FP32 = {
    "ACCUMULATOR": "float",
    "ZERO": "0.0f",
    "ADD": "sum + __bfloat162float(x[row * cols + c])",
    "ROUND": "__float2bfloat16(sum)",
    "LOST": "0",
}
MATRIX = ("rows", "cols")


def row_sums(**changed: str) -> str:
    """The source with some of its parts replaced."""
    text = ROW_SUMS
    for word, part in {**KEPT_IN_FP32, **changed}.items():
        text = text.replace(word, part)
    return text


@pytest.fixture
def sums(tmp_path: Path) -> Task:
    """Sums of rows, which the task wants kept in fp32 and rounded once."""
    drawn = ("uniform_unit", "normal", "mixed", "all_equal(0.1)", "outliers", "denormal")
    return typed_task(
        tmp_path,
        [Buffer("x", "bfloat16", MATRIX, drawn), Buffer("y", "bfloat16", ("rows",))],
        "def reference(xp, *, x):\n    return {'y': x.sum(axis=1)}\n\n"
        "def scale(xp, *, x):\n    return {'y': xp.abs(x).sum(axis=1)}\n",
        row_sums(),
        tolerance='kind = "reduction"\nterms = "cols"\nprecision = "bf16"',
        dims=MATRIX,
    )


@pytest.mark.parametrize("device", ["RTX 3090 Ti", "H200"])
def test_sums_kept_in_fp32_are_right(sums: Task, device: str) -> None:
    verdict = validated(sums, row_sums(), device)
    assert isinstance(verdict, Validated), verdict


WRONG_SUMS = {
    "sums kept in bf16": {
        "ACCUMULATOR": "__nv_bfloat16",
        "ZERO": "__float2bfloat16(0.0f)",
        "ADD": "__hadd(sum, x[row * cols + c])",
        "ROUND": "sum",
    },
    "truncated": {"ROUND": "__float2bfloat16_rz(sum)"},
    "a lost element": {"LOST": "(cols > 500)"},
}


@pytest.mark.parametrize("wrong", WRONG_SUMS)
def test_wrong_sums_are_refused(sums: Task, wrong: str) -> None:
    verdict = validated(sums, row_sums(**WRONG_SUMS[wrong]))
    assert isinstance(verdict, WrongResult), verdict


PAIRS = """
__global__ void affine(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    const __nv_bfloat162 two = __float2bfloat162_rn(2.0f), one = __float2bfloat162_rn(1.0f);
    if (i + 1 < n) {
        __nv_bfloat162 pair = *(const __nv_bfloat162*)(x + i);
        *(__nv_bfloat162*)(y + i) = __hfma2(pair, two, one);
    } else if (i < n) {
        y[i] = TAIL;
    }
}
extern "C" void solve(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    affine<<<(n / 2 + 128) / 128, 128>>>(x, y, n);
}
"""
AFFINE = "__float2bfloat16(2.0f * __bfloat162float(x[i]) + 1.0f)"
VECTOR = [
    Buffer("x", "bfloat16", distributions=("normal", "large", "infinities")),
    Buffer("y", "bfloat16"),
]


@pytest.fixture
def affine(tmp_path: Path) -> Task:
    """Twice a number and one, within a rounding of bfloat16; infinities among the inputs."""
    return typed_task(
        tmp_path,
        VECTOR,
        "def reference(xp, *, x):\n    return {'y': 2 * x + 1}\n",
        PAIRS.replace("TAIL", AFFINE),
        tolerance='kind = "elementwise"\nprecision = "bf16"',
    )


@pytest.mark.parametrize("device", ["RTX 3090 Ti", "H200"])
def test_pairs_are_computed_with_overflow_and_infinities(affine: Task, device: str) -> None:
    verdict = validated(affine, PAIRS.replace("TAIL", AFFINE), device)
    assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize("tail", ["x[i]", "__float2bfloat16_rz(1.02f * (float)x[i] * 2.0f + 1.0f)"])
def test_a_wrong_tail_of_pairs_is_refused(affine: Task, tail: str) -> None:
    verdict = validated(affine, PAIRS.replace("TAIL", tail))
    assert isinstance(verdict, WrongResult), verdict


COPY = """
__global__ void copy(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = MOVED;
}
extern "C" void solve(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
    copy<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


@pytest.fixture
def copy(tmp_path: Path) -> Task:
    """Elements that are moved: every bit arrives."""
    return typed_task(
        tmp_path,
        [
            Buffer("x", "bfloat16", distributions=("bit_patterns", "normal", "denormal", "zeros")),
            Buffer("y", "bfloat16"),
        ],
        "PROMOTED = False\n\n\ndef reference(xp, *, x):\n    return {'y': x}\n",
        COPY.replace("MOVED", "x[i]"),
        tolerance='kind = "exact"\nbits = true',
    )


def test_moved_elements_keep_every_bit(copy: Task) -> None:
    verdict = validated(copy, COPY.replace("MOVED", "x[i]"))
    assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize(
    "moved",
    [
        "__hadd(x[i], __float2bfloat16(0.0f))",  # -0, and the payloads of NaNs
        "__float2bfloat16((float)x[i] * 1.0000001f)",
        "(__nv_bfloat16)(__half)x[i]",
    ],
)
def test_moved_elements_that_lose_bits_are_refused(copy: Task, moved: str) -> None:
    source = f"#include <cuda_fp16.h>\n{COPY.replace('MOVED', moved)}"
    verdict = validated(copy, source)
    assert isinstance(verdict, WrongResult), verdict
