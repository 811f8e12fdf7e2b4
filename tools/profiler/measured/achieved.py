"""How fast a measured call moved its bytes and did its work, against what the chip reaches."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_llm.hardware_profiles.ceilings import Ceilings, Origin
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import peak_tflops
from cuda_llm.tasks.least_time import least_time
from cuda_llm.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class Achieved:
    """One call at one size. Bytes and operations are the least the task needs, not a count."""

    time_us: float
    bytes_moved: float
    flops: float
    precision: str
    """Whose ceiling the work is held against, as `hardware_profiles.roofline` spells it."""
    copy_us: float
    """What a copy that moves as many bytes takes, from cold memory."""
    compute_us: float
    """What the work takes at its ceiling."""
    copy_origin: Origin
    compute_origin: Origin

    @property
    def gb_s(self) -> float:
        """Bytes over time."""
        return self.bytes_moved / (self.time_us * 1e3)

    @property
    def tflops(self) -> float:
        """Operations over time."""
        return self.flops / (self.time_us * 1e6)

    @property
    def memory_share(self) -> float:
        """Rate over that of a copy of as many bytes; above 1 where data stay in cache."""
        return self.copy_us / self.time_us

    @property
    def compute_share(self) -> float:
        """Rate over its ceiling."""
        return self.compute_us / self.time_us


def achieve(
    task: Task,
    dims: Mapping[str, int],
    time_us: float,
    hardware: Hardware,
    ceilings: Ceilings,
    *,
    precision: str = "",
) -> Achieved:
    """Rates of one call that took `time_us`.

    Without `precision` it is the fastest that the task's tolerance allows and the chip has.
    """
    least = least_time(task, hardware, dims, precision=precision)
    rate, field = _ceiling(least.precision, hardware, ceilings)
    return Achieved(
        time_us=time_us,
        bytes_moved=least.bytes_moved,
        flops=least.flops,
        precision=least.precision,
        copy_us=ceilings.copy_us(least.bytes_moved) if least.bytes_moved else 0.0,
        compute_us=least.flops / (rate * 1e6),
        copy_origin=ceilings.origin("dram_gb_s"),
        compute_origin=ceilings.origin(field),
    )


def _ceiling(precision: str, hardware: Hardware, ceilings: Ceilings) -> tuple[float, str]:
    """TFLOPS, and the name of the ceiling it is; other units are published alone."""
    if precision == "fp32":
        return ceilings.fp32_tflops, "fp32_tflops"
    kind = precision.removeprefix("tensor:")
    if kind != precision and kind in ceilings.tensor_tflops:
        return ceilings.tensor_tflops[kind], precision
    return peak_tflops(hardware, precision), precision
