"""What was measured beside what is published."""

from collections.abc import Iterator
from dataclasses import dataclass

from cuda_llm.hardware_profiles.ceilings import Ceilings, CopyRate
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.prober.probe import Probe


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, twice."""

    name: str
    published: float | None
    """None where nothing is published, or the GPU has no profile."""
    measured: float
    unit: str

    @property
    def share(self) -> float | None:
        """Measured over published."""
        return self.measured / self.published if self.published else None


def compare(probe: Probe, hardware: Hardware | None) -> tuple[Figure, ...]:
    """Every figure that has both sides, or was measured."""
    return tuple(_figures(probe, hardware))


def _figures(probe: Probe, hardware: Hardware | None) -> Iterator[Figure]:
    peaks = None if hardware is None else hardware.peaks
    yield Figure(
        name="copy, DRAM",
        published=peaks.dram_gb_s if peaks else None,
        measured=probe.copy_gb_s,
        unit="GB/s",
    )
    yield Figure(
        name="fp32, fused multiply-adds",
        published=peaks.fp32_tflops if peaks else None,
        measured=probe.fp32_tflops,
        unit="TFLOPS",
    )
    for kind, rate in probe.tensor_tflops.items():
        published = peaks.tensor_dense_tflops.get(kind) if peaks else None
        name = f"{kind} tensor cores, cuBLAS"
        yield Figure(name=name, published=published, measured=rate, unit="TFLOPS")
    if probe.loaded is not None:
        boost = hardware.boost_clock_mhz if hardware else None
        measured = float(probe.loaded.sm_mhz)
        yield Figure(name="SM clock under load", published=boost, measured=measured, unit="MHz")


def as_ceilings(probe: Probe, published: Ceilings) -> Ceilings:
    """What kernels can be held against from now on; tensor types that failed stay published."""
    copies = tuple(
        CopyRate(bytes_moved=one.moved_bytes, gb_s=one.cold_gb_s) for one in probe.copies
    )
    return Ceilings(
        dram_gb_s=probe.copy_gb_s,
        fp32_tflops=probe.fp32_tflops,
        launch_us=probe.launch_graph_us,
        tensor_tflops=dict(probe.tensor_tflops) or published.tensor_tflops,
        copies=copies,
        measured=frozenset(
            {"dram_gb_s", "fp32_tflops", "launch_us", "copies"}
            | ({"tensor_tflops"} if probe.tensor_tflops else set())
        ),
    )
