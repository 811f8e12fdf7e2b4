"""What ptxas makes of operations that no unit executes as one instruction: divisions, roots.

Counted in machine code of ptxas 13.0 for sm_90, along the path that ordinary numbers take.
Latencies, and the numbers of FP64 and integer instructions that count together, follow what an H200
takes for many of them (benchmarks/constants_on_gpu.py): part of the instructions go to other units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.tools.profiler.tables import InstructionClass

FP32, FP64, INT = InstructionClass.FP32, InstructionClass.FP64, InstructionClass.INT
SFU, CONVERT, CONTROL = InstructionClass.SFU, InstructionClass.CONVERT, InstructionClass.CONTROL


@dataclass(frozen=True, kw_only=True)
class MachineCode:
    """Instructions of an operation."""

    mix: Mapping[InstructionClass, int]
    latencies: int
    """Latency of its result, in latencies of an addition."""


_ROUNDED = {
    # A reciprocal, a check of the range, and a step of Newton's with its rounding.
    "div.f32": MachineCode(mix={FP32: 5, SFU: 2, CONTROL: 3}, latencies=11),
    "rcp.f32": MachineCode(mix={FP32: 3, INT: 3, SFU: 1, CONTROL: 3}, latencies=16),
    "sqrt.f32": MachineCode(mix={FP32: 4, INT: 2, SFU: 1, CONTROL: 3}, latencies=11),
    "div.f64": MachineCode(mix={FP64: 11, FP32: 3, INT: 1, SFU: 1, CONTROL: 3}, latencies=28),
    "rcp.f64": MachineCode(mix={FP64: 7, FP32: 1, INT: 1, SFU: 1, CONTROL: 3}, latencies=16),
    "sqrt.f64": MachineCode(mix={FP64: 12, INT: 6, SFU: 1, CONTROL: 3}, latencies=20),
}
_APPROXIMATE = {
    # Without `.ftz` subnormal numbers are scaled before and behind.
    "div.full.f32": MachineCode(mix={FP32: 7, SFU: 1}, latencies=10),
    "div.approx.f32": MachineCode(mix={FP32: 4, SFU: 1}, latencies=10),
    "rcp.approx.f32": MachineCode(mix={FP32: 7, SFU: 1}, latencies=10),
    "rsqrt.approx.f32": MachineCode(mix={FP32: 3, SFU: 1}, latencies=10),
    "sqrt.approx.f32": MachineCode(mix={FP32: 3, SFU: 1}, latencies=10),
    "ex2.approx.f32": MachineCode(mix={FP32: 3, SFU: 1}, latencies=10),
    "lg2.approx.f32": MachineCode(mix={FP32: 3, SFU: 1}, latencies=10),
    "sin.approx.f32": MachineCode(mix={FP32: 1, SFU: 1}, latencies=5),
    "cos.approx.f32": MachineCode(mix={FP32: 1, SFU: 1}, latencies=5),
    "div.approx.ftz.f32": MachineCode(mix={FP32: 4, SFU: 1}, latencies=8),
    "div.full.ftz.f32": MachineCode(mix={FP32: 4, SFU: 1}, latencies=8),
    "sin.approx.ftz.f32": MachineCode(mix={FP32: 1, SFU: 1}, latencies=5),
    "cos.approx.ftz.f32": MachineCode(mix={FP32: 1, SFU: 1}, latencies=5),
}
_INTEGER = {
    # A reciprocal in floats, products that correct it, and the conversions between.
    "div.u16": MachineCode(mix={FP32: 7, INT: 9, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=26),
    "rem.u16": MachineCode(mix={FP32: 7, INT: 10, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=27),
    "div.s16": MachineCode(mix={FP32: 7, INT: 18, SFU: 1, CONVERT: 3, CONTROL: 2}, latencies=29),
    "rem.s16": MachineCode(mix={FP32: 7, INT: 19, SFU: 1, CONVERT: 3, CONTROL: 2}, latencies=30),
    "div.u32": MachineCode(mix={INT: 12, SFU: 1, CONVERT: 2}, latencies=32),
    "rem.u32": MachineCode(mix={INT: 12, SFU: 1, CONVERT: 2}, latencies=32),
    "div.s32": MachineCode(mix={INT: 15, SFU: 1, CONVERT: 2}, latencies=34),
    "rem.s32": MachineCode(mix={INT: 14, SFU: 1, CONVERT: 2}, latencies=34),
    "div.u64": MachineCode(mix={INT: 59, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=80),
    "rem.u64": MachineCode(mix={INT: 55, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=80),
    "div.s64": MachineCode(mix={INT: 74, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=89),
    "rem.s64": MachineCode(mix={INT: 69, SFU: 1, CONVERT: 2, CONTROL: 2}, latencies=89),
    "mul.lo.64": MachineCode(mix={INT: 4}, latencies=3),
    "mad.lo.64": MachineCode(mix={INT: 5}, latencies=3),
    "mul.hi.u32": MachineCode(mix={INT: 2}, latencies=2),
    "mul.hi.s32": MachineCode(mix={INT: 2}, latencies=2),
    "mul.hi.64": MachineCode(mix={INT: 7}, latencies=4),
    "mad.hi.64": MachineCode(mix={INT: 8}, latencies=5),
}
_HEAP = {
    # Not measured: what the walk through the heap of CUDA takes at least, where nobody else walks.
    "call.malloc": MachineCode(mix={INT: 300, CONTROL: 100}, latencies=500),
    "call.free": MachineCode(mix={INT: 150, CONTROL: 50}, latencies=250),
}
_ALONE = MachineCode(mix={SFU: 1}, latencies=4)
"""A single instruction of the special-function unit: 17 clocks of an H200."""
_SPECIAL = frozenset({"clz", "bfind"})
_ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})


def machine_code(opcode: Sequence[str]) -> MachineCode | None:
    """Return the instructions of an operation; None where it is a single one."""
    name, t = opcode[0], opcode[-1]
    if not _ROUNDINGS.isdisjoint(opcode):
        return _ROUNDED.get(f"{name}.{t}")
    whole = ".".join(opcode)
    wide = f"{name}.{opcode[1]}.64" if len(opcode) > 2 and t in ("u64", "s64") else ""
    found = _APPROXIMATE.get(whole) or _INTEGER.get(whole) or _INTEGER.get(wide)
    found = found or _HEAP.get(whole)
    return found or (_ALONE if name in _SPECIAL or "approx" in opcode else None)
