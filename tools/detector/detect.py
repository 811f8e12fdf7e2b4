"""The GPUs of this machine."""

import json
import subprocess
import sys
from typing import Any

from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.tools.detector.attributes import GpuAttributes
from cuda_llm.tools.detector.query import NO_DRIVER

DRIVER = "libcuda.so.1"
LIMIT_S = 30.0
NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE."""


def detect_gpus(library: str = DRIVER) -> tuple[GpuAttributes, ...]:
    """Every GPU the driver `library` knows, in its order.

    Raises MissingError where there is no driver or no GPU, InfrastructureError where the driver
    fails or does not answer.
    """
    command = [sys.executable, "-P", "-m", "cuda_llm.tools.detector.query", library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        msg = f"the driver did not answer within {LIMIT_S:g} s; see nvidia-smi"
        raise InfrastructureError("GPU", msg) from None
    if done.returncode == NO_DRIVER:
        mend = "install NVIDIA's driver, or use --device emulated"
        raise MissingError(f"no CUDA driver ({library}) on this machine", mend)
    if done.returncode != 0:
        msg = f"asking the driver ended with {done.returncode}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    answer = json.loads(done.stdout)
    gpus = tuple(_read(one) for one in answer.get("gpus", ()))
    if answer.get("error", NO_DEVICE) == NO_DEVICE and not gpus:
        raise MissingError("the CUDA driver sees no GPU", "look at nvidia-smi and /dev/nvidia*")
    if not gpus:
        msg = f"{answer['call']} failed with CUresult {answer['error']}; see nvidia-smi"
        raise InfrastructureError("GPU", msg)
    return gpus


def _read(data: dict[str, Any]) -> GpuAttributes:
    major, minor = data.pop("compute_capability")
    return GpuAttributes(compute_capability=(major, minor), **data)
