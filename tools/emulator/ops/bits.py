"""Logic, shifts, selection, moves, and parts of words: bit fields, bytes, halfwords."""

from collections.abc import Iterator
from dataclasses import replace

from cuda_llm.tools.emulator.ops.integer import call
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass

SELECTABLE = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64")
PERMUTE_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    yield from _logic()
    yield from _shifts()
    yield from _counts()
    yield from _fields()
    yield from _permutations()
    yield from _selections()
    yield from _packed_halfwords()
    yield from _bytes()


def _logic() -> Iterator[tuple[str, LaneOp]]:
    for t in ("pred", "b16", "b32", "b64"):
        c = C_TYPES[t]
        for name in ("and", "or", "xor"):
            yield f"{name}.{t}", call(f"bit_{name}<{c}>", t, t, t)
        yield f"not.{t}", call(f"bit_not<{c}>", t, t)
        if t != "pred":
            yield f"cnot.{t}", call(f"logical_not<{c}>", t, t)
    yield "lop3.b32", call("lop3", "b32", "b32", "b32", "b32", "u32")
    for name in ("or", "and"):
        yield (
            f"lop3.{name}.b32",
            LaneOp(
                functions=("emu::lop3_value", f"emu::lop3_{name}"),
                results=("b32", "pred"),
                arguments=("b32", "b32", "b32", "u32", "pred"),
            ),
        )


def _shifts() -> Iterator[tuple[str, LaneOp]]:
    for size in ("16", "32", "64"):
        b = "b" + size
        yield f"shl.{b}", call(f"shl<{C_TYPES[b]}>", b, b, "u32")
        for sign in "bus":
            t = sign + size
            yield f"shr.{t}", call(f"shr<{C_TYPES[t]}>", t, t, "u32")
    for direction in "lr":
        for mode in ("wrap", "clamp"):
            function = f"shf_{direction}_{mode}"
            yield f"shf.{direction}.{mode}.b32", call(function, "b32", "b32", "b32", "u32")


def _counts() -> Iterator[tuple[str, LaneOp]]:
    for t in ("b32", "b64"):
        c = C_TYPES[t]
        yield f"popc.{t}", call(f"popc<{c}>", "u32", t)
        yield f"clz.{t}", call(f"clz<{c}>", "u32", t)
        yield f"brev.{t}", call(f"brev<{c}>", t, t)
    for t in ("u32", "s32", "u64", "s64"):
        yield f"bfind.{t}", call(f"bfind<{C_TYPES[t]}>", "u32", t)
        yield f"bfind.shiftamt.{t}", call(f"bfind_shiftamt<{C_TYPES[t]}>", "u32", t)
    yield "fns.b32", call("fns", "b32", "b32", "b32", "s32", vectorises=False)


def _fields() -> Iterator[tuple[str, LaneOp]]:
    for t in ("u32", "s32", "u64", "s64"):
        vectorises = t.endswith("32")
        op = call(f"bfe<{C_TYPES[t]}>", t, t, "u32", "u32", vectorises=vectorises)
        yield f"bfe.{t}", op
    for t in ("b32", "b64"):
        vectorises = t == "b32"
        op = call(f"bfi<{C_TYPES[t]}>", t, t, t, "u32", "u32", vectorises=vectorises)
        yield f"bfi.{t}", op
    for mode, wrapped in (("wrap", "true"), ("clamp", "false")):
        for t in ("u32", "s32"):
            yield f"szext.{mode}.{t}", call(f"szext<{C_TYPES[t]}, {wrapped}>", t, t, "u32")
        yield f"bmsk.{mode}.b32", call(f"bmsk<{wrapped}>", "b32", "u32", "u32")


def _permutations() -> Iterator[tuple[str, LaneOp]]:
    yield "prmt.b32", call("prmt", "b32", "b32", "b32", "b32")
    for mode in PERMUTE_MODES:
        yield f"prmt.b32.{mode}", call(f"prmt_{mode}", "b32", "b32", "b32", "b32")


def _selections() -> Iterator[tuple[str, LaneOp]]:
    for t in (*SELECTABLE, "pred"):
        move = call(f"mov<{C_TYPES[t]}>", t, t)
        yield f"mov.{t}", replace(move, pipe=InstructionClass.FREE)
    for t in SELECTABLE:
        c = C_TYPES[t]
        yield f"selp.{t}", call(f"selp<{c}>", t, t, t, "pred")
        for sign in ("s32", "f32"):
            yield f"slct.{t}.{sign}", call(f"slct<{c}, {C_TYPES[sign]}>", t, t, t, sign)
        yield f"slct.ftz.{t}.f32", call(f"slct_ftz<{c}>", t, t, t, "f32")


def _packed_halfwords() -> Iterator[tuple[str, LaneOp]]:
    for t in ("u16", "s16"):
        c = C_TYPES[t]
        for name in ("add", "min", "max"):
            function = f"each_halfword<{c}, emu::{name}<{c}>>"
            yield f"{name}.{t}x2", call(function, "b32", "b32", "b32")
    for name in ("min", "max"):
        function = f"each_halfword<int16_t, emu::{name}_relu<int16_t>>"
        op = call(function, "b32", "b32", "b32")
        yield f"{name}.relu.s16x2", op
        yield f"{name}.s16x2.relu", op


def _bytes() -> Iterator[tuple[str, LaneOp]]:
    """Return the video operation that compilers still emit; all four bytes are selected."""
    for sign in "us":
        signed = "true" if sign == "s" else "false"
        t = f"{sign}32"
        for suffix, sums in (("", "false"), (".add", "true")):
            op = call(f"vabsdiff4<{signed}, {sums}>", "u32", "b32", "b32", "u32")
            yield f"vabsdiff4.u32.{t}.{t}{suffix}", op
