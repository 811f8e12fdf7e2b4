"""The products of tests/fixtures/tensor/wmma.cu, line by line, with operands and results."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensor_cases import BITS, MmaCase, expected, operands
from tensor_oracle import dot

Array = npt.NDArray[Any]
SOURCE = Path(__file__).parents[1] / "fixtures" / "tensor" / "wmma.cu"
ROWS = 8
FRAGMENTS = 3 * 16 * 32
"""What three fragments hold: A, B and C, each up to 16 elements of 32 lanes."""


@dataclass(frozen=True)
class WmmaCase:
    """One product: types as in PTX, layouts, and whether it is staged in shared memory."""

    kind: str
    c: str
    d: str
    m: int
    n: int
    k: int
    a_rows: bool
    b_rows: bool
    rows: bool
    """Of C and D."""
    least: int = 75

    @property
    def label(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}.{self.d}.{self.kind}.{self.c}"

    @property
    def product(self) -> MmaCase:
        return MmaCase(self.m, self.n, self.k, self.d, self.kind, self.kind, self.c, self.least)


def wmma_cases(capability: int) -> tuple[WmmaCase, ...]:
    """Those a compute capability has, in the order of the file."""
    found = (
        WmmaCase("f16", "f32", "f32", 16, 16, 16, True, True, True),
        WmmaCase("f16", "f16", "f16", 16, 16, 16, False, False, False),
        WmmaCase("f16", "f16", "f32", 32, 8, 16, True, False, True),
        WmmaCase("f16", "f32", "f16", 8, 32, 16, False, True, False),
        WmmaCase("s8", "s32", "s32", 16, 16, 16, True, False, True),
        WmmaCase("u8", "s32", "s32", 32, 8, 16, False, True, False),
        WmmaCase("s8", "s32", "s32", 8, 32, 16, True, False, False),
        WmmaCase("bf16", "f32", "f32", 16, 16, 16, True, True, True, 80),
        WmmaCase("bf16", "f32", "f32", 32, 8, 16, False, False, False, 80),
        WmmaCase("bf16", "f32", "f32", 8, 32, 16, True, True, True, 80),
        WmmaCase("tf32", "f32", "f32", 16, 16, 8, True, False, True, 80),
        WmmaCase("tf32", "f32", "f32", 16, 16, 8, False, True, False, 80),
        WmmaCase("f64", "f64", "f64", 8, 8, 4, True, False, True, 80),
        WmmaCase("f64", "f64", "f64", 8, 8, 4, False, True, False, 80),
    )
    return tuple(case for case in found if case.least <= capability)


def wmma_source(capability: int) -> str:
    """The file, for a compute capability."""
    return f"#define CAPABILITY {capability}\n{SOURCE.read_text()}"


def wmma_operands(case: WmmaCase) -> dict[str, Array]:
    """Encodings of A, B and C."""
    return operands(case.product, ROWS)


def wmma_input(capability: int) -> Array:
    """Bytes of all operands."""
    parts = []
    for case in wmma_cases(capability):
        given = wmma_operands(case)
        kinds = (
            (case.kind, "a", case.a_rows),
            (case.kind, "b", case.b_rows),
            (case.c, "c", case.rows),
        )
        blocks = [_stored(given[which], kind, rows) for kind, which, rows in kinds]
        parts.append(np.concatenate(blocks, axis=1).ravel())
    return np.concatenate(parts)


def _stored(matrices: Array, kind: str, rows: bool) -> Array:
    """Matrices as bytes, each line followed by 16 others."""
    lines = matrices if rows else matrices.swapaxes(1, 2)
    encoded = np.ascontiguousarray(lines.astype(f"u{BITS[kind] // 8}")).view(np.uint8)
    count, height, length = encoded.shape
    padded = np.full((count, height, length + 16), 0xA5, np.uint8)
    padded[:, :, :length] = encoded
    return padded.reshape(count, -1)


def wmma_result_bytes(case: WmmaCase) -> int:
    """Bytes of D, padding included."""
    lines, length = (case.m, case.n) if case.rows else (case.n, case.m)
    return lines * (length * BITS[case.d] // 8 + 16)


def wmma_results(capability: int, out: Array) -> dict[int, Array]:
    """Encodings of D of each case, from the bytes of all."""
    found: dict[int, Array] = {}
    at = 0
    for number, case in enumerate(wmma_cases(capability)):
        size = wmma_result_bytes(case)
        lines = case.m if case.rows else case.n
        block = out[at : at + ROWS * size].reshape(ROWS, lines, -1)[:, :, :-16]
        matrix = np.ascontiguousarray(block).view(f"u{BITS[case.d] // 8}")
        found[number] = matrix if case.rows else matrix.swapaxes(1, 2)
        at += ROWS * size
    return found


def wmma_expected(case: WmmaCase, capability: int) -> Array:
    """Encodings of D."""
    given = wmma_operands(case)
    if case.kind in ("f64", "s8", "u8"):
        return expected(case.product, capability, given)
    left, right = np.broadcast_arrays(
        given["a"][:, :, None, :], given["b"].swapaxes(1, 2)[:, None, :, :]
    )
    # ptxas makes instructions of four products out of a wmma on tf32.
    step = 4 if case.kind == "tf32" else case.k
    kinds = (case.kind, case.kind)
    return dot(capability, kinds, left, right, given["c"], (case.c, case.d), step)
