"""Kernels over complex numbers, compiled by nvcc and executed by the emulated device: right ones
pass, wrong ones are refused."""

from pathlib import Path

import numpy as np
import pytest
from typed_tasks import Buffer, typed_task, validated

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import ElementKind, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.tolerances import ErrorLimits
from cuda_llm.tools.validator.compare import Expected, compare
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

TYPES = {
    "complex64": {"CTYPE": "cuFloatComplex", "PART": "float", "SUFFIX": "f", "NARROW": "__half"},
    "complex128": {"CTYPE": "cuDoubleComplex", "PART": "double", "SUFFIX": "", "NARROW": "float"},
}
PRECISION = {"complex64": "fp32", "complex128": "fp64"}
MATRIX = ("rows", "cols")
DOTS = """
#include <cuComplex.h>
#include <cuda_fp16.h>
__global__ void dots(const CTYPE* a, const CTYPE* b, CTYPE* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    ACCUMULATOR re = ACCUMULATOR(0.0f), im = ACCUMULATOR(0.0f);
    for (int c = 0; c < cols - LOST; c++) {
        CTYPE v = a[row * cols + c], w = b[row * cols + c];
        CTYPE p = PRODUCT;
        re = ACCUMULATOR((PART)re + p.x);
        im = ACCUMULATOR((PART)im + p.y);
    }
    y[row] = MADE;
}
extern "C" void solve(const CTYPE* a, const CTYPE* b, CTYPE* y, int rows, int cols) {
    dots<<<(rows + 31) / 32, 32>>>(a, b, y, rows, cols);
}
"""
RIGHT = {
    "ACCUMULATOR": "PART",
    "PRODUCT": "cuCmulSUFFIX(v, cuConjSUFFIX(w))",
    "LOST": "0",
    "MADE": "make_CTYPE((PART)re, (PART)im)",
}


def dots(dtype: str, **changed: str) -> str:
    """The source with some of its parts replaced."""
    text = DOTS
    for word, part in ({**RIGHT, **changed} | TYPES[dtype]).items():
        text = text.replace(word, part)
    return text


@pytest.fixture(params=TYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def task(tmp_path: Path, dtype: str) -> Task:
    """Dot products of rows, the second factor conjugated."""
    drawn = ("normal", "uniform_unit", "mixed", "all_equal(0.1)")
    return typed_task(
        tmp_path,
        [
            Buffer("a", dtype, MATRIX, drawn),
            Buffer("b", dtype, MATRIX, ("normal", "uniform_unit")),
            Buffer("y", dtype, ("rows",)),
        ],
        "def reference(xp, *, a, b):\n    return {'y': (a * b.conj()).sum(axis=1)}\n\n"
        "def scale(xp, *, a, b):\n    return {'y': (xp.abs(a) * xp.abs(b)).sum(axis=1)}\n",
        dots(dtype),
        tolerance=f'kind = "dot"\nterms = "cols"\nprecision = "{PRECISION[dtype]}"',
        dims=MATRIX,
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"PRODUCT": "make_CTYPE(v.x * w.x + v.y * w.y, v.y * w.x - v.x * w.y)"},
    ],
    ids=["cuCmul", "by hand"],
)
def test_right_dot_products_pass(task: Task, dtype: str, changed: dict[str, str]) -> None:
    verdict = validated(task, dots(dtype, **changed))
    assert isinstance(verdict, Validated), verdict


