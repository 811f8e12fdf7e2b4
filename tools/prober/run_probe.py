"""Probes one GPU in a process of its own, alone on it, with a deadline."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cuda_llm.codec import decode
from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.tools.detector.attributes import GpuAttributes
from cuda_llm.tools.prober.probe import NO_PACKAGE, Probe

LIMIT_S = 90.0
MODULE = "cuda_llm.tools.prober.measure"
INSTALL = "install it: pip install 'cuda-llm[gpu]'"


async def run_probe(
    gpu: GpuAttributes,
    *,
    report: Callable[[str], None],
    cubin: Path | None = None,
    command: Sequence[str] = (),
    limit_s: float = LIMIT_S,
) -> Probe:
    """What the GPU does, measured. Waits for whoever holds it; `report` is told of that.

    `cubin` and `command` stand in for our own. Raises MissingError without nvcc, CuPy or a cache,
    and InfrastructureError where the probe breaks or does not end.
    """
    import asyncio

    from cuda_llm.tools.prober.cubin import probe_cubin
    from cuda_llm.tools.referee.lease import Lease

    label = f"cuda:{gpu.ordinal} {gpu.name}"
    built = cubin or probe_cubin(target_of(gpu))
    ours = [sys.executable, "-P", "-m", MODULE, str(gpu.ordinal), str(built)]
    async with Lease(gpu.uuid or f"ordinal-{gpu.ordinal}", label, report).held():
        output = await asyncio.to_thread(output_of, command or ours, label, limit_s)
    try:
        found = decode(Probe, json.loads(output))
    except ValueError as error:
        raise InfrastructureError("probe", f"its answer cannot be read: {error}") from None
    cuda = f"{gpu.driver_cuda // 1000}.{gpu.driver_cuda % 1000 // 10}"
    return replace(found, gpu=gpu.name, uuid=gpu.uuid, cuda=cuda)


def target_of(gpu: GpuAttributes) -> str:
    """nvcc's architecture of the GPU."""
    major, minor = gpu.compute_capability
    return f"sm_{major}{minor}"


def output_of(command: Sequence[str], label: str, limit_s: float) -> str:
    """What the process prints. Raises as `run_probe` does."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        msg = f"{label} did not answer within {limit_s:g} s; see nvidia-smi"
        raise InfrastructureError("probe", msg) from None
    if done.returncode == NO_PACKAGE:
        raise MissingError(f"CuPy is missing ({done.stderr.strip()})", INSTALL)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        last = said[-1] if said else f"status {done.returncode}"
        raise InfrastructureError("probe", f"{label}: {last[:300]}")
    return done.stdout
