"""The arithmetic under the address and undefined-behaviour sanitizers."""

import subprocess
from pathlib import Path

from corpus_sample import sample
from lane_library import BASE_FLAGS, C_BYTES, LANES, RUNTIME, define
from lane_values import edges, rows_for

from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.emulator.ops.table import operations
from cuda_llm.tools.native import find_gxx

SANITIZE = [
    "-O0",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=all",
]
SAME_CODE = {"set", "setp", "selp", "mov", "and", "or", "xor", "not"}
"""Families in which nothing can be undefined: comparisons and plain logic."""
VARIANTS = {"ftz", "sat", "rm", "rp", "relu", "xorsign", "NaN", "satfinite", "rmi", "rpi"}
"""Modifiers whose code is that of the plain form or of the other direction."""


def worth_running() -> dict[str, LaneOp]:
    """One operation for each kind of code."""
    chosen: dict[object, tuple[str, LaneOp]] = {}
    for spelling, op in operations().items():
        words = spelling.split(".")
        integer_saturation = "sat" in words and words[-1][0] in "su"
        if words[0] in SAME_CODE or (VARIANTS & set(words) and not integer_saturation):
            continue
        chosen.setdefault((op.functions, op.arguments), (spelling, op))
    return dict(sample(chosen.values(), kind=lambda one: one[0].split(".")[0], every=12))


def program(ops: dict[str, LaneOp]) -> str:
    """A program that applies every operation to its edge values."""
    lines = ['#include "emu/arith.h"']
    calls = []
    for i, (spelling, op) in enumerate(ops.items()):
        rows = rows_for(spelling, op, 256)[:256]
        lines.append(define(f"op{i}", op))
        lines.append(f"void run{i}() {{")
        for j, t in enumerate(op.arguments):
            values = [row[j] for row in rows]
            if t == "pred":
                values = values[: len(values) // LANES]
            c = "uint64_t" if C_BYTES.get(C_TYPES[t], 0) != 1 else "uint32_t"
            body = ", ".join(f"{v}u" for v in values)
            lines.append(f"static const {c} raw{j}[] = {{{body}}};")
            if t == "pred":
                lines.append(f"auto& a{j} = raw{j};")
            else:
                lines.append(f"{C_TYPES[t]} a{j}[256];")
                lines.append(
                    f"for (int k = 0; k < 256; ++k)"
                    f" a{j}[k] = emu::from_bits<{C_TYPES[t]}>(raw{j}[k]);"
                )
        for j, t in enumerate(op.results):
            c = "uint32_t" if t == "pred" else C_TYPES[t]
            lines.append(f"{c} r{j}[256];")
        arguments = ", ".join(f"a{j}" for j in range(len(op.arguments)))
        results = ", ".join(f"r{j}" for j in range(len(op.results)))
        lines.append(f"const void* arguments[] = {{{arguments}}};")
        lines.append(f"void* results[] = {{{results}}};")
        lines.append(f"op{i}(8, results, arguments);\n}}")
        calls.append(f"run{i}();")
    return "\n".join([*lines, f"int main() {{ {' '.join(calls)} }}", ""])


def build_and_run(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Compile with sanitizers and run."""
    source, binary = folder / "run.cpp", folder / "run"
    source.write_text(text)
    rounding = str(RUNTIME / "device" / "rounding.cpp")
    command = [find_gxx(), *BASE_FLAGS, *SANITIZE, str(source), rounding, "-o", str(binary)]
    subprocess.run(command, check=True)
    return subprocess.run([str(binary)], capture_output=True, text=True, check=False)


def test_no_operation_is_undefined_on_its_edges(tmp_path: Path) -> None:
    ops = worth_running()
    done = build_and_run(program(ops), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_undefined_operation_is_noticed(tmp_path: Path) -> None:
    wrong = LaneOp(functions=("wrong",), results=("s32",), arguments=("f32",))
    assert 0x7F800000 in edges("f32")
    text = program({"cvt.rzi.s32.f32": wrong})
    text = text.replace('arith.h"', 'arith.h"\nstatic int wrong(float a) { return int(a); }', 1)
    assert build_and_run(text, tmp_path).returncode != 0
