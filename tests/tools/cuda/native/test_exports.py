"""The runtime on a GPU answers what candidates may import, and what it needs is in any driver."""

import subprocess
from pathlib import Path

from cuda_llm.tools.compiler.audit import CUDA_CALLS
from cuda_llm.tools.cuda.build import runner_program, shim_library


def _symbols(program: Path, which: str) -> set[str]:
    command = ["nm", "-D", which, "--without-symbol-versions", str(program)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in listed.splitlines()}


def test_the_import_audit_allows_exactly_what_the_runtime_answers() -> None:
    assert _symbols(shim_library(), "--defined-only") - {"libcudart.so.13", "gpu_shim"} == set(
        CUDA_CALLS.split()
    )


def test_neither_part_is_linked_with_cuda() -> None:
    for part in (shim_library(), runner_program()):
        needed = {name for name in _symbols(part, "--undefined-only") if name.startswith("cu")}
        assert not needed
