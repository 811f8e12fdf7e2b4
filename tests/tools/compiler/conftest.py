"""Sources and how they are compiled here."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest

PRELUDE = 'extern "C" void solve(const float* a, float* b, int n);\n'
SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'

Outcome = Compiled | Verdict
Compile = Callable[..., Outcome]


@pytest.fixture
def compile_source() -> Compile:
    """Compiles a text; keywords are those of CompileRequest."""

    def compile_text(source: str, **fields: object) -> Outcome:
        patient = CompileLimits(wall_s=900)
        request = CompileRequest(source=source, name="mine.cu", prelude=PRELUDE, limits=patient)
        return asyncio.run(compile_candidate(replace(request, **fields)))  # type: ignore[arg-type]

    return compile_text
