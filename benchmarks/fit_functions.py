"""Fits the tables of the approximate functions to what a GPU returned.

    python benchmarks/constants_on_gpu.py functions --out FOLDER
    python benchmarks/fit_functions.py FOLDER

A special-function unit interpolates by a parabola in each of 64 or 128 equal parts of its input,
so a parabola fitted to the results of each part gives nearly all results bit for bit, and the
others one unit in the last place off. Writes `tools/emulator/runtime/emu/approx_tables.h`, and
some of the results into `tests/fixtures/recorded/special_functions_h200.npz`.
"""

import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import record

HEADER = record.ROOT / "tools/emulator/runtime/emu/approx_tables.h"
SAMPLES = record.ROOT / "tests/fixtures/recorded/special_functions_h200.npz"
TURN = float(np.float32(0.15915494))
TANH_FIRST, TANH_LAST = 119, 130
"""Exponents of tanh's parts: below, a result is its input; above, it is 1."""
FARTHEST = 127
"""A distance in last places of as much, or more, was cut when it was recorded."""
Array = npt.NDArray[Any]


class Recorded:
    """The files of `constants_on_gpu.py functions`."""

    def __init__(self, folder: Path) -> None:
        self._files = [zipfile.ZipFile(path) for path in sorted(folder.glob("*.zip"))]
        self.samples: dict[str, Array] = {}

    def read(self, name: str, kind: Any) -> Array:
        """Return the array of a file."""
        file = next(one for one in self._files if name in one.namelist())
        return np.frombuffer(file.read(name), kind)

    def results(
        self, name: str, first: int, shift: int, exact: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        """Return inputs, and the results that lie so far from the rounded exact ones."""
        far = self.read(f"{name}.{first:08x}.{shift}.i8", np.int8)
        inputs = inputs_from(first, shift, len(far))
        with np.errstate(all="ignore"):
            right = exact(inputs.astype(np.float64)).astype(np.float32)
        found = unplaced(placed(right) + far)
        self.keep(name, inputs[np.abs(far) < FARTHEST], found[np.abs(far) < FARTHEST])
        return inputs, found

    def raw(self, name: str, first: int, shift: int) -> tuple[Array, Array]:
        """Return inputs and results that were written whole."""
        found = self.read(f"{name}.{first:08x}.{shift}.u32", np.uint32).view(np.float32)
        inputs = inputs_from(first, shift, len(found))
        self.keep(name, inputs, found)
        return inputs, found

    def keep(self, name: str, inputs: Array, found: Array) -> None:
        """Keep some results for the test."""
        step = max(1, len(inputs) // 1999)
        pair = np.stack([inputs[::step].view(np.uint32), found[::step].view(np.uint32)])
        known = self.samples.get(name)
        self.samples[name] = pair if known is None else np.concatenate([known, pair], axis=1)


def inputs_from(first: int, shift: int, count: int) -> Array:
    """Return floats whose bits stand a power of two apart."""
    bits = np.uint32(first) + (np.arange(count, dtype=np.uint32) << np.uint32(shift))
    return bits.view(np.float32)


def placed(values: Array) -> Array:
    """Return the places of floats on the line of all floats."""
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))


def unplaced(places: Array) -> Array:
    """Return the floats at places."""
    return np.where(places >= 0, places, -places | 0x80000000).astype(np.uint32).view(np.float32)


def parabolas(at: Array, values: Array, parts: int) -> Array:
    """Fit a parabola to each part; `at` counts in parts."""
    part = np.minimum(at.astype(np.int64), parts - 1)
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(parts + 1))
    found = np.zeros((parts, 3))
    for number in range(parts):
        mine = order[ends[number] : ends[number + 1]]
        found[number] = np.polyfit(at[mine] - number, values[mine].astype(np.float64), 2)[::-1]
    return found


def cut(values: Array) -> Array:
    """Round to floats towards zero."""
    rounded = values.astype(np.float32)
    places = placed(rounded)
    beyond = np.abs(rounded.astype(np.float64)) > np.abs(values)
    return unplaced(np.where(beyond, places - np.sign(places), places))


