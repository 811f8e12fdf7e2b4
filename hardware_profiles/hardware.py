"""What one GPU model can do. Units are in the names; every figure has its source in the file."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes fixed by the compute capability."""

    threads_per_block: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    registers_per_block: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    """Without asking."""
    shared_bytes_per_block_optin: int
    """With cudaFuncAttributeMaxDynamicSharedMemorySize."""
    shared_bytes_reserved_per_block: int
    register_allocation_unit: int
    """Registers are handed out per warp in multiples of this."""
    shared_allocation_bytes: int


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Published peak rates, dense and sparse apart. 0 where the chip has no such unit."""

    fp32_tflops: float
    fp64_tflops: float
    fp16_tflops: float
    """CUDA cores, not tensor cores."""
    tensor_dense_tflops: Mapping[str, float] = field(default_factory=dict)
    """By input type: `tf32`, `fp16`, `bf16`, `fp8`, `int8` (tera-operations), `fp64`. Floating
    types accumulate in fp32, except `fp16_acc16` and `fp8_acc16`, which accumulate in fp16."""
    tensor_sparse_tflops: Mapping[str, float] = field(default_factory=dict)
    dram_gb_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Pipes:
    """Lanes per SM and clock for each kind of instruction: a warp takes 32 / lanes clocks."""

    fp32: float
    fp64: float
    fp16: float
    """Each lane takes a pair of halves."""
    int32: float
    sfu: float
    convert: float
    load_store: float
    """Four-byte words that L1 and shared memory, one data path, serve per clock."""


@dataclass(frozen=True, kw_only=True)
class ModelConstants:
    """What the time model assumes where nothing is published. Estimates, labelled as such."""

    l2_bytes_per_clk: float
    """Whole chip, at the SM clock."""
    latency_dram_clk: float
    latency_l2_clk: float
    latency_shared_clk: float
    latency_alu_clk: float
    launch_us: float
    """From the end of one kernel to the start of the next in a captured graph."""
    latency_l1_clk: float = 40.0
    dram_efficiency: float = 0.9
    """Part of the published bandwidth that a large copy reaches."""
    fill_us: float = 0.0
    """What a fill or a copy by the CUDA API adds between kernels of a graph; 0: as a launch."""
    grid_barrier_us: float = 0.0
    """What a cooperative launch and the barrier of its grid add to a plain one; 0: not known."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One GPU model."""

    name: str
    """Exact product name, e.g. `NVIDIA GeForce RTX 3090 Ti`."""
    slug: str
    """File name without `.toml`; also accepted on the command line."""
    aliases: tuple[str, ...]
    """Other exact names, e.g. `RTX 3090 Ti`."""
    architecture: str
    compute_capability: tuple[int, int]
    target: str
    """nvcc architecture: `sm_86`; the `a` variant where there is one, `sm_90a`."""
    sm_count: int
    schedulers_per_sm: int
    boost_clock_mhz: float
    memory_clock_mhz: float
    """As the CUDA driver reports it: the data rate per pin is twice this."""
    memory_bus_bits: int
    memory_bytes: int
    l2_bytes: int
    limits: Limits
    peaks: Peaks
    pipes: Pipes
    model: ModelConstants
    sources: Mapping[str, str] = field(default_factory=dict)
    """Key (dotted, as in the file) to where its figure comes from."""

    @property
    def short_name(self) -> str:
        """What people call it, e.g. `RTX 3090 Ti`."""
        return min((self.name, *self.aliases), key=len)
