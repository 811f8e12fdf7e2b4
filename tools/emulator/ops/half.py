"""Arithmetic and comparisons of f16, bf16 and their pairs."""

from collections.abc import Iterator

from cuda_llm.tools.emulator.ops.compare import FLOAT, WITH
from cuda_llm.tools.emulator.ops.float import ROUNDINGS, dotted, modifiers
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass

FORMATS = {"f16": "emu::F16", "bf16": "emu::BF16"}


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for t, f in FORMATS.items():
        yield from _sums(t, f)
        yield from _fused(t, f)
        yield from _extremes(t, f)
        yield from _signs(t, f)
        yield from _comparisons(t, f)
        yield from _sets(t, f)
        yield from _mixed(t, f)


def _ftz(t: str) -> tuple[str, ...]:
    return ("", "ftz") if t == "f16" else ("",)


def _alone_and_paired(
    words: tuple[str, ...], function: str, t: str, arity: int
) -> Iterator[tuple[str, LaneOp]]:
    paired = f"emu::each_half<{function}>"
    for each, called in ((t, function), (t + "x2", paired)):
        yield dotted(*words, each), _lane_op((called,), (each,), (each,) * arity)


def _lane_op(
    functions: tuple[str, ...], results: tuple[str, ...], arguments: tuple[str, ...]
) -> LaneOp:
    return LaneOp(
        functions=functions, results=results, arguments=arguments, pipe=InstructionClass.FP16
    )


def _sums(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for name in ("add", "sub", "mul"):
        for ftz in _ftz(t):
            for sat in ("", "sat") if t == "f16" else ("",):
                function = f"emu::{name}_half<{f}, {modifiers((ftz, sat))}>"
                for mode in ("", "rn"):
                    yield from _alone_and_paired((name, mode, ftz, sat), function, t, 2)


def _fused(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for ftz in _ftz(t):
        for clamp in ("", "sat", "relu") if t == "f16" else ("", "relu"):
            function = f"emu::fma_half<{f}, {modifiers((ftz, clamp))}>"
            yield from _alone_and_paired(("fma", "rn", ftz, clamp), function, t, 3)


def _extremes(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for name in ("min", "max"):
        for ftz in _ftz(t):
            for nan in ("", "NaN"):
                for sign in ("", "xorsign.abs"):
                    m = modifiers((ftz, nan, *sign.split(".")))
                    function = f"emu::{name}_half<{f}, {m}>"
                    yield from _alone_and_paired((name, ftz, nan, sign), function, t, 2)


def _signs(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for name in ("neg", "abs"):
        for ftz in _ftz(t):
            function = f"emu::{name}_half<{f}, {modifiers((ftz,))}>"
            yield from _alone_and_paired((name, ftz), function, t, 1)


def _comparisons(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for name in FLOAT:
        for ftz in _ftz(t):
            compare = f"{f}, emu::Compare::{name}, {modifiers((ftz,))}"
            for combined in WITH:
                with_c = f", emu::With::{combined}_" if combined else ""
                suffix = "_with" if combined else ""
                extra = ("pred",) if combined else ()
                single = (
                    f"emu::setp_half{suffix}<{compare}{with_c}>",
                    f"emu::setp_not_half{suffix}<{compare}{with_c}>",
                )
                pair = tuple(
                    f"emu::setp_pair{suffix}<{compare}, {half}{with_c}>" for half in (0, 1)
                )
                for each, functions in ((t, single), (t + "x2", pair)):
                    op = _lane_op(functions, ("pred", "pred"), (each, each, *extra))
                    yield dotted("setp", name, combined, ftz, each), op


def _sets(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    for name in FLOAT:
        for ftz in _ftz(t):
            compare = f"{f}, emu::Compare::{name}, {modifiers((ftz,))}"
            one = f"emu::set_half_one<{compare}>"
            mask = f"emu::set_half<uint16_t, {compare}>"
            forms = [(t, t, one), (t + "x2", t + "x2", f"emu::each_half<{one}>")]
            for sign in "us":
                for size in ("16", "32"):
                    d = sign + size
                    forms.append((d, t, f"emu::set_half<{C_TYPES[d]}, {compare}>"))
                forms.append((sign + "32", t + "x2", f"emu::each_half<{mask}>"))
            for d, s, function in forms:
                yield dotted("set", name, ftz, d, s), _lane_op((function,), (d,), (s, s))


def _mixed(t: str, f: str) -> Iterator[tuple[str, LaneOp]]:
    """Return f32 arithmetic that takes its first sources as f16 or bf16."""
    for mode in ("", *ROUNDINGS):
        for sat in ("", "sat"):
            for name in ("add", "sub", "fma"):
                if name == "fma" and not mode:
                    continue
                sources = (t, t, "f32") if name == "fma" else (t, "f32")
                yield (
                    dotted(name, mode, sat, "f32", t),
                    LaneOp(
                        functions=(f"emu::{name}_mixed<{f}, {modifiers((mode, sat))}>",),
                        results=("f32",),
                        arguments=sources,
                        pipe=InstructionClass.FP32,
                    ),
                )
