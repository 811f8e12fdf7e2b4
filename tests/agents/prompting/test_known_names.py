"""Invented names: each real one compiles, each wrong one does not, and the right one is offered."""

import asyncio
import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cuda_llm.agents.prompting.describe_kernel import known_names, real_names
from cuda_llm.outcomes import CompileFailed, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device.candidate import Compiled

SOLVE = """
extern "C" void solve(const float* A, const float* B, float* C, int n)
{{
    void* p = nullptr; int n_ = 0; (void)n_; {host}
    uses<<<1, 32>>>(C, nullptr, nullptr);
}}
"""
KERNEL = """
__constant__ float constants[4];
__device__ __forceinline__ float same(float f) {{ return f; }}
__global__ void __launch_bounds__(128) uses(float* pf, int* pi, {half}* ph)
{{
    __shared__ float shared[64];
    float f = same(pf[1]); int i = 1; unsigned u = 1; float4 f4 = make_float4(f, f, f, f);
    {declared}
    {statements}
    pf[0] = f + f4.x + i + u + shared[0] {halves};
}}
"""


def compiled(source: str) -> Compiled | Verdict:
    request = compile_request(load_task("vector_add"), "sm_86", source, "names.cu")
    return asyncio.run(compile_candidate(request))


@pytest.mark.evidence
def test_every_real_name_compiles() -> None:
    device = [one.code for one in known_names() if not one.code.startswith("@")]
    host = [
        one.code.removeprefix("@host ").replace("&n,", "&n_,")
        for one in known_names()
        if one.code.startswith("@host")
    ]
    headers = sorted({one.header for one in known_names() if one.header})
    source = (
        "".join(f"#include <{header}>\n" for header in headers)
        + KERNEL.format(
            half="half",
            declared="half h = ph[0]; half2 h2 = __half2half2(h);",
            statements="\n    ".join(device),
            halves="+ __half2float(h) + __half22float2(h2).y",
        )
        + SOLVE.format(host="\n    ".join(host))
    )
    assert isinstance(compiled(source), Compiled)


def undefined_names(names: list[str], folder: Path) -> set[str]:
    """Those of `names` that nvcc does not know in device code that includes nothing of its own."""
    uses = "\n    ".join(f"(void){name};" for name in names)
    source = folder / "names.cu"
    source.write_text(KERNEL.format(half="float", declared="", statements=uses, halves=""))
    command = [str(find_toolkit().nvcc), "-ptx", "-arch=sm_86", source.name]
    failed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    return set(re.findall(r'identifier "(\w+)" is undefined', failed.stderr + failed.stdout))


def test_no_name_is_listed_twice() -> None:
    wrong = [name for known in known_names() for name in known.wrong]
    assert sorted(set(wrong)) == sorted(wrong)


HOST_ONLY = {
    "__fma": "f = __fma(f, f, f);",
    "__fmaf": "f = __fmaf(f, f, f);",
    **{name: f"f = {name}(f, f);" for name in ("__fmax", "__fmaxf", "__fmin", "__fminf")},
    **{name: f"f = {name}(f);" for name in ("__exp2f", "__sqrt", "__sqrtf")},
}
"""The host's C library has these, device code does not."""
VOTES = {name: f"i = {name}(i);" for name in ("__any", "__all", "__ballot")}
"""Declared still, and refused."""
IN_A_HEADER = {"ballot": "i = ballot(i);"}
"""A function there calls what is refused."""
SHUFFLES = {
    name: f"f = {name}(f, 1);" for name in ("__shfl", "__shfl_up", "__shfl_down", "__shfl_xor")
}
"""Once the same; unknown since."""
ANSWERED = (HOST_ONLY, VOTES, IN_A_HEADER, SHUFFLES)
"""Each refused by another stage of nvcc, which ends with the first that refuses anything."""


@pytest.mark.evidence
def test_every_wrong_name_is_unknown_to_nvcc(tmp_path: Path) -> None:
    wrong = [name for known in known_names() for name in known.wrong]
    plain = [name for name in wrong if name not in HOST_ONLY | VOTES | IN_A_HEADER | SHUFFLES]
    # nvcc gives up after a hundred errors.
    groups = [plain[start : start + 96] for start in range(0, len(plain), 96)]
    assert not [name for group in groups for name in set(group) - undefined_names(group, tmp_path)]


@pytest.mark.evidence
@pytest.mark.parametrize("name", HOST_ONLY | VOTES | IN_A_HEADER | SHUFFLES)
def test_names_of_the_host_and_of_old_hardware_are_answered_too(name: str) -> None:
    (together,) = (statements for statements in ANSWERED if name in statements)
    failed = errors_of("\n    ".join(together.values()))
    its_own = [
        one
        for one in failed.diagnostics
        if together is IN_A_HEADER or (one.spot is not None and one.spot.text == together[name])
    ]
    assert its_own
    assert real_names(replace(failed, diagnostics=tuple(its_own)), together[name])


@cache
def errors_of(statement: str) -> CompileFailed:
    failed = compiled(
        KERNEL.format(half="float", declared="", statements=statement, halves="")
        + SOLVE.format(host="")
    )
    assert isinstance(failed, CompileFailed)
    return failed


OFFERED = {
    "f = __shfl_xor(f, 1); f = __shfl_xor(f, 2);": "__shfl_xor_sync",
    "atomicMaxFloat(pf, f);": "__float_as_int",
    "__syncblock();": "__syncthreads()",
    "half h = 0; (void)h;": "cuda_fp16.h",
    "f4 = f4 + f4;": "make_float4",
    "f = shraed[0];": "shared is: was that meant?",
    "f = __shfl_xor_snyc(0xffffffffu, f, 1);": "__shfl_xor_sync is: was that meant?",
    "f = quux_of_nothing(f);": "",
}


@pytest.mark.parametrize("statement", OFFERED)
def test_the_right_name_stands_once_beside_the_compilers_error(statement: str) -> None:
    """Compiled together, as nvcc goes on after such an error; a shuffle is refused later on."""
    apart = statement if "__shfl_xor(" in statement else ""
    others = "\n    ".join(one for one in OFFERED if "__shfl_xor(" not in one)
    together = errors_of(apart or others)
    its_own = [one for one in together.diagnostics if one.spot and one.spot.text == statement]
    assert its_own
    failed = replace(together, diagnostics=tuple(its_own))
    advice = real_names(failed, f"__shared__ float shared[64]; {statement}")
    if not OFFERED[statement]:
        assert advice == (), "a name like no other is left to the compiler"
        return
    (line,) = (one for one in advice if OFFERED[statement] in one)
    assert "\n" not in line
