"""Integer arithmetic: add, sub, mul, mad, div, carries, dot products."""

from collections.abc import Iterator

from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp

SIZES = ("16", "32", "64")
WIDER = {"16": "32", "32": "64"}


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for sign in "us":
        for size in SIZES:
            yield from _arithmetic(sign + size)
        yield from _products24(sign)
    yield from _saturating()
    yield from _carries()
    yield from _dot_products()


def call(function: str, result: str, *arguments: str, vectorises: bool = True) -> LaneOp:
    """Return an operation on the integer pipe that calls a C++ function with a single result."""
    return LaneOp(
        functions=(f"emu::{function}",),
        results=(result,),
        arguments=arguments,
        vectorises=vectorises,
    )


def _arithmetic(t: str) -> Iterator[tuple[str, LaneOp]]:
    c = C_TYPES[t]
    narrow = not t.endswith("64")
    for name in ("add", "sub", "min", "max"):
        yield f"{name}.{t}", call(f"{name}<{c}>", t, t, t)
    for name in ("div", "rem"):
        yield f"{name}.{t}", call(f"{name}<{c}>", t, t, t, vectorises=t.endswith("32"))
    for part in ("lo", "hi"):
        vectorises = narrow or part == "lo"
        yield f"mul.{part}.{t}", call(f"mul_{part}<{c}>", t, t, t, vectorises=vectorises)
        yield f"mad.{part}.{t}", call(f"mad_{part}<{c}>", t, t, t, t, vectorises=vectorises)
    if narrow:
        w = t[0] + WIDER[t[1:]]
        yield f"mul.wide.{t}", call(f"mul_wide<{c}>", w, t, t)
        yield f"mad.wide.{t}", call(f"mad_wide<{c}>", w, t, t, w)
    yield f"sad.{t}", call(f"sad<{c}>", t, t, t, t)
    if t[0] == "s":
        yield f"neg.{t}", call(f"neg<{c}>", t, t)
        yield f"abs.{t}", call(f"abs<{c}>", t, t)


def _products24(sign: str) -> Iterator[tuple[str, LaneOp]]:
    t = sign + "32"
    c = C_TYPES[t]
    for part in ("lo", "hi"):
        yield f"mul24.{part}.{t}", call(f"mul24_{part}<{c}>", t, t, t)
        yield f"mad24.{part}.{t}", call(f"mad24_{part}<{c}>", t, t, t, t)


def _saturating() -> Iterator[tuple[str, LaneOp]]:
    yield "add.sat.s32", call("add_sat<int32_t>", "s32", "s32", "s32")
    yield "sub.sat.s32", call("sub_sat<int32_t>", "s32", "s32", "s32")
    yield "mad.hi.sat.s32", call("mad_hi_sat<int32_t>", "s32", "s32", "s32", "s32")
    yield "mad24.hi.sat.s32", call("mad24_hi_sat", "s32", "s32", "s32", "s32")
    for name in ("min", "max"):
        op = call(f"{name}_relu<int32_t>", "s32", "s32", "s32")
        yield f"{name}.relu.s32", op
        # The order in which the toolkit's own headers write it.
        yield f"{name}.s32.relu", op


def _carries() -> Iterator[tuple[str, LaneOp]]:
    for t in ("u32", "s32", "u64", "s64"):
        # The carry is that of unsigned arithmetic whatever the sign in the spelling.
        u = "u" + t[1:]
        c = C_TYPES[u]
        yield f"add.cc.{t}", _carrying(f"add<{c}>", f"carry_of_add<{c}>", u, 2)
        yield f"sub.cc.{t}", _carrying(f"sub<{c}>", f"borrow_of_sub<{c}>", u, 2)
        for cc in (False, True):
            dot = ".cc" if cc else ""
            carry = f"carry_of_add_carry<{c}>" if cc else ""
            borrow = f"borrow_of_sub_borrow<{c}>" if cc else ""
            yield f"addc{dot}.{t}", _carrying(f"add_carry<{c}>", carry, u, 2, reads=True)
            yield f"subc{dot}.{t}", _carrying(f"sub_borrow<{c}>", borrow, u, 2, reads=True)
        for part in ("lo", "hi"):
            # Signed high halves differ, so the multiplication keeps its sign.
            m = C_TYPES[t]
            yield (
                f"mad.{part}.cc.{t}",
                _carrying(f"mad_{part}<{m}>", f"carry_of_mad_{part}<{m}>", t, 3),
            )
            for cc in (False, True):
                dot = ".cc" if cc else ""
                carry = f"carry_of_mad_{part}_carry<{m}>" if cc else ""
                yield (
                    f"madc.{part}{dot}.{t}",
                    _carrying(f"mad_{part}_carry<{m}>", carry, t, 3, reads=True),
                )


def _carrying(value: str, carry: str, t: str, arity: int, *, reads: bool = False) -> LaneOp:
    """Make an operation with carry; with `carry` empty the flag is not written."""
    return LaneOp(
        functions=(f"emu::{value}", f"emu::{carry}") if carry else (f"emu::{value}",),
        results=(t, "pred") if carry else (t,),
        arguments=(t,) * arity + (("pred",) if reads else ()),
        reads_carry=reads,
        writes_carry=bool(carry),
        vectorises="_hi" not in value,
    )


def _dot_products() -> Iterator[tuple[str, LaneOp]]:
    signed = {"u32": "false", "s32": "true"}
    for a in ("u32", "s32"):
        for b in ("u32", "s32"):
            c = "u32" if a == b == "u32" else "s32"
            signs = f"{signed[a]}, {signed[b]}"
            yield f"dp4a.{a}.{b}", call(f"dp4a<{signs}>", c, "b32", "b32", c)
            for mode, first in (("lo", 0), ("hi", 2)):
                yield (
                    f"dp2a.{mode}.{a}.{b}",
                    call(f"dp2a<{signs}, {first}>", c, "b32", "b32", c),
                )
