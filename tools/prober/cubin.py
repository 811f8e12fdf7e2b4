"""Our probing kernels, compiled once for each target."""

import os
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.compiler.toolkit import find_toolkit
from cuda_llm.tools.native import build_once, content_key
from cuda_llm.tools.native.together import run_together

SOURCE = Path(__file__).parent / "native" / "probe.cu"


def probe_cubin(target: str) -> Path:
    """Path of `probe.cu` compiled for `target` (`sm_90`). Raises MissingError without nvcc."""
    toolkit = find_toolkit()
    chip = target.removeprefix("sm_")
    options = ["-cubin", "-O3", "-std=c++17", f"-gencode=arch=compute_{chip},code={target}"]
    digest = content_key(str(toolkit.nvcc), [toolkit.version, *options])
    digest.update(SOURCE.read_bytes())

    def make(scratch: Path) -> Path:
        output = scratch / "probe.cubin"
        command = [str(toolkit.nvcc), *options, str(SOURCE), "-o", str(output)]
        stderr = run_together([command], os.environ | {"LC_ALL": "C", "TMPDIR": str(scratch)})
        if stderr is not None:
            first = next(iter(stderr.strip().splitlines()), "no message")
            raise InfrastructureError("native", f"probe.cu does not build: {first}")
        return output

    return build_once("probe.cubin", digest.hexdigest(), make)