WRONG: dict[str, tuple[dict[str, str], ElementKind | None]] = {
    "not conjugated": ({"PRODUCT": "cuCmulSUFFIX(v, w)"}, None),
    "the other factor conjugated": (
        {"PRODUCT": "cuCmulSUFFIX(cuConjSUFFIX(v), w)"},
        ElementKind.CONJUGATED,
    ),
    "parts swapped": ({"MADE": "make_CTYPE((PART)im, (PART)re)"}, ElementKind.PARTS_SWAPPED),
    "half of the real part": (
        {"PRODUCT": "make_CTYPE(v.x * w.x, v.y * w.x - v.x * w.y)"},
        None,
    ),
    "the imaginary part dropped": ({"MADE": "make_CTYPE((PART)re, 0)"}, None),
    "sums kept in the narrow type": ({"ACCUMULATOR": "NARROW"}, None),
    "a lost element": ({"LOST": "(cols > 500)"}, None),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_dot_products_are_refused(task: Task, dtype: str, wrong: str) -> None:
    changed, kind = WRONG[wrong]
    verdict = validated(task, dots(dtype, **changed))
    assert isinstance(verdict, WrongResult), verdict
    assert isinstance(verdict.numbers[0], complex)
    assert "j, should be " in " ".join(describe(verdict))
    if kind is not None:
        assert verdict.looks_like is not None and verdict.looks_like.kind is kind


COPY = """
#include <cuComplex.h>
__global__ void copy(const CTYPE* x, CTYPE* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = MOVED;
}
extern "C" void solve(const CTYPE* x, CTYPE* y, int n) {
    copy<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def copied(dtype: str, moved: str) -> str:
    text = COPY.replace("MOVED", moved)
    for word, part in TYPES[dtype].items():
        text = text.replace(word, part)
    return text


@pytest.fixture
def copy(tmp_path: Path, dtype: str) -> Task:
    """Elements that are moved: every bit of both parts arrives."""
    return typed_task(
        tmp_path,
        [
            Buffer("x", dtype, distributions=("bit_patterns", "normal", "zeros", "infinities")),
            Buffer("y", dtype),
        ],
        "PROMOTED = False\n\n\ndef reference(xp, *, x):\n    return {'y': x}\n",
        copied(dtype, "x[i]"),
        tolerance='kind = "exact"\nbits = true',
    )


def test_moved_elements_keep_every_bit(copy: Task, dtype: str) -> None:
    verdict = validated(copy, copied(dtype, "x[i]"))
    assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize(
    "moved",
    [
        "make_CTYPE(x[i].x, x[i].y + 0)",  # -0, and payloads of NaNs
        "cuCmulSUFFIX(x[i], make_CTYPE(1, 0))",
        "make_CTYPE(x[i].x, x[i].y == 0 ? 0 : x[i].y)",
    ],
)
def test_moved_elements_that_lose_bits_are_refused(copy: Task, dtype: str, moved: str) -> None:
    verdict = validated(copy, copied(dtype, moved))
    assert isinstance(verdict, WrongResult), verdict


FAST = ErrorLimits(unit=2.0**-24, max_units=8.0, rms_units=8.0)


@pytest.mark.parametrize(
    ("got", "wanted", "right"),
    [
        # An error of the small part counts against the magnitude of the number.
        (1 + (1e-9 + 2e-7) * 1j, 1 + 1e-9j, True),
        (1 + 1e-6j, 1 + 0j, False),
        (1.000001 + 0j, 1 + 0j, False),
        (complex(np.inf, 3), complex(np.inf, 3), True),
        (complex(np.inf, 4), complex(np.inf, 3), False),
        (complex(np.nan, 3), complex(np.nan, 3), True),
        (complex(3, np.nan), complex(np.nan, 3), False),
        (complex(np.inf, 3), complex(-np.inf, 3), False),
    ],
)
def test_each_part_is_compared_with_the_magnitude(
    got: complex, wanted: complex, right: bool
) -> None:
    found = compare(np.array([got], np.complex64), Expected(np.array([wanted])), FAST)
    assert found.ok is right
    if not right:
        assert isinstance(found.got, complex) and np.array_equal(
            found.got, np.complex64(got), equal_nan=True
        )


def test_both_parts_are_drawn() -> None:
    drawn = draw("uniform(2, 3)", np.random.default_rng(5), (64, 3), "complex64", {})
    assert drawn.dtype == np.complex64 and drawn.shape == (64, 3)
    for part in (drawn.real, drawn.imag):
        assert ((part >= 2) & (part < 3)).all()
    assert not np.array_equal(drawn.real, drawn.imag)


def test_a_complex_number_by_value_is_refused_with_its_remedy(task: Task) -> None:
    toml = task.folder / "task.toml"
    scalar = '[[arguments]]\nname = "z"\nrole = "scalar"\ndtype = "complex64"\nvalue = "1"\n[sizes]'
    toml.write_text(toml.read_text().replace("[sizes]", scalar, 1))
    with pytest.raises(TaskError, match=r"complex64 by value.*two numbers, its parts"):
        load_task(task.folder)


def test_complex_values_of_a_real_output_are_a_mistake_of_the_reference(tmp_path: Path) -> None:
    task = typed_task(
        tmp_path,
        [Buffer("x", "complex64", distributions=("normal", "mixed")), Buffer("y", "float32")],
        "def reference(xp, *, x):\n    return {'y': x * x.conj()}\n",
        copied("complex64", "x[i]").replace("cuFloatComplex* y", "float* y").replace("x[i]", "0"),
        tolerance='kind = "elementwise"',
    )
    with pytest.raises(TaskError, match="y is complex; expected real numbers"):
        validated(task, task.baseline.read_text())
