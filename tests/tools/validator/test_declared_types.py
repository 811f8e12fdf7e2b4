"""Kernels whose `solve` is declared with vectors, typedefs and `void*`, compiled by nvcc and judged
by the emulated device: right ones pass, wrong ones are refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from typed_tasks import Buffer, typed_task, validated

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import CompileFailed, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.validator.validate import Validated

SIZES = (
    "bench = [{ n = 1024 }]\nedge = [{ n = 4 }, { n = 36 }, { n = 508 }]\n"
    "emulated = [{ n = 1024 }]\n[sizes.hidden]\ncount = 1\n"
    "dims.n = { min = 4, max = 500, multiple_of = 4 }\n"
)


@dataclass(frozen=True)
class Declared:
    """A pointer type, what doubles one of its objects, and what forgets a lane of it."""

    ctype: str
    dtype: str
    lanes: int
    right: str
    wrong: str
    drawn: tuple[str, ...] = ("ints(-50, 50)",)
    head: str = ""

    def task(self, parent: Path) -> Task:
        """Twice each element, exactly."""
        more = f'ctype = "{self.ctype}"'
        return typed_task(
            parent,
            [
                Buffer("x", self.dtype, distributions=self.drawn, more=more),
                Buffer("y", self.dtype, more=more),
            ],
            "def reference(xp, *, x):\n    return {'y': 2 * x}\n",
            self.source(self.right),
            tolerance='kind = "exact"',
            sizes=SIZES,
        )

    def source(self, doubled: str) -> str:
        """A kernel that stores `doubled`, of the object `v`."""
        return f"""{self.head}
__global__ void twice(const {self.ctype}* x, {self.ctype}* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / {self.lanes}) {{ {self.ctype} v = x[i]; y[i] = {doubled}; }}
}}
extern "C" void solve(const {self.ctype}* x, {self.ctype}* y, int n) {{
    twice<<<(n / {self.lanes} + 127) / 128, 128>>>(x, y, n);
}}
"""


FLOATS = ("normal", "zeros", "uniform_signed")
DECLARED = [
    Declared(
        "float4",
        "float32",
        4,
        "make_float4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w)",
        "make_float4(2 * v.x, 2 * v.y, 2 * v.z, v.w)",
        FLOATS,
    ),
    Declared(
        "half2", "float16", 2, "__hadd2(v, v)", "__halves2half2(v.x, __hadd(v.y, v.y))", FLOATS
    ),
    Declared(
        "__nv_bfloat162",
        "bfloat16",
        2,
        "__hadd2(v, v)",
        "__halves2bfloat162(v.x, __hadd(v.y, v.y))",
        FLOATS,
    ),
    Declared(
        "__nv_fp8x2_e4m3",
        "float8_e4m3fn",
        2,
        "__nv_fp8x2_e4m3(make_float2(2 * ((float2)v).x, 2 * ((float2)v).y))",
        "__nv_fp8x2_e4m3(make_float2(2 * ((float2)v).x, ((float2)v).y))",
        FLOATS,
        "#include <cuda_fp8.h>",
    ),
    Declared(
        "__nv_fp8x4_e5m2",
        "float8_e5m2",
        4,
        "__nv_fp8x4_e5m2(2 * (float4)v)",
        "__nv_fp8x4_e5m2(((float4)v) * 2)",
        FLOATS,
        """#include <cuda_fp8.h>
