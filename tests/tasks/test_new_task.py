"""Drafting a task around a kernel someone already has."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.tasks.cuda_source import read_cuda
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import (
    draft,
    find_guesses,
    require_no_guesses,
    write_task,
)
from cuda_llm.tasks.task import Task

SOURCE = r"""
#include <cuda_runtime.h>
// scale(int n) in a comment, and "scale(" in a string, are no functions
const char* text = "void scale(int n) {";
__global__ void scale(int n);
template <typename T> __global__ void generic(T* x, int n) { x[0] = n; }
__global__ void __launch_bounds__(256)
scale(int n, float factor, const float* __restrict__ x, float* __restrict__ y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { y[i] = factor * x[i]; }
}
__global__ void accumulate(float const* x, double sums[], unsigned int n) { sums[0] += x[n - 1]; }
__global__ void product(const float* a, const float* b, float* c, int M, int N, int K)
{
    c[blockIdx.y * N + threadIdx.x] = a[0] * b[0] + M + K;
}
struct Mixed { float v; int i; };
__global__ void mixed(Mixed* x, int n) { x[n].v = 0; }
__global__ void silent(const float* x, int n) { }
void launch(const float* x, float* y, size_t n) { scale<<<1, 256>>>((int)n, 2.0f, x, y); }
"""


def drafted(folder: Path, entry: str) -> tuple[Task, str, dict[str, Any]]:
    files = draft("mine", SOURCE, entry, "kernels.cu")
    task = load_task(write_task("mine", folder, files))
    return task, files["baseline.cu"], tomllib.loads(files["task.toml"])


def test_roles_follow_const_and_use(tmp_path: Path) -> None:
    task, _, _ = drafted(tmp_path, "scale")
    roles = {argument.name: str(argument.role) for argument in task.arguments}
    assert roles == {"n": "scalar", "factor": "scalar", "x": "in", "y": "out"}
    assert list(task.dims) == ["n"]
    assert task.reference is None


def test_a_buffer_that_is_added_to_is_inout(tmp_path: Path) -> None:
    task, _, _ = drafted(tmp_path, "accumulate")
    roles = {argument.name: (str(argument.role), argument.dtype) for argument in task.arguments}
    assert roles["sums"] == ("inout", "float64")
    assert roles["x"] == ("in", "float32")


def test_a_matrix_product_is_recognised(tmp_path: Path) -> None:
    task, baseline, _ = drafted(tmp_path, "product")
    assert [argument.shape for argument in task.arguments[:3]] == [
        ("M", "K"),
        ("K", "N"),
        ("M", "N"),
    ]
    assert "dim3 blocks((N + 15) / 16, (M + 15) / 16); // CONFIRM" in baseline


def test_a_kernel_is_launched_from_a_marked_guess(tmp_path: Path) -> None:
    _, baseline, _ = drafted(tmp_path, "accumulate")
    assert baseline.startswith(SOURCE.rstrip("\n"))
    assert 'extern "C" void solve(const float* x, double* sums, unsigned int n)' in baseline
    assert "accumulate<<<blocks, threads>>>(x, sums, n); // CONFIRM" in baseline


def test_a_kernel_is_launched_as_its_file_launches_it(tmp_path: Path) -> None:
    _, baseline, _ = drafted(tmp_path, "scale")
    assert 'extern "C" void solve(int n, float factor, const float* x, float* y)' in baseline
    assert "    scale<<<1, 256>>>(n, factor, x, y);\n" in baseline


def test_a_host_function_is_called_as_it_is(tmp_path: Path) -> None:
    _, baseline, _ = drafted(tmp_path, "launch")
    added = baseline[len(SOURCE.rstrip("\n")) :]
    assert "    launch(x, y, n);" in added
    assert "<<<" not in added


def test_a_solve_needs_nothing_around_it() -> None:
    source = 'extern "C" void solve(float* x, int n) { }\n'
    assert draft("mine", source, "solve", "k.cu")["baseline.cu"] == source


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("nothing", "has no void function nothing; found generic, scale, accumulate, product"),
        ("generic", "generic is a template; say for which arguments: add --entry 'generic<float>'"),
        ("mixed", "parameter `Mixed* x` of type Mixed"),
        ("silent", "silent has no pointer to write to"),
    ],
)
def test_refuses_what_it_cannot_wrap(entry: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        draft("mine", SOURCE, entry, "kernels.cu")
    assert str(caught.value).startswith("kernels.cu: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("__global__ void k(float* x) { }\nvoid solve(float* x) { k<<<1, 1>>>(x); }", "k"),
    ],
)
def test_a_second_solve_is_refused(source: str, entry: str) -> None:
    with pytest.raises(UsageError, match="solve"):
        draft("mine", source, entry, "kernels.cu")


@pytest.mark.parametrize(
    "source", ["", "void k(", "void k() {", "k(){}", "}}}} void k(int n) { ", "void k(...) {}"]
)
def test_broken_source_is_one_line(source: str) -> None:
    with pytest.raises(UsageError) as caught:
        draft("mine", source, "k", "kernels.cu")
    assert "\n" not in str(caught.value)


def test_finds_the_definition_behind_its_declaration() -> None:
    (function,) = (one for one in read_cuda(SOURCE).functions if one.name == "scale")
    assert function.is_kernel
    assert "factor" in [token.text for token in function.body]


@pytest.mark.parametrize(("ctype", "kind"), [("int", "exact"), ("float", "reduction")])
def test_whole_numbers_are_drafted_to_be_exact(tmp_path: Path, ctype: str, kind: str) -> None:
    source = f"__global__ void k(const float* x, {ctype}* y, int n) {{ y[0] = x[n - 1]; }}\n"
    task = load_task(write_task("mine", tmp_path, draft("mine", source, "k", "k.cu")))
    assert task.tolerance.kind == kind


def test_guesses_are_found_by_line_until_their_marks_are_gone(tmp_path: Path) -> None:
    task, _, _ = drafted(tmp_path, "accumulate")
    spots = find_guesses(task)
    assert {Path(spot.file).name for spot in spots} == {
        "task.toml",
        "description.md",
        "baseline.cu",
    }
    for spot in spots:
        assert "CONFIRM" in Path(spot.file).read_text().splitlines()[spot.line - 1]
    with pytest.raises(UsageError) as caught:
        require_no_guesses(task)
    assert str(caught.value).startswith(f"{spots[0]}: a guess of `tasks new`")
    for file in {spot.file for spot in spots}:
        Path(file).write_text(Path(file).read_text().replace("CONFIRM", "sure"))
    assert find_guesses(task) == ()
    require_no_guesses(task)


TYPED = """#include <cuda_bf16.h>
#include <cstdint>
using element = __nv_bfloat16;
typedef std::int64_t index_type;
using alias = index_type;
"""
PARAMETERS = (
    "const element* a, const __nv_bfloat162* b, const alias* c, const char* d, const float4* e, "
    "element* y, size_t n"
)


def test_types_are_those_that_the_source_names(tmp_path: Path) -> None:
    source = f"{TYPED}__global__ void k({PARAMETERS}) {{ y[n] = a[n]; }}\n"
    write_task("mine", tmp_path, draft("mine", source, "k", "k.cu"))
    task = load_task(tmp_path / "mine")
    dtypes = {one.name: one.dtype for one in task.arguments}
    assert dtypes == {
        **{"a": "bfloat16", "b": "bfloat16", "c": "int64", "d": "int8", "e": "float32"},
        **{"y": "bfloat16", "n": "uint64"},
    }
    assert task.tolerance.precision == "bf16"
    assert task.arguments[4].shape[-1] == "4"
    baseline = task.baseline.read_text()
    assert "const __nv_bfloat16* a, const __nv_bfloat16* b, const long long* c" in baseline
    for cast in ("const __nv_bfloat162*>(b)", "const int64_t*>(c)", "const float4*>(e)"):
        assert f"reinterpret_cast<{cast}" in baseline


def test_a_solve_keeps_the_types_that_it_declares(tmp_path: Path) -> None:
    source = f'{TYPED}extern "C" void solve({PARAMETERS}) {{ }}\n'
    write_task("mine", tmp_path, draft("mine", source, "solve", "k.cu"))
    task = load_task(tmp_path / "mine")
    ctypes = {one.name: one.ctype for one in task.arguments}
    assert ctypes == {
        **{"a": "", "b": "__nv_bfloat162", "c": "int64_t", "d": "char", "e": "float4"},
        **{"y": "", "n": "size_t"},
    }
