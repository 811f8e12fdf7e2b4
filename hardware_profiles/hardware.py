"""Figures of a GPU model, as values, which are also the schema of a profile's file.

Units are in the names; every figure has its source in the file.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from cuda_llm.data_file import Count, Positive, Rule, Text, UnfitError

CountOrZero = Annotated[
    int, Rule(lambda core: core.int_schema(ge=0), "a whole number of at least 0")
]
PositiveOrZero = Annotated[
    float,
    Rule(lambda core: core.float_schema(ge=0, allow_inf_nan=False), "a number of at least 0"),
]


def _read_capability(value: Any) -> tuple[int, int]:
    major, dot, minor = str(value).partition(".")
    if not (isinstance(value, str) and dot and major.isdecimal() and minor.isdecimal()):
        raise UnfitError(value, 'a text such as "8.6"')
    return int(major), int(minor)


Capability = Annotated[
    tuple[int, int], Rule(lambda core: core.no_info_plain_validator_function(_read_capability))
]


FigureOrigin = Literal["published", "measured", "measured_elsewhere", "estimated"]
"""Origin of a figure; `measured` means on the same machine, for example by a probe."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Sizes fixed by the compute capability."""

    threads_per_block: Count
    threads_per_sm: Count
    blocks_per_sm: Count
    registers_per_sm: Count
    registers_per_block: Count
    shared_bytes_per_sm: Count
    shared_bytes_per_block: Count
    """Shared memory of a block without opting in to more."""
    shared_bytes_per_block_optin: Count
    """Shared memory of a block with cudaFuncAttributeMaxDynamicSharedMemorySize."""
    shared_bytes_reserved_per_block: CountOrZero
    register_allocation_unit: Count
    """Registers are allocated per warp in multiples of this number."""
    shared_allocation_bytes: Count


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Published peak rates, dense and sparse apart; 0 where the chip has no such unit."""

    fp32_tflops: Positive
    fp64_tflops: PositiveOrZero
    fp16_tflops: PositiveOrZero
    """TFLOPS of the CUDA cores, not of the tensor cores."""
    tensor_dense_tflops: Mapping[str, Positive] = field(default_factory=dict)
    """Dense TFLOPS by input type: `tf32`, `fp16`, `bf16`, `fp8`, `int8` (tera-operations), `fp64`.
    Floating types accumulate in fp32, except `fp16_acc16` and `fp8_acc16`, which accumulate in
    fp16."""
    tensor_sparse_tflops: Mapping[str, Positive] = field(default_factory=dict)
    dram_gb_s: Positive = 0.0


@dataclass(frozen=True, kw_only=True)
class Pipes:
    """Lanes per SM and clock for each kind of instruction: a warp takes 32 / lanes clocks."""

    fp32: Positive
    fp64: Positive
    fp16: Positive
    """Each lane takes a pair of halves."""
    int32: Positive
    sfu: Positive
    convert: Positive
    load_store: Positive
    """Four-byte words that L1 and shared memory, which share a data path, serve per clock."""


@dataclass(frozen=True, kw_only=True)
class ModelConstants:
    """Estimates of the time model for figures that are not published."""

    l2_bytes_per_clk: Positive
    """Whole chip, at the SM clock."""
    latency_dram_clk: Positive
    latency_l2_clk: Positive
    latency_shared_clk: Positive
    latency_alu_clk: Positive
    launch_us: PositiveOrZero
    """Microseconds from the end of a kernel to the start of the next in a captured graph."""
    cold_us: PositiveOrZero = 0.0
    """Microseconds that the first launch of a call waits for its code and parameters, which are in
    no cache; 0: not known, or part of `launch_us`."""
    latency_l1_clk: Positive = 40.0
    dram_efficiency: Positive = 0.9
    """Part of the published bandwidth that a large copy reaches."""
    fill_us: PositiveOrZero = 0.0
    """Microseconds that a fill or copy by the CUDA API adds between kernels of a graph; 0: as a
    launch."""
    grid_barrier_us: PositiveOrZero = 0.0
    """Microseconds that a cooperative launch and the barrier of its grid add to a plain launch; 0:
    not known."""
    block_start_clk: PositiveOrZero = 0.0
    """Clocks of the whole chip between the starts of two blocks; 0: not known."""
    mma_sync_efficiency: Positive = 1.0
    """Part of the published tensor peaks that `mma.sync` reaches, f64 aside."""


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Costs of operations that wait for other threads, which prompts state; 0: not known.

    The time model has constants of its own for them.
    """

    block_barrier_clk: PositiveOrZero = 0.0
    """Clocks of `__syncthreads` in a block of one warp."""
    block_barrier_warp_clk: PositiveOrZero = 0.0
    """Clocks that each further warp of the block adds to it."""
    cluster_barrier_clk: PositiveOrZero = 0.0
    """Clocks of a barrier of clusters of blocks of 256 threads."""
    grid_barrier_clk: PositiveOrZero = 0.0
    """Clocks of `grid.sync()`, its cooperative launch aside."""
    kept_atomic_clk: PositiveOrZero = 0.0
    """Clocks until the result of an atomic in L2 is there."""
    same_word_atomic_clk: PositiveOrZero = 0.0
    """Clocks between the atomics of two warps on one word of L2."""
    fence_clk: PositiveOrZero = 0.0
    """Clocks of `__threadfence` behind a store."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A GPU model: limits, peaks, pipes and constants of the time model."""

    name: Text
    """Exact product name, e.g. `NVIDIA GeForce RTX 3090 Ti`."""
    slug: str
    """File name without `.toml`; also accepted on the command line."""
    aliases: tuple[str, ...] = ()
    """Other exact names, e.g. `RTX 3090 Ti`."""
    architecture: Text
    compute_capability: Capability
    target: Text
    """nvcc architecture: `sm_86`; the `a` variant where the GPU has one, `sm_90a`."""
    sm_count: Count
    schedulers_per_sm: Count
    boost_clock_mhz: Positive
    memory_clock_mhz: Positive
    """Memory clock as the CUDA driver reports it: the data rate per pin is twice this."""
    memory_bus_bits: Count
    memory_bytes: Count
    l2_bytes: Count
    l1_and_shared_bytes_per_sm: CountOrZero = 0
    """Bytes of an SM that L1 and shared memory divide; 0: not known, and as many as shared memory
    can have are taken."""
    limits: Limits
    peaks: Peaks
    pipes: Pipes
    model: ModelConstants
    waits: Waits = field(default_factory=Waits)
    sources: Mapping[str, Text] = field(default_factory=dict)
    """Source of each figure, by its key (dotted, as in the file)."""
    origins: Mapping[FigureOrigin, tuple[str, ...]] = field(default_factory=dict)
    """Keys, or tables, of the figures that are not published, by origin."""

    def origin_of(self, key: str) -> FigureOrigin | None:
        """Return the origin of the figure with this key; None for a figure without a source."""
        places = (key, key.split(".")[0])
        listed = {named: origin for origin, keys in self.origins.items() for named in keys}
        found = next((listed[place] for place in places if place in listed), None)
        has_source = any(place in self.sources for place in places)
        return found or ("published" if has_source else None)

    @property
    def short_name(self) -> str:
        """Return the shortest name, e.g. `RTX 3090 Ti`."""
        return min((self.name, *self.aliases), key=len)
