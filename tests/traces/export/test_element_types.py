"""Exports of a kernel over bfloat16: types in the words of each framework, and sources that nvcc
compiles."""

import subprocess
from pathlib import Path

from exported_package import winner_of
from typed_tasks import Buffer, typed_task

from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.example_case import draw_example
from cuda_llm.traces.export.carried.build import find_nvcc
from cuda_llm.traces.export.export import ExampleData, bind, export

TWICE = """
__global__ void twice(const __nv_bfloat162* x, __nv_bfloat16* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) ((__nv_bfloat162*)y)[i] = __hadd2(x[i], x[i]);
}
extern "C" void solve(const __nv_bfloat162* x, __nv_bfloat16* y, int n) {
    twice<<<(n / 2 + 127) / 128, 128>>>(x, y, n);
}
"""


def twice(parent: Path) -> Task:
    """Twice each number, read in pairs."""
    drawn = ("normal", "uniform_signed")
    return typed_task(
        parent,
        [
            Buffer("x", "bfloat16", distributions=drawn, more='ctype = "__nv_bfloat162"'),
            Buffer("y", "bfloat16"),
        ],
        "def reference(xp, *, x):\n    return {'y': 2 * x}\n",
        TWICE,
        tolerance='kind = "elementwise"\nprecision = "bf16"',
        sizes="bench = [{ n = 1024 }]\nedge = [{ n = 2 }, { n = 34 }]\nemulated = [{ n = 1024 }]\n",
    )


def test_arrays_have_the_type_of_their_framework(tmp_path: Path) -> None:
    task = twice(tmp_path)
    dtypes = {
        to: [one["dtype"] for one in bind(task, TWICE, to=to)["arguments"]]
        for to in ("torch", "cupy")
    }
    assert dtypes == {
        "torch": ["bfloat16", "bfloat16", "int32"],
        "cupy": ["uint16", "uint16", "int32"],
    }
    folder = export(winner_of(task.folder), "cupy", tmp_path / "package")
    assert "x: uint16 with the bits of bfloat16 [n]" in (folder / "__init__.py").read_text()


def test_the_example_and_the_library_compile(tmp_path: Path) -> None:
    task = twice(tmp_path)
    example = ExampleData(**vars(draw_example(task)))
    folder = export(winner_of(task.folder), "cu", tmp_path / "plain", example=example)
    assert "#include <cuda_bf16.h>" in (folder / "solve.h").read_text()
    assert len(example.inputs["x"]) == 2 * 1024
    command = ["make", "-C", str(folder), f"NVCC={find_nvcc()}", "ARCH=sm_90", "example"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
