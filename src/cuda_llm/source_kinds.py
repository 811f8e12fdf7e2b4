"""Tells CUDA source from what is often given in its place, and says what to do with the latter."""

import re

from cuda_llm.errors import UsageError
from cuda_llm.source_tokens import blank_strings, defines_solve, functions_defined

_PTX = re.compile(r"^\s*\.(?:version\s+\d|target\s+\w|address_size\s+\d)", re.MULTILINE)
_TRITON = re.compile(r"^\s*(?:@triton\.jit\b|import\s+triton\b|from\s+triton\b)", re.MULTILINE)
_PYTHON = re.compile(
    r"^(?:import\s+\w[\w.]*(?:\s+as\s+\w+)?\s*$|from\s+[\w.]+\s+import\s|def\s+\w+\(.*:\s*$"
    r"|class\s+\w+.*:\s*$)",
    re.MULTILINE,
)
_HIP = re.compile(r"#\s*include\s*<hip/|\bhipLaunchKernelGGL\b|\bhip(?:Malloc|Memcpy|Free)\w*\s*\(")
_OPENCL = re.compile(r"\b__kernel\s+(?:\w+\s*\([^()]*\)\s*)*void\b|\bget_global_id\s*\(")
_TORCH = re.compile(r"#\s*include\s*[<\"](?:torch/|ATen/|c10/|pybind11/)")
_CUDA = re.compile(r"__global__|__device__|<<<|#\s*include\b")


def foreign_source(text: str) -> str:
    """Return what a source is that is not plain CUDA C++, and what to do; empty where it may be.

    The answer is a part of a line: `PTX, not CUDA C++; expected ...`.
    """
    code = blank_strings(text)
    is_cuda = _CUDA.search(code)
    if not is_cuda and len(_PTX.findall(code)) > 1:
        return "PTX, not CUDA C++; give the .cu file that nvcc made it from"
    if not is_cuda and _TRITON.search(text):
        return (
            "a Triton kernel in Python; expected CUDA C++: a __global__ kernel and a solve() that "
            "launches it"
        )
    if not is_cuda and _PYTHON.search(text):
        return (
            "Python, not CUDA C++; put the kernel's source into a .cu file (PyTorch modules become "
            "tasks: cuda-llm tasks import kernelbench FILE.py)"
        )
    if _HIP.search(code):
        return (
            "HIP, not CUDA; include <cuda_runtime.h> and spell hipMalloc and the like as cudaMalloc"
        )
    if not is_cuda and _OPENCL.search(code):
        return (
            "OpenCL, not CUDA C++; write __kernel as __global__ and get_global_id(0) as "
            "blockIdx.x * blockDim.x + threadIdx.x"
        )
    torch = _TORCH.search(code)
    if torch:
        line = code.count("\n", 0, torch.start()) + 1
        return (
            f"a PyTorch extension (line {line}: {_line(text, line)}); remove its includes and what "
            "takes a torch::Tensor, keep the kernels, and launch them from a function of pointers "
            "(x.data_ptr<float>()) and numbers"
        )
    return ""


def require_solve(text: str, name: str) -> None:
    """Raise UsageError for a program, which has a `main` and no `solve`.

    `name` is the file as the user wrote it.
    """
    if "main" in functions_defined(text) and not defines_solve(text):
        raise UsageError(
            f"{name}: a program with main() and no solve(); make a task of its kernel: "
            f"cuda-llm tasks new NAME --from {name}"
        )


def _line(text: str, number: int) -> str:
    return " ".join(text.splitlines()[number - 1].split())