def fit(recorded: Recorded) -> dict[str, Array]:
    """Fit every table."""
    tables: dict[str, Array] = {}
    one = 0x3F800000
    for name, exact, bits, binades in (
        ("rcp", lambda a: 1 / a, 7, 1),
        ("rsqrt", lambda a: 1 / np.sqrt(a), 6, 2),
        ("sqrt", np.sqrt, 6, 2),
    ):
        inputs, found = (part[::3] for part in recorded.results(name, one, 0, exact))
        at = (inputs.view(np.uint32) - np.uint32(one)) / float(1 << (23 - bits))
        tables[name] = parabolas(at, found, binades << bits)
    inputs, found = (
        part[1 << 23 :: 3] for part in recorded.results("ex2", one - (1 << 23), 0, np.exp2)
    )
    tables["ex2"] = parabolas((inputs.astype(np.float64) - 1) * 64, found / 2.0, 64)
    recorded.results("ex2", 0xB3000000, 5, np.exp2)
    recorded.results("ex2", 0x40000000, 4, np.exp2)
    inputs, found = recorded.raw("lg2", 0x3F000000, 5)
    half = len(inputs) // 2
    tables["lg2"] = parabolas((inputs[half:].astype(np.float64) - 1) * 64, found[half:], 64)
    recorded.results("lg2", 0x44800000, 2, np.log2)
    # Of the angles below 2, which complete the turn, the distances near the zero say nothing.
    some, there = (part[:: 1 << 5] for part in recorded.results("cos", one, 0, np.cos))
    inputs, found = recorded.raw("cos", 0x40000000, 5)
    rest = (some > 1.6) & (some < 2)
    inputs, found = np.concatenate([inputs, some[rest]]), np.concatenate([found, there[rest]])
    turns = cut(inputs.astype(np.float64) * TURN).astype(np.float64) + 0.25
    tables["sine"] = parabolas((turns - np.floor(turns)) * 256, found, 256)
    inputs, found = recorded.raw("tanh", 0x39000000, 6)
    exponents = inputs.view(np.uint32) >> 23
    chosen = (exponents >= TANH_FIRST) & (exponents <= TANH_LAST)
    bits_of = inputs[chosen].view(np.uint32) - np.uint32(TANH_FIRST << 23)
    count = 16 * (TANH_LAST - TANH_FIRST + 1)
    tables["tanh"] = parabolas(bits_of / float(1 << 19), found[chosen], count)
    for name in ("ex2_f16", "tanh_f16", "ex2_bf16", "tanh_bf16"):
        recorded.samples[name] = recorded.read(f"{name}.u16", np.uint16)
    for name in ("div_approx", "div_full"):
        recorded.samples[name] = recorded.read(f"{name}.i8", np.int8)[: 1 << 13]
    return tables


def header(tables: dict[str, Array]) -> str:
    """Return the C++ of the tables."""
    lines = [
        "// Parabolas of the special-function unit, fitted to the results of an H200 by",
        "// benchmarks/fit_functions.py: value, slope and curvature of a part, by place in it.",
        "#pragma once",
        "",
        "namespace emu {",
        "",
        "// clang-format off",
    ]
    for name, table in tables.items():
        lines.append(f"inline constexpr double k_{name}[{len(table)}][3] = {{")
        lines += ["  {" + ", ".join(_spelled(value) for value in row) + "}," for row in table]
        lines += ["};"]
    return "\n".join([*lines, "// clang-format on", "", "}  // namespace emu", ""])


def _spelled(value: float) -> str:
    """Spell a number to the 40 bits behind the point that count."""
    return f"{'-' if value < 0 else ''}0x{abs(round(value * 2.0**40)):x}p-40"


if __name__ == "__main__":
    source = Recorded(Path(sys.argv[1]))
    HEADER.write_text(header(fit(source)))
    arrays: Any = source.samples
    np.savez_compressed(SAMPLES, **arrays)
    print(HEADER.stat().st_size, SAMPLES.stat().st_size)
