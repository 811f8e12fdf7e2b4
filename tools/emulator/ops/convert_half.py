"""cvt from and to formats below 32 bits, and the packing forms."""

from collections.abc import Iterator

from cuda_llm.tools.emulator.ops.convert import INTEGERS, INTEGRAL
from cuda_llm.tools.emulator.ops.float import ROUNDINGS, dotted, modifiers
from cuda_llm.tools.emulator.ops.half import FORMATS
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for t, f in FORMATS.items():
        for i in INTEGERS:
            yield from _integers(t, f, i)
        yield from _widening(t, f)
        yield from _narrowing(t, f)
        yield from _same(t, f)
    yield from _between_halves()
    yield from _tf32()
    yield from _fp8()
    yield from _packing()


def _cvt(function: str, d: str, *sources: str, vectorises: bool = True) -> LaneOp:
    return LaneOp(
        functions=(f"emu::{function}",),
        results=(d,),
        arguments=sources,
        vectorises=vectorises,
        pipe=InstructionClass.CONVERT,
    )


def _integers(t: str, f: str, i: str) -> Iterator[tuple[str, LaneOp]]:
    c = C_TYPES[i]
    narrow = not i.endswith("64")
    for sat in ("", "sat"):
        for mode in INTEGRAL:
            function = f"half_to_int<{c}, {f}, {modifiers((mode,))}>"
            yield dotted("cvt", mode, sat, i, t), _cvt(function, i, t, vectorises=narrow)
        for mode in ROUNDINGS:
            function = f"int_to_half<{f}, {modifiers((mode, sat))}, {c}>"
            op = _cvt(function, t, i, vectorises=not (sat and i.endswith("8")))
            yield dotted("cvt", mode, sat, t, i), op


def _widening(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for sat in ("", "sat"):
        for ftz in ("", "ftz"):
            function = f"half_to_float<float, {f}, {modifiers((ftz, sat))}>"
            yield dotted("cvt", ftz, sat, "f32", t), _cvt(function, "f32", t)
        function = f"half_to_float<double, {f}, {modifiers((sat,))}>"
        yield dotted("cvt", sat, "f64", t), _cvt(function, "f64", t)


def _narrowing(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for mode in ROUNDINGS:
        for sat in ("", "sat"):
            for ftz in ("", "ftz"):
                function = f"float_to_half<{f}, {modifiers((mode, ftz, sat))}, float>"
                yield dotted("cvt", mode, ftz, sat, t, "f32"), _cvt(function, t, "f32")
            function = f"float_to_half<{f}, {modifiers((mode, sat))}, double>"
            yield dotted("cvt", mode, sat, t, "f64"), _cvt(function, t, "f64")
        for relu in ("", "relu"):
            for finite in ("", "satfinite"):
                m = modifiers((mode, relu, finite))
                if relu or finite:
                    function = f"float_to_half<{f}, {m}, float>"
                    op = _cvt(function, t, "f32")
                    yield dotted("cvt", mode, relu, finite, t, "f32"), op
                op = _cvt(f"floats_to_pair<{f}, {m}>", t + "x2", "f32", "f32")
                yield dotted("cvt", mode, relu, finite, t + "x2", "f32"), op


def _same(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for sat in ("", "sat"):
        function = f"half_to_half<{f}, {f}, {modifiers((sat,))}>"
        yield dotted("cvt", sat, t, t), _cvt(function, t, t)
        for mode in INTEGRAL:
            function = f"half_to_integral<{f}, {modifiers((mode, sat))}>"
            yield dotted("cvt", mode, sat, t, t), _cvt(function, t, t)


def _between_halves() -> Iterator[tuple[str, LaneOp]]:
    for d, s in (("f16", "bf16"), ("bf16", "f16")):
        for mode in ROUNDINGS:
            for sat in ("", "sat"):
                function = f"half_to_half<{FORMATS[d]}, {FORMATS[s]}, {modifiers((mode, sat))}>"
                yield dotted("cvt", mode, sat, d, s), _cvt(function, d, s)


def _tf32() -> Iterator[tuple[str, LaneOp]]:
    for finite in ("", "satfinite"):
        for mode, relu in (("rna", ""), ("rn", ""), ("rn", "relu"), ("rz", ""), ("rz", "relu")):
            function = f"float_to_tf32<{modifiers((mode, relu, finite))}>"
            # The order of the two modifiers is as in the manual's grammar of tf32.
            yield dotted("cvt", mode, finite, relu, "tf32.f32"), _cvt(function, "b32", "f32")
            if relu and finite:
                yield dotted("cvt", mode, relu, finite, "tf32.f32"), _cvt(function, "b32", "f32")


def _fp8() -> Iterator[tuple[str, LaneOp]]:
    for t, f in (("e4m3x2", "emu::E4M3"), ("e5m2x2", "emu::E5M2")):
        for relu in ("", "relu"):
            m = modifiers(("rn", "satfinite", relu))
            spelling = dotted("cvt.rn.satfinite", relu, t)
            yield f"{spelling}.f32", _cvt(f"floats_to_fp8<{f}, {m}>", "b16", "f32", "f32")
            yield f"{spelling}.f16x2", _cvt(f"pair_to_fp8<{f}, {m}>", "b16", "f16x2")
            function = f"fp8_to_pair<{f}, {modifiers((relu,))}>"
            yield dotted("cvt.rn", relu, "f16x2", t), _cvt(function, "f16x2", "b16")


def _packing() -> Iterator[tuple[str, LaneOp]]:
    for sign in "us":
        signed = "true" if sign == "s" else "false"
        op = _cvt(f"pack_saturated<{signed}, 16>", "b32", "s32", "s32")
        yield f"cvt.pack.sat.{sign}16.s32", op
        for width in (2, 4, 8):
            function = f"pack_saturated_above<{signed}, {width}>"
            op = _cvt(function, "b32", "s32", "s32", "b32")
            yield f"cvt.pack.sat.{sign}{width}.s32.b32", op
