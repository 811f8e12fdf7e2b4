"""cvt between integers and floats."""

from collections.abc import Iterator
from dataclasses import replace

from cuda_llm.tools.emulator.ops.float import ROUNDINGS, dotted, modifiers
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f32", "f64")
INTEGRAL = ("rni", "rzi", "rmi", "rpi")


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for d in INTEGERS:
        for s in INTEGERS:
            plain = _cvt(f"cvt_int<{C_TYPES[d]}, {C_TYPES[s]}>", d, s)
            yield f"cvt.{d}.{s}", replace(plain, pipe=_integer_pipe(d, s))
            yield f"cvt.sat.{d}.{s}", _cvt(f"cvt_int_sat<{C_TYPES[d]}, {C_TYPES[s]}>", d, s)
        for f in FLOATS:
            yield from _float_to_int(d, f)
            yield from _int_to_float(f, d)
    for d in FLOATS:
        for s in FLOATS:
            yield from _float_to_float(d, s)


def _integer_pipe(d: str, s: str) -> InstructionClass:
    """Choose a pipe: widening extends the sign; narrowing to a register only renames it."""
    to_bits, from_bits = int(d[1:]), int(s[1:])
    is_renaming = to_bits >= 32 and to_bits <= from_bits
    return InstructionClass.FREE if is_renaming else InstructionClass.INT


def _cvt(function: str, d: str, s: str, *, vectorises: bool = True) -> LaneOp:
    return LaneOp(
        functions=(f"emu::{function}",),
        results=(d,),
        arguments=(s,),
        vectorises=vectorises,
        pipe=InstructionClass.CONVERT,
    )


def _ftz(*types: str) -> tuple[str, ...]:
    return ("", "ftz") if "f32" in types else ("",)


def _float_to_int(d: str, s: str) -> Iterator[tuple[str, LaneOp]]:
    narrow = not d.endswith("64")
    for mode in INTEGRAL:
        for ftz in _ftz(s):
            for sat in ("", "sat"):
                m = modifiers((mode, ftz))
                function = f"float_to_int<{C_TYPES[d]}, {m}, {C_TYPES[s]}>"
                op = _cvt(function, d, s, vectorises=narrow)
                yield dotted("cvt", mode, ftz, sat, d, s), op


def _int_to_float(d: str, s: str) -> Iterator[tuple[str, LaneOp]]:
    for mode in ROUNDINGS:
        for ftz in _ftz(d):
            for sat in ("", "sat"):
                m = modifiers((mode, ftz, sat))
                function = f"int_to_float<{C_TYPES[d]}, {m}, {C_TYPES[s]}>"
                awkward = s.endswith("64") or (sat and s.endswith("8"))
                op = _cvt(function, d, s, vectorises=not awkward)
                yield dotted("cvt", mode, ftz, sat, d, s), op


def _float_to_float(d: str, s: str) -> Iterator[tuple[str, LaneOp]]:
    for ftz in _ftz(d, s):
        for sat in ("", "sat"):
            for mode in ROUNDINGS if (d, s) == ("f32", "f64") else ("",):
                m = modifiers((mode, ftz, sat))
                op = _cvt(f"float_to_float<{C_TYPES[d]}, {m}, {C_TYPES[s]}>", d, s)
                yield dotted("cvt", mode, ftz, sat, d, s), op
            for mode in INTEGRAL if d == s else ():
                m = modifiers((mode, ftz, sat))
                op = _cvt(f"float_to_integral<{C_TYPES[d]}, {m}, {C_TYPES[s]}>", d, s)
                yield dotted("cvt", mode, ftz, sat, d, s), op
