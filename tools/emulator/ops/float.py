"""Arithmetic of f32, f64 and f32x2."""

from collections.abc import Iterable, Iterator

from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass

PIPES = {"f32": InstructionClass.FP32, "f64": InstructionClass.FP64}
ROUNDINGS = ("rn", "rz", "rm", "rp")


def modifiers(words: Iterable[str]) -> str:
    """Return the C++ constant for modifiers as PTX spells them."""
    names = {"NaN": "nan", "abs": "magnitude", "rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
    return " | ".join(f"emu::{names.get(word, word)}" for word in words if word) or "emu::rn"


def dotted(*words: str) -> str:
    """Return a spelling without its empty parts."""
    return ".".join(word for word in words if word)


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for t in ("f32", "f64"):
        yield from _rounded(t)
        yield from _signs(t)
        yield from _tests(t)
    yield from _extremes()
    yield from _pairs()


def _float(function: str, t: str, arity: int, *, vectorises: bool = True) -> LaneOp:
    return LaneOp(
        functions=(f"emu::{function}",),
        results=(t,),
        arguments=(t,) * arity,
        vectorises=vectorises,
        pipe=PIPES[t],
    )


def _rounded(t: str) -> Iterator[tuple[str, LaneOp]]:
    c = C_TYPES[t]
    single = t == "f32"
    for mode in ("", *ROUNDINGS):
        for ftz in ("", "ftz") if single else ("",):
            vectorises = single or mode in ("", "rn")
            m = modifiers((mode, ftz))
            for sat in ("", "sat") if single else ("",):
                ms = modifiers((mode, ftz, sat))
                for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                    if name == "fma" and not mode:
                        continue
                    op = _float(f"{name}_float<{ms}, {c}>", t, arity, vectorises=vectorises)
                    yield dotted(name, mode, ftz, sat, t), op
                    if name == "fma":
                        yield dotted("mad", mode, ftz, sat, t), op
            if mode:
                for name, arity in (("div", 2), ("rcp", 1), ("sqrt", 1)):
                    op = _float(f"{name}_float<{m}, {c}>", t, arity, vectorises=vectorises)
                    yield dotted(name, mode, ftz, t), op


def _signs(t: str) -> Iterator[tuple[str, LaneOp]]:
    c = C_TYPES[t]
    for ftz in ("", "ftz") if t == "f32" else ("",):
        for name in ("neg", "abs"):
            op = _float(f"{name}_float<{modifiers((ftz,))}, {c}>", t, 1)
            yield dotted(name, ftz, t), op
    yield f"copysign.{t}", _float(f"copysign<{c}>", t, 2)


def _tests(t: str) -> Iterator[tuple[str, LaneOp]]:
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        op = LaneOp(
            functions=(f"emu::testp_{test}<{C_TYPES[t]}>",),
            results=("pred",),
            arguments=(t,),
            pipe=PIPES[t],
        )
        yield f"testp.{test}.{t}", op


def _extremes() -> Iterator[tuple[str, LaneOp]]:
    for name in ("min", "max"):
        yield f"{name}.f64", _float(f"{name}_float<emu::rn, double>", "f64", 2)
        for ftz in ("", "ftz"):
            for nan in ("", "NaN"):
                for sign in ("", "xorsign.abs"):
                    m = modifiers((ftz, nan, *sign.split(".")))
                    op = _float(f"{name}_float<{m}, float>", "f32", 2)
                    yield dotted(name, ftz, nan, sign, "f32"), op
                for magnitude in ("", "abs"):
                    m = modifiers((ftz, nan, magnitude))
                    op = _float(f"{name}3_float<{m}, float>", "f32", 3)
                    yield dotted(name, ftz, nan, magnitude, "f32") + "/3", op


def _pairs() -> Iterator[tuple[str, LaneOp]]:
    for mode in ("", *ROUNDINGS):
        for ftz in ("", "ftz"):
            m = modifiers((mode, ftz))
            for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
                if name == "fma" and not mode:
                    continue
                op = LaneOp(
                    functions=(f"emu::each_f32<emu::{name}_float<{m}, float>>",),
                    results=("b64",),
                    arguments=("b64",) * arity,
                    pipe=InstructionClass.FP32,
                    issues=2,
                )
                yield dotted(name, mode, ftz, "f32x2"), op
