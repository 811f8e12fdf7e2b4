"""Measures a GPU's rates and latencies in a separate process, compares them with published figures,
and keeps them."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from cuda_llm.codec import decode
from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.hardware_profiles.ceilings import Ceilings, CopyRate
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.cuda.build import compile_own
from cuda_llm.tools.cuda.driver_query import GpuAttributes
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.native import write_cached

NO_PACKAGE = 2
"""Exit status of the probing program where CuPy is missing."""

PROBES_FOLDER = "probes"
PROBE_SOURCE = Path(__file__).parent / "native" / "probe" / "probe.cu"
PROBE_LIMIT_S = 90.0
PROBE_PROGRAM = "cuda_llm.tools.cuda.probe_program"
INSTALL = "install it: pip install 'cuda-llm[gpu]'"


@dataclass(frozen=True, kw_only=True)
class ProbedCopy:
    """A copy from device memory to device memory."""

    moved_bytes: int
    """Bytes read and bytes written, added up."""
    cold_gb_s: float
    """Rate of a copy after a write of twice the L2 size, whose own time is subtracted."""
    warm_gb_s: float
    """Rate of a copy that is repeated: L2 serves small copies."""


@dataclass(frozen=True, kw_only=True)
class ProbedClocks:
    """Clocks of the GPU at one moment, as NVML reports them."""

    sm_mhz: int
    memory_mhz: int
    reasons: tuple[str, ...] = ()
    """Why the clocks are not higher: `power_cap`, `hw_slowdown`, `sw_thermal` ..."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Measured rates and latencies of one GPU."""

    gpu: str = ""
    """Name of the GPU, as the driver reports it."""
    uuid: str = ""
    cuda: str = ""
    """Newest CUDA version that the driver runs, e.g. `13.0`."""
    copies: tuple[ProbedCopy, ...] = ()
    """Copies by size, smallest first: the faster of an own kernel and the driver's copy."""
    fp32_tflops: float = 0.0
    """TFLOPS of chains of fused multiply-adds on the CUDA cores, by an own kernel."""
    tensor_tflops: Mapping[str, float] = field(default_factory=dict)
    """TFLOPS of square cuBLAS products with fp32 sums, by type of the inputs."""
    launch_graph_us: float = 0.0
    """Microseconds from one empty kernel of a captured graph to the next."""
    fill_graph_us: float = 0.0
    """Microseconds that a fill of four bytes adds between two kernels of a graph."""
    grid_barrier_us: float = 0.0
    """Microseconds of one barrier of a whole grid that has one block per SM."""
    cooperative_launch_us: float = 0.0
    """Microseconds that a cooperative launch of one block per SM adds to an empty kernel, without a
    barrier."""
    launch_alone_us: float = 0.0
    """Microseconds from the host's launch of one empty kernel to the end of waiting for it."""
    idle: ProbedClocks | None = None
    """Clocks of the idle GPU; None where NVML does not report them."""
    loaded: ProbedClocks | None = None
    """Clocks while the arithmetic kernels ran; None where NVML does not report them."""
    notes: tuple[str, ...] = ()
    """Figures that were not measured, each with its reason."""

    @property
    def copy_gb_s(self) -> float:
        """Cold rate of the largest copy; 0 without copies."""
        return self.copies[-1].cold_gb_s if self.copies else 0.0


@dataclass(frozen=True, kw_only=True)
class ProbedFigure:
    """A measured figure beside its published value."""

    name: str
    published: float | None
    """Published value; None where nothing is published, or the GPU has no profile."""
    measured: float
    unit: str

    @property
    def share(self) -> float | None:
        """Measured value divided by the published value; None without a published value."""
        return self.measured / self.published if self.published else None


def compare_probe(probe: Probe, hardware: Hardware | None) -> tuple[ProbedFigure, ...]:
    """Return every measured figure, each with its published value where there is one."""
    return tuple(_figures(probe, hardware))


