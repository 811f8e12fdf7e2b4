"""What a probe finds. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

NO_PACKAGE = 2
"""Exit status of the probing program where CuPy is missing."""


@dataclass(frozen=True, kw_only=True)
class CopyRate:
    """A copy from device memory to device memory."""

    moved_bytes: int
    """Read and written together."""
    cold_gb_s: float
    """Behind a write of twice the L2, whose own time is taken off."""
    warm_gb_s: float
    """Again and again: small ones are served by L2."""


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """What NVML says at one moment."""

    sm_mhz: int
    memory_mhz: int
    reasons: tuple[str, ...] = ()
    """Why the clocks are not higher: `power_cap`, `hw_slowdown`, `sw_thermal` ..."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One GPU, measured."""

    gpu: str = ""
    """As the driver calls it."""
    uuid: str = ""
    cuda: str = ""
    """Newest CUDA the driver runs, e.g. `13.0`."""
    copies: tuple[CopyRate, ...] = ()
    """By size, smallest first: the better of a kernel of ours and the driver's own copy."""
    fp32_tflops: float = 0.0
    """Chains of fused multiply-adds on the CUDA cores, by a kernel of our own."""
    tensor_tflops: Mapping[str, float] = field(default_factory=dict)
    """By type of the inputs, with sums in fp32: square products by cuBLAS."""
    launch_graph_us: float = 0.0
    """From one empty kernel of a captured graph to the next."""
    fill_graph_us: float = 0.0
    """What a fill of four bytes adds between two kernels of a graph."""
    grid_barrier_us: float = 0.0
    """What waiting once for all blocks of the grid takes, a block an SM."""
    cooperative_launch_us: float = 0.0
    """What launching such a grid adds to an empty kernel, without a barrier."""
    launch_alone_us: float = 0.0
    """From the host's call to the end of one empty kernel it waits for."""
    idle: Clocks | None = None
    """None where NVML does not tell."""
    loaded: Clocks | None = None
    """While the arithmetic above ran."""
    notes: tuple[str, ...] = ()
    """What was not measured, and why."""

    @property
    def copy_gb_s(self) -> float:
        """Of the largest copy."""
        return self.copies[-1].cold_gb_s if self.copies else 0.0
