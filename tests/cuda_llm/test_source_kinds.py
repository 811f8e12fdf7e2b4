"""What is given in the place of CUDA source is named, in one line, with what to do."""

from pathlib import Path

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.source_file import read_source
from cuda_llm.source_kinds import require_solve

KERNEL = "__global__ void k(float* x) { x[0] = 1; }\n"

FOREIGN = [
    (
        "a.ptx",
        ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n",
        "PTX",
    ),
    ("a.py", "import triton\n\n@triton.jit\ndef k(x, N: tl.constexpr):\n    pass\n", "Triton"),
    ("a.py", "import numpy as np\nprint(np.zeros(3))\n", "Python"),
    ("a.hip", f"#include <hip/hip_runtime.h>\n{KERNEL}", "HIP"),
    (
        "a.cu",
        f"#include <vector>\n#include <torch/extension.h>\n{KERNEL}",
        "line 2: #include <torch",
    ),
    ("a.cl", "__kernel void k(__global float* x) { x[get_global_id(0)] = 1; }\n", "OpenCL"),
]


@pytest.mark.parametrize(("name", "text", "named"), FOREIGN)
def test_other_languages_are_named(tmp_path: Path, name: str, text: str, named: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        read_source(tmp_path / name)
    assert named in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        KERNEL,
        '__device__ void f() { asm volatile(".version 8.5\\n.target sm_90\\n"); }\n' + KERNEL,
        f"// import triton\n// #include <torch/extension.h>\n{KERNEL}",
        f"/*\nimport torch\ndef f(x):\n    pass\n.version 8\n.target sm\n*/\n{KERNEL}",
        f'#include "hip_helpers.h"\nint main_size();\n{KERNEL}',
        "Shall I compare thee to a summer's day?\n",
    ],
)
def test_cuda_that_mentions_them_is_cuda(tmp_path: Path, text: str) -> None:
    (tmp_path / "k.cu").write_text(text)
    assert read_source(tmp_path / "k.cu") == text


def test_a_byte_of_latin_1_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_bytes(b"// first\n// Gr\xf6\xdfe\n" + KERNEL.encode())
    with pytest.raises(UsageError) as caught:
        read_source(file)
    assert str(caught.value).startswith(f"{file}:2: byte 0xf6 is not UTF-8")
    assert f"iconv -f LATIN1 -t UTF-8 {file}" in str(caught.value)


def test_utf_16_is_named(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_bytes(KERNEL.encode("utf-16"))
    with pytest.raises(UsageError, match="UTF-16"):
        read_source(tmp_path / "k.cu")


def test_line_ends_are_those_of_python(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_bytes(b"// \xc3\xa9\r\n" + KERNEL.encode() + b"// old\r")
    assert read_source(tmp_path / "k.cu") == f"// é\n{KERNEL}// old\n"


def test_a_program_is_sent_to_tasks_new() -> None:
    program = f"{KERNEL}int main() {{ k<<<1, 1>>>(nullptr); }}\n"
    with pytest.raises(UsageError, match=r"main\(\).*cuda-llm tasks new NAME --from k\.cu"):
        require_solve(program, "k.cu")
    require_solve(f'{program}extern "C" void solve(float* x) {{ k<<<1, 1>>>(x); }}\n', "k.cu")
    require_solve(KERNEL, "k.cu")