def _figures(probe: Probe, hardware: Hardware | None) -> Iterator[ProbedFigure]:
    peaks = None if hardware is None else hardware.peaks
    yield ProbedFigure(
        name="copy, DRAM",
        published=peaks.dram_gb_s if peaks else None,
        measured=probe.copy_gb_s,
        unit="GB/s",
    )
    yield ProbedFigure(
        name="fp32, fused multiply-adds",
        published=peaks.fp32_tflops if peaks else None,
        measured=probe.fp32_tflops,
        unit="TFLOPS",
    )
    for kind, rate in probe.tensor_tflops.items():
        published = peaks.tensor_dense_tflops.get(kind) if peaks else None
        name = f"{kind} tensor cores, cuBLAS"
        yield ProbedFigure(name=name, published=published, measured=rate, unit="TFLOPS")
    if probe.loaded is not None:
        boost = hardware.boost_clock_mhz if hardware else None
        measured = float(probe.loaded.sm_mhz)
        yield ProbedFigure(
            name="SM clock under load", published=boost, measured=measured, unit="MHz"
        )


def as_ceilings(probe: Probe, published: Ceilings) -> Ceilings:
    """Return the ceilings of kernels; tensor types that were not measured stay published."""
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


def keep_probe(probe: Probe) -> Path:
    """Write a probe into the cache under the GPU's UUID; return the file. Raises MissingError."""
    text = json.dumps(asdict(probe), indent=2) + "\n"
    return write_cached(text, f"{probe.uuid or 'gpu'}.json", PROBES_FOLDER)


def probe_cubin(target: str) -> Path:
    """Return `probe.cu` compiled for `target` (`sm_90`). Raises MissingError without nvcc."""
    return compile_own("probe.cubin", target, [PROBE_SOURCE], ["-cubin"])


async def run_probe(
    gpu: GpuAttributes,
    *,
    report: Callable[[str], None],
    cubin: Path | None = None,
    command: Sequence[str] = (),
    limit_s: float = PROBE_LIMIT_S,
) -> Probe:
    """Measure what the GPU does. Waits while another process holds it, and calls `report` then.

    `cubin` and `command` stand in for our own. Raises MissingError without nvcc, CuPy or a cache,
    and InfrastructureError where the probe breaks or does not end.
    """
    import asyncio

    label = f"cuda:{gpu.ordinal} {gpu.name}"
    built = cubin or probe_cubin(target_of(gpu))
    ours = [sys.executable, "-P", "-m", PROBE_PROGRAM, str(gpu.ordinal), str(built)]
    async with Lease(gpu.uuid or f"ordinal-{gpu.ordinal}", label, report).held():
        output = await asyncio.to_thread(output_of, command or ours, label, limit_s)
    try:
        found = decode(Probe, json.loads(output))
    except ValueError as error:
        raise InfrastructureError("probe", f"its answer cannot be read: {error}") from None
    cuda = f"{gpu.driver_cuda // 1000}.{gpu.driver_cuda % 1000 // 10}"
    return replace(found, gpu=gpu.name, uuid=gpu.uuid, cuda=cuda)


def target_of(gpu: GpuAttributes) -> str:
    """Return nvcc's architecture of the GPU."""
    major, minor = gpu.compute_capability
    return f"sm_{major}{minor}"


def output_of(command: Sequence[str], label: str, limit_s: float) -> str:
    """Return what the process prints. Raises as `run_probe` does."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        msg = f"{label} did not answer within {limit_s:g} s; see nvidia-smi"
        raise InfrastructureError("probe", msg) from None
    if done.returncode == NO_PACKAGE:
        raise MissingError(f"CuPy is missing ({done.stderr.strip()})", INSTALL)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        last = lines[-1] if lines else f"status {done.returncode}"
        raise InfrastructureError("probe", f"{label}: {last[:300]}")
    return done.stdout
