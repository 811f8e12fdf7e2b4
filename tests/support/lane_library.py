"""Every lane operation as a C++ function over arrays, built with the flags of generated code."""

import ctypes
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus_sample import sample

from cuda_llm.tools import emulator
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.emulator.ops.table import operations as table_operations
from cuda_llm.tools.native import cache_folder, find_gxx
from cuda_llm.tools.native.cache import exclusive_access

LANES = 32
Column = npt.NDArray[np.uint64]
RUNTIME = Path(emulator.__file__).resolve().parent / "runtime"
BASE_FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}"]
FLAGS = [
    *BASE_FLAGS,
    *("-O1", "-ftree-vectorize", "-march=native", "-ffp-contract=off"),
    *("-fno-math-errno", "-fno-trapping-math", "-fPIC"),
]
WIDE_FAMILIES = {"cvt", "set", "setp"}
"""Families of many spellings, each judged on fewer rows; few of them are judged in every run."""
CHUNKS = 2
"""Parts compiled at the same time."""
C_BYTES = {"bool": 1, "float": 4, "double": 8}


def judged_operations(named: Sequence[str] = ()) -> dict[str, LaneOp]:
    """Operations that this run judges: some of each family, and those that are `named`.

    What tells the operations of a family apart, types and rounding and saturation and comparison,
    is one place in a function for all of them.
    """
    table = table_operations()

    chosen = {*sample(table, lambda spelling: spelling.split(".")[0], every=24), *named}
    return {spelling: op for spelling, op in table.items() if spelling in chosen}


def bytes_of(t: str) -> int:
    """Bytes of one value of a PTX type."""
    c = C_TYPES[t]
    return C_BYTES.get(c) or int("".join(d for d in c if d.isdigit())) // 8


def define(symbol: str, op: LaneOp) -> str:
    """A function that applies `op` to arrays. The loop over lanes stands on a line of its own."""
    lines = [f"void {symbol}(int warps, void* const* results, const void* const* arguments) {{"]
    lines.append("for (int w = 0; w < warps; ++w) {")
    passed = []
    for i, t in enumerate(op.arguments):
        if t == "pred":
            lines.append(f"uint32_t m{i} = static_cast<const uint32_t*>(arguments[{i}])[w];")
            passed.append(f"(m{i} >> l & 1) != 0")
        else:
            c = f"const {C_TYPES[t]}*"
            lines.append(f"{c} __restrict a{i} = static_cast<{c}>(arguments[{i}]) + {LANES} * w;")
            passed.append(f"a{i}[l]")
    body, after = [], []
    for i, (t, function) in enumerate(zip(op.results, op.functions, strict=True)):
        value = f"{function}({', '.join(passed)})"
        if t == "pred":
            lines.append(f"uint32_t p{i} = 0;")
            body.append(f"p{i} |= uint32_t({value}) << l;")
            after.append(f"static_cast<uint32_t*>(results[{i}])[w] = p{i};")
        else:
            c = f"{C_TYPES[t]}*"
            lines.append(f"{c} __restrict r{i} = static_cast<{c}>(results[{i}]) + {LANES} * w;")
            body.append(f"r{i}[l] = {value};")
    lines.append(f"for (int l = 0; l < {LANES}; ++l) {{ {' '.join(body)} }}  // {symbol}")
    return "\n".join([*lines, *after, "}", "}", ""])


