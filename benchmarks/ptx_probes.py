"""PTX kernels that apply one operation each to rows of operands."""

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from recorded_results import recorded_types, stored_bytes
from recorded_rows import ROWS, TABLES, bits_of

from cuda_llm.tools.emulator.ops.lane_op import LaneOp

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
PARAMETERS = 7
"""Five arguments and two results at most."""


def _register(t: str) -> str:
    return "pred" if t == "pred" else f"b{max(bits_of(t), 16)}"


def probe(name: str, spelling: str, op: LaneOp) -> list[str]:
    """The lines of one kernel: thread i takes row i."""
    lines = [f".visible .entry {name}("]
    lines.append(", ".join(f".param .u64 p{i}" for i in range(PARAMETERS)) + ")")
    lines += ["{", ".reg .b64 %at, %base;", ".reg .b32 %row, %turn, %carry, %wide;"]
    lines += [".reg .b16 %byte;", ".reg .pred %chosen;", "mov.u32 %row, %tid.x;"]
    for i, t in enumerate(op.arguments):
        lines.append(f".reg .{_register(t)} %a{i};")
        width = max(bits_of(t), 8)
        lines += _address(i, width // 8)
        if t == "pred":
            lines += ["ld.global.u8 %byte, [%at];", f"setp.ne.u16 %a{i}, %byte, 0;"]
        else:
            lines.append(f"ld.global.b{width} %a{i}, [%at];")
    results = recorded_types(op)
    for i, t in enumerate(results):
        size = stored_bytes(spelling, t)
        register = "pred" if t == "pred" else f"b{max(8 * size, 16)}"
        lines.append(f".reg .{register} %d{i};")
    lines += _applied(spelling, op)
    for i, t in enumerate(results):
        size = stored_bytes(spelling, t)
        lines += _address(5 + i, size)
        if t == "pred":
            lines += [f"selp.b16 %byte, 1, 0, %d{i};", "st.global.b8 [%at], %byte;"]
        else:
            lines.append(f"st.global.b{8 * size} [%at], %d{i};")
    return [*lines, "ret;", "}"]


def _address(parameter: int, size: int) -> list[str]:
    return [
        f"ld.param.u64 %base, [p{parameter}];",
        f"mad.wide.u32 %at, %row, {size}, %base;",
    ]


def _applied(spelling: str, op: LaneOp) -> list[str]:
    """The instruction itself, with the flag it reads and writes."""
    opcode = spelling.partition("/")[0]
    arguments = [f"%a{i}" for i in range(len(op.arguments))]
    if op.reads_carry or op.writes_carry:
        return _with_carry(opcode, op, arguments)
    target = "|".join(f"%d{i}" for i in range(len(recorded_types(op))))
    if not opcode.startswith("lop3."):
        return [f"{opcode} {target}, {', '.join(arguments)};"]
    lines = [f"and.b32 %turn, %row, {len(TABLES) - 1};"]
    for i, table in enumerate(TABLES):
        arguments[3] = str(table)
        lines.append(f"setp.eq.u32 %chosen, %turn, {i};")
        lines.append(f"@%chosen {opcode} {target}, {', '.join(arguments)};")
    return lines


def _with_carry(opcode: str, op: LaneOp, arguments: list[str]) -> list[str]:
    subtracts = opcode.startswith("sub")
    lines = []
    if op.reads_carry:
        lines.append(f"selp.b32 %carry, 1, 0, {arguments.pop()};")
        made = "sub.cc.u32 %wide, 0, %carry;" if subtracts else "add.cc.u32 %wide, %carry, -1;"
        lines.append(made)
    lines.append(f"{opcode} %d0, {', '.join(arguments)};")
    if op.writes_carry:
        lines.append(f"{'subc' if subtracts else 'addc'}.u32 %carry, 0, 0;")
        lines.append("setp.ne.u32 %d1, %carry, 0;")
    return lines


def assemble(operations: Mapping[str, LaneOp], cubin: Path) -> tuple[dict[str, str], list[str]]:
    """Builds a cubin. Returns the kernel of each spelling, and the spellings ptxas refuses."""
    left = dict(operations)
    refused: list[str] = []
    while left:
        names = {spelling: f"probe{i}" for i, spelling in enumerate(left)}
        owner: list[str] = [""] * HEAD.count("\n")
        text = HEAD
        for spelling, op in left.items():
            lines = probe(names[spelling], spelling, op)
            owner += [spelling] * len(lines)
            text += "\n".join(lines) + "\n"
        wrong = _refused(text, owner, cubin)
        if not wrong:
            return names, refused
        refused += wrong
        for spelling in wrong:
            del left[spelling]
    return {}, refused


def _refused(text: str, owner: Sequence[str], cubin: Path) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probes.ptx"
        source.write_text(text)
        command = ["ptxas", "-arch=sm_90", str(source), "-o", str(cubin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    lines = {int(n) for n in re.findall(r"line (\d+); (?:error|fatal)", done.stderr)}
    if not lines:
        raise SystemExit(done.stderr)
    return list(dict.fromkeys(owner[n - 1] for n in sorted(lines)))


assert ROWS <= 1024, "one block holds all rows"
