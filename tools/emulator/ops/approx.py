"""Approximate functions of the special-function unit."""

from collections.abc import Iterator

from cuda_llm.tools.emulator.ops.float import dotted, modifiers
from cuda_llm.tools.emulator.ops.lane_op import LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for ftz in ("", "ftz"):
        m = modifiers((ftz,))
        for name in ("ex2", "lg2", "rsqrt", "sin", "cos", "rcp", "sqrt"):
            yield dotted(name, "approx", ftz, "f32"), _special(f"{name}_approx<{m}>", "f32", 1)
        yield dotted("div.approx", ftz, "f32"), _special(f"div_approx<{m}>", "f32", 2)
        yield dotted("div.full", ftz, "f32"), _special(f"div_full<{m}>", "f32", 2)
    yield "tanh.approx.f32", _special("tanh_approx<emu::rn>", "f32", 1)
    yield "rcp.approx.ftz.f64", _special("rcp_gross", "f64", 1)
    yield "rsqrt.approx.ftz.f64", _special("rsqrt_gross", "f64", 1)
    yield "rsqrt.approx.f64", _special("rsqrt_approx_f64", "f64", 1)
    for t, f, flushes in (("f16", "F16", ""), ("bf16", "BF16", "ftz")):
        ex2 = f"ex2_half<emu::{f}, {modifiers((flushes,))}>"
        tanh = f"tanh_half<emu::{f}, emu::rn>"
        for function, spelling in (
            (ex2, dotted("ex2.approx", flushes, t)),
            (tanh, f"tanh.approx.{t}"),
        ):
            yield spelling, _special(function, t, 1)
            yield spelling + "x2", _special(f"each_half<emu::{function}>", t + "x2", 1)


def _special(function: str, t: str, arity: int) -> LaneOp:
    return LaneOp(
        functions=(f"emu::{function}",),
        results=(t,),
        arguments=(t,) * arity,
        vectorises=False,
        pipe=InstructionClass.SFU,
    )
