"""A real GPU: its referee process does the work, this process never makes a CUDA context."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Concatenate

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.detector.attributes import GpuAttributes
from cuda_llm.tools.device import P, Site, T
from cuda_llm.tools.gpu.site import CAPABILITIES
from cuda_llm.tools.referee.gpu import build_programs
from cuda_llm.tools.referee.referee import Referee

_TIMING_CODE = ("gpu", "timing", "judge")


@dataclass(frozen=True, kw_only=True)
class CudaDevice:
    """One GPU. Every time it gives is measured."""

    gpu: GpuAttributes
    hardware: Hardware
    referee: Referee
    driver: str = ""
    """E.g. `580.159.03`; empty where NVML does not say."""
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """E.g. `cuda:0 NVIDIA H200`."""
        return f"{self.referee.label} {self.gpu.name}"

    @property
    def target(self) -> str:
        """nvcc architecture of the GPU, the `a` variant where there is one."""
        return self.hardware.target

    @property
    def spec(self) -> str:
        """What opens it again after `--device`."""
        return self.referee.label

    @property
    def capabilities(self) -> Capabilities:
        """What a GPU can do; nothing else runs where a kernel is timed."""
        return CAPABILITIES

    @property
    def version(self) -> str:
        """Hash of GPU, driver and all code that times."""
        parts = repr((self.gpu.name, self.gpu.memory_bytes, self.gpu.driver_cuda, self.driver))
        return hashlib.blake2b(parts.encode() + _timing_code(), digest_size=16).hexdigest()

    def pinned(self) -> "CudaDevice":
        """See `Device.pinned`."""
        return self

    def prepare(self) -> None:
        """See `Device.prepare`; the referee opens its site while the first candidate compiles.

        Raises DeviceLost where the GPU is in quarantine.
        """
        self.referee.refuse_in_quarantine()
        self.referee.client.warm()
        build_programs(self.target)

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out` and `Referee.carry_out`."""
        return await self.referee.carry_out(work, *arguments, **named)


@lru_cache
def _timing_code() -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    tools = Path(__file__).parent.parent
    for folder in _TIMING_CODE:
        for file in sorted((tools / folder).rglob("*")):
            if file.suffix in {".py", ".h", ".cpp", ".cu"}:
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.digest()
