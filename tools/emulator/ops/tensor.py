"""Matrix instructions of a whole warp: the products, loads and stores of mma, wmma and ldmatrix.

An instruction without a rule here is refused: sparse operands, integers below eight bits, f16 in
m8n8k4, which no chip since Turing multiplies on tensor cores.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

Opcode = tuple[str, ...]
Shape = tuple[int, int, int]

ALIGNED = "aligned"
"""First part of the opcode that synchronises the whole warp before a matrix instruction."""
CHAIN = 6
"""Latency of a product in dependent additions (Sun et al. 2022, arXiv 2206.02874: 25 clocks for
m16n8k16 on an A100)."""

_BYTES = {"f64": 8, "f32": 4, "s32": 4, "tf32": 4, "f16": 2, "bf16": 2}
_ROUNDED = ("f16", "f32")
_OF_MMA: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (("m16n8k8", "m16n8k16"), _ROUNDED),
    "bf16": (("m16n8k8", "m16n8k16"), ("f32",)),
    "tf32": (("m16n8k4", "m16n8k8"), ("f32",)),
    "f64": (("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), ("f64",)),
    **dict.fromkeys(("s8", "u8"), (("m8n8k16", "m16n8k16", "m16n8k32"), ("s32",))),
    **dict.fromkeys(("e4m3", "e5m2"), (("m16n8k16", "m16n8k32"), _ROUNDED)),
}
_LARGE = ("m16n16k16", "m32n8k16", "m8n32k16")
_OF_WMMA: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (_LARGE, _ROUNDED),
    "bf16": (_LARGE, ("f32",)),
    "tf32": (("m16n16k8",), ("f32",)),
    "f64": (("m8n8k4",), ("f64",)),
    **dict.fromkeys(("s8", "u8"), (_LARGE, ("s32",))),
}
"""Shapes, and types of C and D, by the type of A."""

PEAKS = {"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64", "s8": "int8", "u8": "int8"}
"""Names of peak rates, by type of A; the others are fp8."""


def is_tensor(opcode: Opcode) -> bool:
    """Return whether a whole warp executes an instruction on matrices."""
    return opcode[0] in {"mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix"}


def is_product(opcode: Opcode) -> bool:
    """Return whether tensor cores execute it."""
    return opcode[0] == "mma" or opcode[:2] == ("wmma", "mma")


@dataclass(frozen=True)
class Product:
    """A matrix product of a warp: shape, types of D, A, B and C, and saturation."""

    shape: Shape
    d: str
    a: str
    b: str
    c: str
    saturates: bool
    wmma: bool

    @property
    def operations(self) -> int:
        """Return the number of additions and multiplications of the product."""
        m, n, k = self.shape
        return 2 * m * n * k

    @property
    def peak(self) -> str:
        """Return the key of the product's peak rate in `Peaks.tensor_dense_tflops`."""
        name = PEAKS.get(self.a, "fp8")
        return f"{name}_acc16" if self.d == "f16" else name


def product_of(opcode: Opcode) -> Product | None:
    """Return the matrix product of an instruction; None where the emulated device lacks it."""
    wmma = opcode[0] == "wmma"
    rest = [part for part in opcode[2 if wmma else 1 :] if part not in {"sync", "aligned"}]
    narrow = "kind::f8f6f4" in rest
    known = {"satfinite", "kind::f8f6f4", *(("rn",) if wmma else ())}
    rest = [part for part in rest if part not in known]
    shapes = _shapes(rest)
    types = [part for part in rest if part not in {"row", "col", *dict(shapes)}]
    layouts = [part for part in rest if part in {"row", "col"}]
    if len(shapes) != 1 or len(layouts) != 2 or (not wmma and layouts != ["row", "col"]):
        return None
    if wmma and len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4:
        return None
    d, a, b, c = types
    spellings, sums = (_OF_WMMA if wmma else _OF_MMA).get(a, ((), ()))
    ((spelled, shape),) = shapes
    saturates = "satfinite" in opcode
    fits = spelled in spellings and c in sums and d in sums and _alike(a, b)
    same = c == d or (wmma and a == "f16")
    if not fits or not same or (saturates and d != "s32") or (narrow and a[0] != "e"):
        return None
    return Product(shape, d, a, b, c, saturates, wmma)


def _alike(a: str, b: str) -> bool:
    return a == b or {a, b} <= {"s8", "u8"} or {a, b} <= {"e4m3", "e5m2"}


def _shapes(opcode: Iterable[str]) -> list[tuple[str, Shape]]:
    """Return the parts of an opcode that name a shape, each with its M, N and K."""
    found = [(part, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", part)) for part in opcode]
    return [(part, (int(m[1]), int(m[2]), int(m[3]))) for part, m in found if m]


def held(elements: int, kind: str) -> int:
    """Return the registers of a lane that hold its part of a matrix with this many elements."""
    return elements * min(_BYTES.get(kind, 1), 4) // (32 * 4)


@dataclass(frozen=True)
class Tile:
    """A matrix that wmma loads or stores."""

    shape: Shape
    role: str
    element: str
    along_rows: bool
    space: str

    @property
    def elements(self) -> tuple[int, int]:
        """Return rows and columns."""
        m, n, k = self.shape
        return {"a": (m, k), "b": (k, n)}.get(self.role, (m, n))

    @property
    def registers(self) -> int:
        """Return the number of registers of a lane that hold its part of the tile."""
        if self.role in {"a", "b"} and self.element == "f16":
            return 8
        rows, columns = self.elements
        return held(rows * columns, self.element)

    @property
    def access_bytes(self) -> int:
        """Return the bytes that a lane moves in one access of a tile, as in `tensor_memory.cpp`."""
        size = _BYTES.get(self.element, 1)
        if self.role == "accumulator":
            pairs = self.along_rows != (self.shape[1] == 32)
            return 4 if size == 2 else size * (2 if pairs else 1)
        if size > 2 or (size == 1 and (self.role == "a") != self.along_rows):
            return size
        return 16 if self.space == "shared" else 4

    @property
    def accesses(self) -> int:
        """Return the accesses of a warp."""
        rows, columns = self.elements
        size = rows * columns * _BYTES.get(self.element, 1)
        return max(1, size // (32 * self.access_bytes))


def tile_of(opcode: Opcode, space: str) -> Tile | None:
    """Return the matrix of a `wmma.load` or `wmma.store`; None where the device lacks it."""
    role = {"a": "a", "b": "b", "c": "accumulator", "d": "accumulator"}.get(opcode[2], "")
    element = opcode[-1]
    spelled, shape = next(iter(_shapes(opcode)), ("", (0, 0, 0)))
    if role == "accumulator":
        fits = any(spelled in of and element in sums for of, sums in _OF_WMMA.values())
    else:
        fits = element in _OF_WMMA and spelled in _OF_WMMA[element][0]
    if not fits or not role or not {"row", "col"} & set(opcode):
        return None
    return Tile(shape, role, element, "row" in opcode, space)


def instructions_of(opcode: Opcode) -> int:
    """Return approximately how many instructions ptxas makes of a PTX instruction: several for a
    wmma."""
    if opcode[0] != "wmma":
        return 1
    if opcode[1] == "mma":
        found = product_of(opcode)
        return 1 if found is None else max(1, found.shape[0] * found.shape[1] // 128)
    space = next((part for part in opcode if part in {"global", "shared", "shared::cta"}), "")
    tile = tile_of(opcode, space.partition("::")[0])
    return 1 if tile is None else tile.accesses
