"""Our probing kernels, compiled once for each target."""

from pathlib import Path

from cuda_llm.tools.gpu.program import compile_own

SOURCE = Path(__file__).parent / "native" / "probe" / "probe.cu"


def probe_cubin(target: str) -> Path:
    """Path of `probe.cu` compiled for `target` (`sm_90`). Raises MissingError without nvcc."""
    return compile_own("probe.cubin", target, [SOURCE], ["-cubin"])
