"""Products of a warpgroup: the spellings of `wgmma.mma_async` that are emulated.

Sparse products and products of single bits are refused.
"""

import re
from dataclasses import dataclass

from cuda_llm.tools.emulator.ops.tensor import PEAKS, Opcode
from cuda_llm.tools.profiler.tables import WGMMA_PEAK

WARPS = 4
"""Warps of a warpgroup."""
ROWS = 16
"""Rows of A and D that each warp computes."""

_FLOATS = ("f16", "f32")
_KINDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "f16": (16, _FLOATS),
    "bf16": (16, ("f32",)),
    "tf32": (8, ("f32",)),
    **dict.fromkeys(("e4m3", "e5m2"), (32, _FLOATS)),
    **dict.fromkeys(("s8", "u8"), (32, ("s32",))),
}
"""Products along K and the types of D, by the type of A."""
_COLUMNS_OF_INTEGERS = {*range(8, 33, 8), 48, *range(64, 257, 16)}
"""Numbers of columns (N) that PTX allows for integers."""


@dataclass(frozen=True)
class GroupProduct:
    """A product of a warpgroup, D = A x B + D: N, K, types and saturation."""

    n: int
    k: int
    d: str
    a: str
    b: str
    saturates: bool

    @property
    def results(self) -> int:
        """Return the number of registers of a lane that hold D."""
        return self.n // (4 if self.d == "f16" else 2)

    @property
    def halves(self) -> bool:
        """Return whether A and B may be transposed in shared memory."""
        return self.a in {"f16", "bf16"}

    @property
    def scales(self) -> bool:
        """Return whether A and B may be negated."""
        return self.d != "s32"

    @property
    def operations(self) -> int:
        """Return the number of additions and multiplications of a warp."""
        return 2 * ROWS * self.n * self.k

    @property
    def peak(self) -> str:
        """Return the key of the product's peak rate."""
        return WGMMA_PEAK + PEAKS.get(self.a, "fp8")


def is_group_product(opcode: Opcode) -> bool:
    """Return whether it is a product of a warpgroup, emulated or not."""
    return opcode[:2] == ("wgmma", "mma_async")


def group_product_of(opcode: Opcode) -> GroupProduct | None:
    """Return what an instruction computes; None where the emulated device lacks it."""
    if not is_group_product(opcode) or opcode[2:4] != ("sync", "aligned"):
        return None
    rest = [part for part in opcode[4:] if part != "satfinite"]
    saturates = "satfinite" in opcode
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", rest[0]) if len(rest) == 4 else None
    if shape is None:
        return None
    n, k = int(shape[1]), int(shape[2])
    d, a, b = rest[1:]
    depth, sums = _KINDS.get(a, (0, ()))
    alike = a == b or {a, b} <= {"s8", "u8"} or {a, b} <= {"e4m3", "e5m2"}
    columns = n in _COLUMNS_OF_INTEGERS if d == "s32" else n in range(8, 257, 8)
    if k != depth or d not in sums or not alike or not columns or (saturates and d != "s32"):
        return None
    return GroupProduct(n, k, d, a, b, saturates)
