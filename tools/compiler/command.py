"""The one nvcc call that makes a candidate."""

import re
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.tools.compiler.candidate import CompileRequest
from cuda_llm.tools.compiler.toolkit import Toolkit

SOURCE = "kernel.cu"
PRELUDE = "prelude.h"
EXPORTS = "exports.map"
KEPT = "kept"
LIBRARY = "candidate.so"
PTX = f"{KEPT}/kernel.ptx"
OBJECT = f"{KEPT}/kernel.o"
PREPROCESSED = f"{KEPT}/kernel.cpp4.ii"

ONLY_SOLVE = "{ global: solve; local: *; };\n"


def lay_out(folder: Path, request: CompileRequest) -> None:
    """Write what nvcc reads into its private folder."""
    (folder / KEPT).mkdir()
    (folder / SOURCE).write_text(request.source, encoding="utf-8", errors="replace")
    (folder / PRELUDE).write_text(request.prelude)
    (folder / EXPORTS).write_text(ONLY_SOLVE)


def nvcc_command(toolkit: Toolkit, request: CompileRequest) -> list[str]:
    """Argument vector, run inside the private folder. Raises UsageError on a target that is none.

    `--cudart=none` leaves the CUDA calls undefined: our own runtime answers them. The long form of
    -gencode compiles for one target and nothing else. NVTX would open libraries at run time.
    """
    target = re.fullmatch(r"sm_(\d{2,3}[af]?)", request.target)
    if target is None:
        raise UsageError(f"{request.target!r} is not a GPU target: expected one like sm_86")
    return [
        str(toolkit.nvcc),
        "-shared",
        "-O3",
        "-lineinfo",
        "--cudart=none",
        f"-gencode=arch=compute_{target[1]},code=sm_{target[1]}",
        "-Xptxas=-v",
        "-Xcompiler=-fPIC,-fmax-errors=20",
        f"-Xlinker=--version-script={EXPORTS},-z,now,-z,relro",
        "-DNVTX_DISABLE",
        *(f"-D{name}={value}" for name, value in request.defines.items()),
        *(f"-I{folder}" for folder in request.include_dirs),
        f"-include={PRELUDE}",
        "--keep",
        f"--keep-dir={KEPT}",
        *request.flags,
        "-o",
        LIBRARY,
        SOURCE,
    ]