__device__ float4 operator*(float s, float4 v) {
    return make_float4(s * v.x, s * v.y, s * v.z, s * v.w);
}
__device__ float4 operator*(float4 v, float s) {
    return make_float4(s * v.x, s * v.y, v.z, s * v.w);
}""",
    ),
    Declared("double2", "float64", 2, "make_double2(2 * v.x, 2 * v.y)", "v", FLOATS),
    Declared(
        "uchar4",
        "uint8",
        4,
        "make_uchar4(2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w)",
        "make_uchar4(2 * v.x, v.y, 2 * v.z, 2 * v.w)",
        ("ints(0, 100)",),
    ),
    Declared("int2", "int32", 2, "make_int2(2 * v.x, 2 * v.y)", "make_int2(2 * v.x, 2 * v.x)"),
    Declared(
        "int64_t", "int64", 1, "2 * v", "(int64_t)(float)(2 * v)", ("ints(-90000000, 90000000)",)
    ),
    Declared("size_t", "uint64", 1, "2 * v", "(unsigned)(2 * v)", ("ints(0, 9000000000)",)),
    Declared("uint8_t", "uint8", 1, "2 * v", "2 * (v & 63)", ("ints(0, 128)",)),
]


@pytest.mark.parametrize("declared", DECLARED, ids=lambda one: one.ctype)
def test_a_right_kernel_passes_and_a_wrong_one_is_refused(
    declared: Declared, tmp_path: Path
) -> None:
    task = declared.task(tmp_path)
    verdict = validated(task, declared.source(declared.right))
    assert isinstance(verdict, Validated), verdict
    verdict = validated(task, declared.source(declared.wrong))
    assert isinstance(verdict, WrongResult), verdict


VOID = """
__global__ void twice(const void* x, void* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ((TYPE*)y)[i] = 2 * ((const TYPE*)x)[i];
}
extern "C" void solve(const void* x, void* y, int n) {
    twice<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def test_void_pointers_hold_the_type_that_the_task_states(tmp_path: Path) -> None:
    task = typed_task(
        tmp_path,
        [
            Buffer("x", "int16", distributions=("ints(-50, 50)",), more='ctype = "void"'),
            Buffer("y", "int16", more='ctype = "void"'),
        ],
        "def reference(xp, *, x):\n    return {'y': 2 * x}\n",
        VOID.replace("TYPE", "short"),
        tolerance='kind = "exact"',
    )
    assert "const void* x" in task.host and "x [n] of short read only" in task.host
    verdict = validated(task, VOID.replace("TYPE", "short"))
    assert isinstance(verdict, Validated), verdict
    verdict = validated(task, VOID.replace("TYPE", "signed char"))
    assert isinstance(verdict, WrongResult), verdict


FLAGS = """
__global__ void positive(const float* x, bool* y, size_t n) {
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = TEST;
}
extern "C" void solve(const float* x, bool* y, int n) {
    positive<<<(n + 127) / 128, 128>>>(x, y, n);
}
"""


def test_flags_are_compared_as_such(tmp_path: Path) -> None:
    task = typed_task(
        tmp_path,
        [Buffer("x", "float32", distributions=("normal", "zeros")), Buffer("y", "bool")],
        "def reference(xp, *, x):\n    return {'y': x > 0}\n",
        FLAGS.replace("TEST", "x[i] > 0"),
        tolerance='kind = "exact"',
    )
    verdict = validated(task, FLAGS.replace("TEST", "x[i] > 0"))
    assert isinstance(verdict, Validated), verdict
    verdict = validated(task, FLAGS.replace("TEST", "x[i] >= 0"))
    assert isinstance(verdict, WrongResult), verdict


def test_a_solve_of_another_type_of_the_same_width_does_not_compile(tmp_path: Path) -> None:
    declared = next(one for one in DECLARED if one.ctype == "int64_t")
    source = declared.source(declared.right).replace("int64_t", "long long")
    assert isinstance(validated(declared.task(tmp_path), source), CompileFailed)


def test_vectors_are_whole_at_every_size(tmp_path: Path) -> None:
    task = DECLARED[0].task(tmp_path)
    assert task.requires == "n % 4 == 0"
    toml = tmp_path / "typed" / "task.toml"
    toml.write_text(toml.read_text().replace("{ n = 36 }", "{ n = 37 }"))
    with pytest.raises(TaskError, match=r"sizes\.edge.*37.*expected n % 4 == 0"):
        load_task(toml.parent)