def compile_parts(parts: Sequence[str], flags: Sequence[str], target: Path, report: Path) -> None:
    """Compiles the parts side by side and links them with the runtime's rounding."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        scratch = Path(folder)
        running = []
        for i, text in enumerate(parts):
            source = scratch / f"part{i}.cpp"
            source.write_text(text)
            command = [find_gxx(), *flags, "-c", str(source), "-o", str(source.with_suffix(".o"))]
            command.append(f"-fopt-info-vec-optimized={source.with_suffix('.txt')}")
            running.append(subprocess.Popen(command))
        assert [p.wait() for p in running] == [0] * len(running)
        objects = [str(scratch / f"part{i}.o") for i in range(len(parts))]
        rounding = str(RUNTIME / "device" / "rounding.cpp")
        linked = scratch / "linked"
        link = [] if "-fPIC" not in flags else ["-shared"]
        command = [find_gxx(), *flags, *link, *objects, rounding, "-o", str(linked)]
        subprocess.run(command, check=True)
        report.write_text("\n".join(_vectorised(scratch, i, t) for i, t in enumerate(parts)))
        linked.replace(target)


def _vectorised(scratch: Path, part: int, text: str) -> str:
    """Symbols whose loop over lanes g++ says it vectorised, one a line."""
    lines = text.splitlines()
    said = (scratch / f"part{part}.txt").read_text()
    numbers = set(re.findall(rf"part{part}\.cpp:(\d+):\d+: optimized: loop vectorized", said))
    symbols = (re.search(r"// (\w+)$", lines[int(number) - 1]) for number in numbers)
    return "\n".join(found[1] for found in symbols if found)


@dataclass(frozen=True)
class LaneLibrary:
    """The operations of a table, callable on columns of raw bits."""

    path: Path
    symbols: Mapping[str, str]
    operations: Mapping[str, LaneOp]
    vectorised: frozenset[str]
    """Spellings whose loop became vector code."""

    @cached_property
    def _loaded(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))

    def columns(self, spelling: str, operands: Sequence[Column]) -> list[Column]:
        """Results of columns of raw operands, a whole number of warps long."""
        op = self.operations[spelling]
        arguments = [
            np.packbits(column.astype(bool), bitorder="little").view(np.uint32)
            if t == "pred"
            else column.astype(f"u{bytes_of(t)}")
            for column, t in zip(operands, op.arguments, strict=True)
        ]
        rows = len(operands[0])
        results = [
            np.zeros(
                rows // LANES if t == "pred" else rows,
                dtype=f"u{bytes_of(t) if t != 'pred' else 4}",
            )
            for t in op.results
        ]
        function = self._loaded[self.symbols[spelling]]
        function(rows // LANES, _pointers(results), _pointers(arguments))
        return [
            np.unpackbits(column.view(np.uint8), bitorder="little").astype(np.uint64)
            if t == "pred"
            else column.astype(np.uint64)
            for column, t in zip(results, op.results, strict=True)
        ]

    def apply(self, spelling: str, rows: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Results, as raw bits, of every row of raw operands."""
        op = self.operations[spelling]
        warps = -(-len(rows) // LANES)
        padded = [*rows, *[rows[-1]] * (warps * LANES - len(rows))]
        arguments = [_column([row[i] for row in padded], t) for i, t in enumerate(op.arguments)]
        results = [_column([0] * len(padded), t) for t in op.results]
        function = self._loaded[self.symbols[spelling]]
        function(warps, _pointers(results), _pointers(arguments))
        columns = [_values(column, t) for column, t in zip(results, op.results, strict=True)]
        return list(zip(*columns, strict=True))[: len(rows)]


def _column(values: Sequence[int], t: str) -> "np.ndarray[tuple[int], np.dtype[np.uint64]]":
    if t == "pred":
        masks = [
            sum(values[i + lane] << lane for lane in range(LANES))
            for i in range(0, len(values), LANES)
        ]
        return np.array(masks, dtype=np.uint32)
    return np.array(values, dtype=np.uint64).astype(f"u{bytes_of(t)}")


def _values(column: "np.ndarray[tuple[int], np.dtype[np.uint64]]", t: str) -> list[int]:
    values: list[int] = column.tolist()
    if t == "pred":
        return [mask >> lane & 1 for mask in values for lane in range(LANES)]
    return values


def _pointers(
    columns: Sequence[npt.NDArray[Any]],
) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(columns))(*(column.ctypes.data for column in columns))


def build_library(operations: Mapping[str, LaneOp]) -> LaneLibrary:
    """Builds the library once for each content of the table and the headers, whoever else asks."""
    symbols: dict[str, str] = {}
    by_meaning: dict[object, str] = {}
    bodies: list[str] = []
    for spelling, op in operations.items():
        meaning = (op.functions, op.results, op.arguments)
        if meaning not in by_meaning:
            by_meaning[meaning] = f"op{len(bodies)}"
            bodies.append(define(by_meaning[meaning], op))
        symbols[spelling] = by_meaning[meaning]
    head = '#include "emu/arith.h"\nextern "C" {\n'
    parts = [head + "".join(bodies[i::CHUNKS]) + "}\n" for i in range(CHUNKS)]
    digest = hashlib.blake2b("".join(parts).encode(), digest_size=12)
    for header in [*sorted((RUNTIME / "emu").glob("*.h")), RUNTIME / "device" / "rounding.cpp"]:
        digest.update(header.read_bytes())
    target = cache_folder("native", f"lanes-{digest.hexdigest()}") / "lanes.so"
    report = target.with_suffix(".txt")
    with exclusive_access(target.parent, "building"):
        if not target.exists():
            compile_parts(parts, FLAGS, target, report)
    vectorised = set(report.read_text().split())
    return LaneLibrary(
        path=target,
        symbols=symbols,
        operations=operations,
        vectorised=frozenset(s for s, symbol in symbols.items() if symbol in vectorised),
    )
