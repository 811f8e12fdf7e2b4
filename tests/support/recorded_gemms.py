"""GEMMs, reductions in clusters and tiles recorded on an H200, and what NumPy makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tensor_cases import MmaCase, cases_for, expected, pack, source
from tensor_oracle import FORMATS, dot
from tile_cases import PARTS, WORDS, is_wild, tile_expected, tile_source, tile_table

Array = npt.NDArray[Any]
FIXTURES = Path(__file__).parents[1] / "fixtures"
RECORD = "gemms_h200.npz"
RECORDED = FIXTURES / "recorded" / RECORD
CAPABILITY = 90
SIZE = 96
"""Rows and columns of the GEMMs on warps."""
UNTOUCHED = 0xA5A5A5A5


@dataclass(frozen=True)
class Program:
    """One call of `solve(given..., left, numbers...)`."""

    name: str
    source: str
    given: tuple[Array, ...]
    left: Array
    """What the result holds before."""
    numbers: tuple[int, ...]
    expected: Callable[[], Array]
    emulated: bool = True
    """Whether the emulated device runs it to its end, and does what the hardware does."""


def _gemm(mode: int, name: str) -> Program:
    rng = np.random.default_rng([SIZE, 13])
    scale = np.exp2(rng.integers(-6, 4, (2, SIZE, SIZE)))
    a, b = (rng.standard_normal((2, SIZE, SIZE)) * scale).astype(np.float16)
    text = (FIXTURES / "tensor/gemm.cu").read_text()
    left = np.full((SIZE, SIZE), UNTOUCHED, np.uint32)
    return Program(name, text, (a, b), left, (SIZE, mode), lambda: _product(a, b))


def _product(a: Array, b: Array) -> Array:
    left, right = np.broadcast_arrays(
        a.view(np.uint16)[:, None, :], b.view(np.uint16).T[None, :, :]
    )
    nothing = np.zeros((SIZE, SIZE), np.uint32)
    kinds = ("f16", "f16")
    return np.asarray(dot(CAPABILITY, kinds, left, right, nothing, ("f32", "f32")), np.uint32)


CLUSTERS, BLOCKS, THREADS = 16, 8, 256
CLUSTER_MODES = (
    "gathered",
    "exchanged",
    "counted",
    "sent",
    "copied to 0, 1, 3",
    "copied to 0, 2, 3",
    "tile",
)


def _cluster(mode: int) -> Program:
    rng = np.random.default_rng(17)
    rows = rng.standard_normal((CLUSTERS, 8192)) * np.exp2(rng.integers(-8, 8, (CLUSTERS, 8192)))
    table = rows.astype(np.float32)
    words = {1: CLUSTERS * BLOCKS}.get(mode, CLUSTERS) if mode < 4 else 4 * 1024
    left = np.full(words, UNTOUCHED, np.uint32)
    text = (FIXTURES / "recorded/clusters.cu").read_text()
    made = (lambda: _reduced(mode, table)) if mode < 4 else (lambda: _copied(mode, table))
    return Program(f"cluster{mode}", text, (table,), left, (mode,), made)


def _reduced(mode: int, rows: Array) -> Array:
    """Sums in the order the kernels add: threads, warps, blocks."""
    parts = rows.reshape(CLUSTERS, BLOCKS, -1, THREADS)
    sums = np.zeros(parts[:, :, 0].shape, np.float32)
    for n in range(parts.shape[2]):
        sums = sums + parts[:, :, n]
    lanes = sums.reshape(CLUSTERS, BLOCKS, THREADS // 32, 32)
    for step in (16, 8, 4, 2, 1):
        lanes = lanes[..., :step] + lanes[..., step : 2 * step]
    blocks = _in_order(lanes[..., 0])
    if mode == 2:
        return np.asarray(blocks.view(np.uint32).sum(axis=1, dtype=np.uint32))
    if mode == 1:
        for step in range(3):
            blocks = blocks + blocks[:, np.arange(BLOCKS) ^ 1 << step]
        return blocks.view(np.uint32).ravel()
    return _in_order(blocks).view(np.uint32)


def _in_order(parts: Array) -> Array:
    total = np.zeros(parts.shape[:-1], np.float32)
    for n in range(parts.shape[-1]):
        total = total + parts[..., n]
    return total


def _copied(mode: int, table: Array) -> Array:
    words = table.view(np.uint32).ravel()
    found = np.full((4, 1024), UNTOUCHED, np.uint32)
    brought = words[256 : 256 + 1024]
    if mode > 4:
        tile = np.zeros((32, 32), np.uint32)
        tile[3:] = words[: 64 * 64].reshape(64, 64)[:29, 16:48]
        units = tile.reshape(32, 8, 4)
        line = np.arange(32)[:, None]
        brought = units[line, np.arange(8)[None, :] ^ line % 8].ravel()
    for rank in (0, 2, 3) if mode == 5 else (0, 1, 3):
        found[rank] = brought
    return found.ravel()


def _base_offsets(everything: bool) -> Program:
    text = (FIXTURES / "recorded/base_offsets.cu").read_text()
    left = np.full(3 * 64 * 128, UNTOUCHED, np.uint32)
    name = "all_starts" if everything else "base_offsets"
    nothing = np.zeros(4, np.float32)
    return Program(
        name,
        text,
        (nothing,),
        left,
        (int(everything),),
        lambda: _units(everything),
        emulated=not everything,
    )


def _units(everything: bool) -> Array:
    """Numbers of the 16 bytes that A is read from, as PTX has the base offset."""
    found = np.full((3, 8, 8, 64, 2), UNTOUCHED, np.uint32)
    for swizzle, start, base in np.ndindex(3, 8, 8):
        row = 128 >> swizzle
        if not everything and (start - base) * 128 % (8 * row) != 0:
            continue
        lines = np.arange(64)[:, None] * row + np.arange(2)[None, :] * 16
        at = start * 128 + lines
        at = at ^ (((at >> 7) - base) & (row // 16 - 1)) << 4
        found[swizzle, start, base] = (at >> 4).astype(np.float32).view(np.uint32)
    return found.ravel()


SMALL_ROWS = 16


def small_cases() -> tuple[MmaCase, ...]:
    """Floating products of mma.sync that are cut off or rounded."""
    return tuple(case for case in cases_for(CAPABILITY) if case.d in ("f16", "f32"))


@cache
def small_operands(case: MmaCase) -> dict[str, Array]:
    """Products near the end of what a sum can hold, and sums that round to zero from below.

    Rows 0 to 7: products about the last place, positive ones, then of both signs. Rows 8 to 11: few
    and negative ones beside zeros of both signs. Rows 12 to 15: as the first, but with C.
    """
    rng = np.random.default_rng([case.k, *map(ord, case.a + case.b + case.d)])
    last = -24 if case.d == "f16" else -149
    shapes = {"a": (case.m, case.k), "b": (case.k, case.n), "c": (case.m, case.n)}
    found = {}
    for which, shape in shapes.items():
        kind = getattr(case, which)
        form = FORMATS[kind]
        lowest = 1 - form.bias - form.fraction
        size = (SMALL_ROWS, *shape)
        if which == "c":
            value = np.ldexp(rng.integers(0, 4, size).astype(float), last)
            value[:8] = 0
            value[8:12] = 0
            value *= rng.choice([1.0, -1.0], size)
        else:
            middle = last // 2 if which == "a" else last - last // 2
            fraction = 1 + rng.integers(0, 2**form.fraction, size) / 2**form.fraction
            value = np.ldexp(fraction, middle - rng.integers(0, 4, size))
            value = np.where(rng.random(size) < 0.1, np.ldexp(1.0, lowest), value)
            value[4:8] *= rng.choice([1.0, -1.0], size)[4:8]
            value[8:12] *= (rng.random(size) < 0.4)[8:12]
            if which == "a":
                value[8:12] *= -1
        found[which] = _encoded(kind, value, lowest)
    return found


def _encoded(kind: str, value: Array, lowest: int) -> Array:
    """Encodings of the nearest numbers that are no larger, subnormal ones included."""
    form = FORMATS[kind]
    size = np.abs(value)
    _, exponent = np.frexp(np.where(size == 0, 1.0, size))
    exponent = np.maximum(exponent - 1, 1 - form.bias)
    significand = np.floor(np.ldexp(size, form.fraction - exponent)).astype(np.int64)
    field = np.where(significand >> form.fraction > 0, exponent + form.bias, 0)
    bits = field << form.fraction | significand & (2**form.fraction - 1)
    bits |= np.signbit(value).astype(np.int64) << (form.width - 1)
    return np.asarray(bits << (13 if kind == "tf32" else 0), np.uint64)


@cache
def end_operands(case: MmaCase) -> dict[str, Array]:
    """One product at the sum's last place, or half of it where it is rounded, and few far below.

    Whether those count is decided by the least exponent that terms are aligned to.
    """
    rng = np.random.default_rng([case.k, 3, *map(ord, case.a + case.b + case.d)])
    half = case.d == "f16"
    last = -25 if half else -149
    form = FORMATS[case.a]
    lowest = 1 - form.bias - form.fraction
    a = np.zeros((SMALL_ROWS, case.m, case.k))
    b = np.zeros((SMALL_ROWS, case.k, case.n))
    depth = (12 if half else 18) if case.a in ("f16", "bf16") else 14
    for values in (a, b):
        far = np.maximum(last // 2 - 1 - rng.integers(0, depth, values.shape), lowest)
        values[...] = np.ldexp(1.0, far) * (rng.random(values.shape) < 0.5)
    a *= rng.choice([-1.0, 1.0], a.shape) if half else -1.0
    a[:, :, 0] = np.ldexp(1.0, last // 2)
    b[:, 0, :] = np.ldexp(rng.choice([1.0, 3.0], b[:, 0, :].shape), last - last // 2)
    c = np.zeros((SMALL_ROWS, case.m, case.n), np.uint64)
    return {"a": _encoded(case.a, a, lowest), "b": _encoded(case.b, b, lowest), "c": c}


def end_cases() -> tuple[MmaCase, ...]:
    """Those whose products reach below the last place of their sums."""
    fp8 = ("e4m3", "e5m2")
    return tuple(
        case for case in small_cases() if case.a not in fp8 and (case.a != "f16" or case.d == "f16")
    )


def _sums(
    name: str, cases: tuple[MmaCase, ...], given: Callable[[MmaCase], dict[str, Array]]
) -> Program:
    packed = []
    for case in cases:
        matrices = given(case)
        packed.append(np.concatenate([pack(case, one, matrices[one]) for one in "abc"], axis=1))
    words = np.concatenate([block.ravel() for block in packed])
    size = sum(SMALL_ROWS * 32 * case.words("d") for case in cases)
    left = np.full(size, UNTOUCHED, np.uint32)

    def made() -> Array:
        sums = [(case, expected(case, CAPABILITY, given(case))) for case in cases]
        return np.concatenate([pack(case, "d", one).ravel() for case, one in sums])

    return Program(name, source(cases), (words,), left, (SMALL_ROWS,), made)


def _tiles(part: str, number: int) -> Program:
    cases, table = PARTS[part], tile_table(is_wild(part))
    left = np.full(len(cases) * WORDS, UNTOUCHED, np.uint32)

    def made() -> Array:
        return np.concatenate([tile_expected(case, table) for case in cases])

    legal = part.split()[-1] not in ("unaligned", "before")
    return Program(part, tile_source(), (table,), left, (number,), made, emulated=legal)


NOT_RECORDED = {
    "unaligned": "an H200 calls the instruction illegal, as was expected",
    "before": "an H200 calls it illegal to write a tile from a negative coordinate on",
    "outside": "these were in one program with those that are called illegal, which ended it",
}
"""Why nothing is recorded of a program, by the last word of its name."""
REFUSED = frozenset(
    (
        "unaligned",
        *(f"stores {kind}" for kind in ("u8", "u32", "f16", "f32")),
        *(f"reductions {kind}" for kind in ("u32", "s32", "u64", "s64", "f16", "f32", "bf16")),
    )
)
"""Programs that ended with cudaErrorIllegalInstruction on an H200, when each had all tiles that are
not inside the tensor. All others of `PARTS` did not."""


def is_recorded(name: str) -> bool:
    last = name.split()[-1]
    return last not in NOT_RECORDED or (
        last == "outside" and f"{name.removesuffix(last)}before" not in PARTS
    )


@cache
def programs() -> dict[str, Program]:
    """All of them, by name."""
    found = [_gemm(n, name) for n, name in enumerate(("wmma", "mma_swizzled", "mma_plain"))]
    found += [_cluster(mode) for mode in range(len(CLUSTER_MODES))]
    found.append(_sums("small", small_cases(), small_operands))
    found.append(_sums("ends", end_cases(), end_operands))
    found += [_base_offsets(False), _base_offsets(True)]
    found += [_tiles(part, number) for number, part in enumerate(PARTS)]
    return {one.name: one for one in found}
