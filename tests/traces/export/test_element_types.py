"""Exports of kernels over floats that NumPy lacks and over complex numbers: types in the words of
each framework, and sources that nvcc compiles."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from exported_package import winner_of
from typed_tasks import Buffer, typed_task

from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.example_case import draw_example
from cuda_llm.traces.export.carried.build import find_nvcc
from cuda_llm.traces.export.export import ExampleData, bind, export


@dataclass(frozen=True)
class Twice:
    """A kernel that doubles the elements of a type, read by pairs where the type has them."""

    dtype: str
    header: str
    ctype: str
    pair: str
    doubled: str
    """Of `v`, an object of the type `pair`."""
    precision: str
    cupy: str
    item_bytes: int

    @property
    def lanes(self) -> int:
        return 1 if self.pair == self.ctype else 2

    @property
    def source(self) -> str:
        return f"""
__global__ void twice(const {self.pair}* x, {self.ctype}* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / {self.lanes}) {{ {self.pair} v = x[i]; (({self.pair}*)y)[i] = {self.doubled}; }}
}}
extern "C" void solve(const {self.pair}* x, {self.ctype}* y, int n) {{
    twice<<<(n + 127) / 128, 128>>>(x, y, n);
}}
"""

    def task(self, parent: Path) -> Task:
        drawn = ("normal", "uniform_signed")
        more = f'ctype = "{self.pair}"'
        return typed_task(
            parent,
            [Buffer("x", self.dtype, distributions=drawn, more=more), Buffer("y", self.dtype)],
            "def reference(xp, *, x):\n    return {'y': 2 * x}\n",
            self.source,
            tolerance=f'kind = "elementwise"\nprecision = "{self.precision}"',
            sizes="bench = [{ n = 1024 }]\nedge = [{ n = 2 }, { n = 34 }]\n"
            "emulated = [{ n = 1024 }]\n",
        )


def of_bytes(format: str, dtype: str) -> Twice:
    doubled = f"__nv_fp8x2_{format}(make_float2(2 * ((float2)v).x, 2 * ((float2)v).y))"
    names = (f"__nv_fp8_{format}", f"__nv_fp8x2_{format}")
    return Twice(dtype, "cuda_fp8.h", *names, doubled, format, "uint8", 1)


TYPES = [
    Twice(
        "bfloat16",
        "cuda_bf16.h",
        "__nv_bfloat16",
        "__nv_bfloat162",
        "__hadd2(v, v)",
        "bf16",
        "uint16",
        2,
    ),
    of_bytes("e4m3", "float8_e4m3fn"),
    of_bytes("e5m2", "float8_e5m2"),
    Twice(
        "complex64",
        "cuComplex.h",
        "cuFloatComplex",
        "cuFloatComplex",
        "cuCaddf(v, v)",
        "fp32",
        "complex64",
        8,
    ),
    Twice(
        "complex128",
        "cuComplex.h",
        "cuDoubleComplex",
        "cuDoubleComplex",
        "cuCadd(v, v)",
        "fp64",
        "complex128",
        16,
    ),
]


@pytest.mark.parametrize("twice", TYPES, ids=lambda one: one.dtype)
def test_arrays_have_the_type_of_their_framework(tmp_path: Path, twice: Twice) -> None:
    task = twice.task(tmp_path)
    dtypes = {
        to: [one["dtype"] for one in bind(task, twice.source, to=to)["arguments"]]
        for to in ("torch", "cupy")
    }
    assert dtypes == {
        "torch": [twice.dtype, twice.dtype, "int32"],
        "cupy": [twice.cupy, twice.cupy, "int32"],
    }
    folder = export(winner_of(task.folder), "cupy", tmp_path / "package")
    holds = "" if twice.cupy == twice.dtype else f" with the bits of {twice.dtype}"
    assert f"x: {twice.cupy}{holds} [n]" in (folder / "__init__.py").read_text()


@pytest.mark.parametrize("twice", TYPES, ids=lambda one: one.dtype)
def test_the_example_and_the_library_compile(tmp_path: Path, twice: Twice) -> None:
    task = twice.task(tmp_path)
    example = ExampleData(**vars(draw_example(task)))
    folder = export(winner_of(task.folder), "cu", tmp_path / "plain", example=example)
    assert f"#include <{twice.header}>" in (folder / "solve.h").read_text()
    assert len(example.inputs["x"]) == twice.item_bytes * 1024
    parts = 2 if "complex" in twice.dtype else 1
    for values in (example.expected["y"], example.allowed["y"]):
        assert np.frombuffer(values).size == parts * 1024
    command = ["make", "-C", str(folder), f"NVCC={find_nvcc()}", "ARCH=sm_90", "example"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
