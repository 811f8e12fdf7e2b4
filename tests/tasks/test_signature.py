"""The entry point in C++, and what the prelude makes of a wrong one."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.signature import host_context, prelude, signature

GXX = ("g++", "-fsyntax-only", "-x", "c++", "-include", "prelude.h", "candidate.cpp")


def compiles(folder: Path, source: str) -> bool:
    (folder / "prelude.h").write_text(prelude(load_task("vector_add")))
    (folder / "candidate.cpp").write_text(source)
    assert shutil.which("g++")
    return subprocess.run(GXX, cwd=folder, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("task", "parameters"),
    [
        ("vector_add", "const float* A, const float* B, float* C, int n"),
        (
            "matrix_multiplication",
            "const float* A, const float* B, float* C, int M, int N, int K",
        ),
        ("matrix_transpose", "const float* input, float* output, int rows, int cols"),
        ("reduction", "const float* input, float* output, int n"),
        ("histogram", "const int* input, int* histogram, int n, int num_bins"),
        (
            "conv2d",
            "const float* input, const float* filter, float* output, int H, int W, int R, int S",
        ),
    ],
)
def test_shipped_signatures_are_the_contract(task: str, parameters: str) -> None:
    assert signature(load_task(task)) == f'extern "C" void solve({parameters})'


def test_right_signature_compiles_behind_the_prelude(tmp_path: Path) -> None:
    head = 'extern "C" void solve(const float* a, const float* b, float* c, int size)'
    assert compiles(tmp_path, head + " {}")


@pytest.mark.parametrize(
    "head",
    [
        'extern "C" void solve(float* a, const float* b, float* c, int n)',
        'extern "C" void solve(const float* a, const float* b, float* c)',
        'extern "C" int solve(const float* a, const float* b, float* c, int n)',
        'extern "C" void solve(const float* a, const float* b, float* c, long n)',
    ],
)
def test_wrong_signature_is_a_compile_error(tmp_path: Path, head: str) -> None:
    assert not compiles(tmp_path, head + " {}")


def test_half_brings_its_header() -> None:
    task = load_task("vector_add")
    halves = tuple(replace(a, dtype="float16") if a.shape else a for a in task.arguments)
    text = prelude(replace(task, arguments=halves))
    assert "#include <cuda_fp16.h>" in text
    assert "const half* A" in text


def test_host_context_states_the_contract() -> None:
    text = host_context(load_task("conv2d"))
    assert "Always holds: H >= R and W >= S" in text
    assert "[H - R + 1][W - S + 1] to be written" in text
    assert signature(load_task("conv2d")) in text
