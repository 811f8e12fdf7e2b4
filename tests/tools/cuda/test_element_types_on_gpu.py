"""Kernels over floats of 8 bits and complex numbers judged on a GPU: beside a kernel and beside a
call of PyTorch, timed."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task

from cuda_llm import judge
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Passed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device

pytestmark = pytest.mark.gpu
MATRIX = ("rows", "cols")
SUMS = """
#include <HEADER>
__device__ CTYPE rounded(PART re, PART im) { return ROUNDED; }
__global__ void sums(const CTYPE* x, CTYPE* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    PART re = 0, im = 0;
    for (int c = 0; c < cols - LOST; c++) {
        CTYPE v = x[row * (size_t)cols + c];
        re += RE;
        im += IM;
    }
    y[row] = rounded(re, im);
}
extern "C" void solve(const CTYPE* x, CTYPE* y, int rows, int cols) {
    sums<<<(rows + 31) / 32, 32>>>(x, y, rows, cols);
}
"""
BY_PYTORCH = '''"""Sums of rows, through torch.sum."""

from typing import Any

NAME = "torch.sum"


def call(torch: Any, *, x: Any, y: Any) -> None:
    y.copy_(SUM)
'''


@dataclass(frozen=True)
class Sums:
    """Sums of rows over a type, right and wrong."""

    dtype: str
    precision: str
    words: dict[str, str]
    wrong: dict[str, dict[str, str]]
    by_pytorch: str
    drawn: tuple[str, ...] = ("normal", "mixed", "outliers")

    def source(self, **changed: str) -> str:
        text = SUMS
        for word, part in {"LOST": "0", **self.words, **changed}.items():
            text = text.replace(word, part)
        return text


def of_bytes(format: str, dtype: str, largest: float) -> Sums:
    rounded = f"__nv_fp8_{format}(re)"
    clamped = f"x.float().sum(dim=1).clamp(-{largest}, {largest}).to(x.dtype)"
    words = {
        **{"HEADER": "cuda_fp8.h", "CTYPE": f"__nv_fp8_{format}", "PART": "float"},
        **{"RE": "(float)v", "IM": "0", "ROUNDED": rounded},
    }
    truncated = (
        f"[&] {{ __nv_fp8_{format} near(re); near.__x -= fabsf((float)near) > fabsf(re); "
        "return near; }()"
    )
    wrong = {
        "truncated": {"ROUNDED": truncated},
        "saturated at half of the range": {
            "ROUNDED": f"__nv_fp8_{format}(fminf(fmaxf(re, -{largest / 2}f), {largest / 2}f))"
        },
        "a lost element": {"LOST": "(cols > 500)"},
    }
    return Sums(dtype, format, words, wrong, clamped)


def of_complex(dtype: str, precision: str, ctype: str, part: str) -> Sums:
    words = {
        **{"HEADER": "cuComplex.h", "CTYPE": ctype, "PART": part},
        **{"RE": "v.x", "IM": "v.y", "ROUNDED": f"make_{ctype}(re, im)"},
    }
    wrong = {
        "conjugated": {"IM": "-v.y"},
        "parts swapped": {"RE": "v.y", "IM": "v.x"},
        "a lost element": {"LOST": "(cols > 500)"},
    }
    return Sums(dtype, precision, words, wrong, "x.sum(dim=1)", ("normal", "mixed"))


TYPES = {
    one.dtype: one
    for one in (
        of_bytes("e4m3", "float8_e4m3fn", 448.0),
        of_bytes("e5m2", "float8_e5m2", 57344.0),
        of_complex("complex64", "fp32", "cuFloatComplex", "float"),
        of_complex("complex128", "fp64", "cuDoubleComplex", "double"),
    )
}


@pytest.fixture(params=TYPES)
def sums(request: pytest.FixtureRequest) -> Sums:
    return TYPES[request.param]


def task_of(sums: Sums, parent: Path, baseline: str) -> Task:
    """Sums of rows, which the task wants kept in fp32, or fp64, and rounded once."""
    task = typed_task(
        parent,
        [Buffer("x", sums.dtype, MATRIX, sums.drawn), Buffer("y", sums.dtype, ("rows",))],
        "def reference(xp, *, x):\n    return {'y': x.sum(axis=1)}\n\n"
        "def scale(xp, *, x):\n    return {'y': xp.abs(x).sum(axis=1)}\n",
        sums.source(),
        tolerance=f'kind = "reduction"\nterms = "cols"\nprecision = "{sums.precision}"',
        dims=MATRIX,
    )
    if baseline == "PyTorch":
        (task.folder / "baseline.cu").unlink()
        text = BY_PYTORCH.replace("SUM", sums.by_pytorch)
        (task.folder / "baseline.py").write_text(text)
    return load_task(task.folder)


@pytest.mark.parametrize("baseline", ["kernel", "PyTorch"])
def test_a_task_is_admissible_and_a_right_kernel_is_timed(
    gpu: tuple[Hardware, str], sums: Sums, tmp_path: Path, baseline: str
) -> None:
    task = task_of(sums, tmp_path, baseline)
    admission = asyncio.run(check_task(task, open_device("cuda:0")))
    assert admission.ok, admission.problems
    verdict = judge(task, sums.source(), device="cuda:0").verdict
    assert isinstance(verdict, Passed), verdict
    assert verdict.profile is not None
    assert all(one.time_us > 0 for one in verdict.profile.sizes)


def test_wrong_kernels_are_refused(gpu: tuple[Hardware, str], sums: Sums, tmp_path: Path) -> None:
    task = task_of(sums, tmp_path, "kernel")
    for name, changed in sums.wrong.items():
        verdict = judge(task, sums.source(**changed), device="cuda:0").verdict
        assert isinstance(verdict, WrongResult), (name, verdict)


COPY = """
#include <HEADER>
__global__ void copy(const CTYPE* x, CTYPE* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" void solve(const CTYPE* x, CTYPE* y, int n) {
    copy<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def test_moved_elements_keep_every_bit(
    gpu: tuple[Hardware, str], sums: Sums, tmp_path: Path
) -> None:
    source = COPY.replace("HEADER", sums.words["HEADER"]).replace("CTYPE", sums.words["CTYPE"])
    drawn = ("bit_patterns", "normal", "denormal", "infinities")
    task = typed_task(
        tmp_path,
        [Buffer("x", sums.dtype, distributions=drawn), Buffer("y", sums.dtype)],
        "PROMOTED = False\n\n\ndef reference(xp, *, x):\n    return {'y': x}\n",
        source,
        tolerance='kind = "exact"\nbits = true',
    )
    verdict = judge(task, source, device="cuda:0").verdict
    assert isinstance(verdict, Passed), verdict
