"""A draft around a kernel over floats of 8 bits or complex numbers is a task that the judge admits,
and tells the kernel from a wrong one."""

import asyncio
import re
from pathlib import Path

import pytest
from typed_tasks import validated

from cuda_llm.outcomes import WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import draft, write_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.validator.validate import Validated

BYTES = """#include <cuda_fp8.h>
__global__ void axpy(const __nv_fp8_e4m3* x, const __nv_fp8x2_e5m2* w, __nv_fp8_e4m3* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float2 v = (float2)w[i]; y[i] = __nv_fp8_e4m3((float)x[i] * v.x + v.y); }
}
"""
COMPLEX = """#include <cuComplex.h>
__global__ void rotate(const cuComplex* x, cuFloatComplex* y, cuComplex turn, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cuCmulf(x[i], turn);
}
"""
DOUBLE = """#include <cuComplex.h>
__global__ void product(const cuDoubleComplex* x, const cuDoubleComplex* w, cuDoubleComplex* y,
                        int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cuCmul(x[i], cuConj(w[i]));
}
"""
POWER = """#include <cuComplex.h>
__global__ void power(const cuComplex* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cuCrealf(cuCmulf(x[i], cuConjf(x[i])));
}
"""
KERNELS = {
    "power": (POWER, "cuConjf(x[i])", "x[i]"),
    "axpy": (BYTES, "e4m3((float)x[i] * v.x + v.y)", "e4m3((float)x[i] * v.y + v.x)"),
    "rotate": (COMPLEX, "cuCmulf(x[i], turn)", "cuCmulf(x[i], cuConjf(turn))"),
    "product": (DOUBLE, "cuConj(w[i])", "w[i]"),
}
DTYPES = {
    "power": ["complex64", "float32", "int32"],
    "axpy": ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fn", "int32"],
    "rotate": ["complex64", "complex64", "float32", "float32", "int32"],
    "product": ["complex128", "complex128", "complex128", "int32"],
}


def drafted(parent: Path, name: str) -> Task:
    write_task(name, parent, draft(name, KERNELS[name][0], name, "k.cu"))
    toml = parent / name / "task.toml"
    # A draft's own sizes are for a GPU.
    toml.write_text(
        re.sub(r"\b(65536|262144)\b", lambda one: str(int(one[0]) >> 8), toml.read_text())
    )
    return load_task(parent / name)


@pytest.mark.parametrize("name", KERNELS)
def test_a_draft_is_admitted_and_refuses_a_wrong_kernel(tmp_path: Path, name: str) -> None:
    task = drafted(tmp_path, name)
    assert [one.dtype for one in task.arguments] == DTYPES[name]
    device = open_emulated("H200")
    admission = asyncio.run(check_task(task, device))
    assert admission.ok, admission.problems
    baseline = task.baseline.read_text()
    _, right, wrong = KERNELS[name]
    assert right in baseline
    reference = "def reference(xp, *, {}):\n    return {{'y': {}}}\n".format(
        *{
            "power": ("x", "(x * x.conj()).real"),
            "axpy": ("x, w", "x * w[:, 0] + w[:, 1]"),
            "rotate": ("x, turn_x, turn_y", "x * complex(turn_x, turn_y)"),
            "product": ("x, w", "x * w.conj()"),
        }[name]
    )
    (task.folder / "reference.py").write_text(reference)
    task = load_task(task.folder)
    verdicts = [validated(task, one) for one in (baseline, baseline.replace(right, wrong))]
    assert isinstance(verdicts[0], Validated), verdicts[0]
    assert isinstance(verdicts[1], WrongResult), verdicts[1]
