"""Static tables of translated kernels, by which the numbers of a report are interpreted.

The translator makes them before a kernel runs, so they are trusted; what the runner reports is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cuda_llm.source_file import SourceSpot

WGMMA_PEAK = "wgmma:"
"""Prefix of the name of a tensor rate that wgmma instructions reach, and mma does not."""


class InstructionClass(StrEnum):
    """Pipe of an SM that an instruction uses."""

    FP32 = "fp32"
    FP64 = "fp64"
    FP16 = "fp16"
    INT = "int"
    SFU = "sfu"
    CONVERT = "convert"
    LOAD_STORE = "load_store"
    SHUFFLE = "shuffle"
    TENSOR = "tensor"
    CONTROL = "control"
    FREE = "free"
    """Instructions that ptxas folds away: moves, cvta, ld.param."""


PIPES = (
    InstructionClass.FP32,
    InstructionClass.FP64,
    InstructionClass.FP16,
    InstructionClass.INT,
    InstructionClass.SFU,
    InstructionClass.CONVERT,
    InstructionClass.SHUFFLE,
    InstructionClass.TENSOR,
)
"""Pipes in the order of `emu::Pipe`, which ends with instructions of all kinds."""


@dataclass(frozen=True, kw_only=True)
class InstructionSite:
    """A memory, barrier or collective instruction. Its index is its number in every report."""

    opcode: str
    space: str
    """`global`, `shared`, `local`, `const`, `param`, `generic`, or empty."""
    kind: str
    """`load`, `store`, `atomic`, `async_copy`, `bulk_load`, `bulk_store`, `barrier`, ..."""
    bytes: int
    """Bytes per lane, all elements of a vector together; 1 where lanes are counted as bytes."""
    block: int
    """Number of the basic block that holds the instruction."""
    spot: SourceSpot | None
    width: int = 0
    """Bytes per lane of the instruction that ptxas makes of this access, alone or merged with
    others. The first access of a merged instruction stands for all; the others have 0."""


@dataclass(frozen=True, kw_only=True)
class BasicBlock:
    """A basic block; `mix` times its executions is the instruction mix."""

    mix: Mapping[InstructionClass, float]
    spot: SourceSpot | None
    memory_batches: int = 0
    """Groups of global loads separated by a first use: loads / batches is the parallelism."""
    global_loads: int = 0
    dependent_chain: int = 0
    """Longest chain of arithmetic in which each instruction waits for the previous instruction."""
    shared_waits: int = 0
    """Longest chain of dependent reads of shared memory."""
    cached_waits: int = 0
    """Longest chain of dependent reads of local and constant memory."""
    tensor: Mapping[str, int] = field(default_factory=dict)
    """Additions and multiplications on tensor cores, by the peak rate that holds for them."""
    operations: Mapping[InstructionClass, int] = field(default_factory=dict)
    """Floating-point operations of a lane on CUDA cores, by pipe: two of a multiply-add, and twice
    as many of an instruction on pairs."""


@dataclass(frozen=True, kw_only=True)
class Unsupported:
    """An operation the emulated device does not execute."""

    opcode: str
    count: int
    spot: SourceSpot | None


@dataclass(frozen=True, kw_only=True)
class SharedVariable:
    """An array in a kernel's shared memory."""

    name: str
    """Its name in the source."""
    offset_bytes: int
    size_bytes: int | None = None
    """None where the launch says how large it is."""
    shape: tuple[int, ...] = ()
    """Its extents, where the source spells them in numbers and named constants."""


@dataclass(frozen=True, kw_only=True)
class KernelTable:
    """Static properties of an `.entry`, in the order of the generated module's kernels."""

    symbol: str
    sites: tuple[InstructionSite, ...] = ()
    blocks: tuple[BasicBlock, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()
    """Operations that are not supported; where there are any, the kernel was not translated, and
    launching it is EMULATOR_UNSUPPORTED."""
    shared: tuple[SharedVariable, ...] = ()
    """Arrays in its shared memory by where they begin, the one of dynamic size last."""


@dataclass(frozen=True, kw_only=True)
class Translated:
    """A PTX file translated to a loadable library, with its tables."""

    library: Path
    kernels: tuple[KernelTable, ...]
    translate_s: float = 0.0
    cached: bool = False
    notes: Mapping[str, str] = field(default_factory=dict)
