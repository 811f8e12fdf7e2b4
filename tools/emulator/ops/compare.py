"""setp and set: comparisons, alone or combined with a predicate."""

from collections.abc import Iterator

from cuda_llm.tools.emulator.ops.integer import call
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.profiler.tables import InstructionClass

EQUALITY = ("eq", "ne")
SIGNED = (*EQUALITY, "lt", "le", "gt", "ge")
UNSIGNED = {**{name: name for name in SIGNED}, "lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLOAT = (*SIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
WITH = ("", "and", "or", "xor")
SET_RESULTS = ("u32", "s32", "f32")


def comparisons(t: str) -> dict[str, str]:
    """Return comparisons PTX has for a type, as written, and what C++ calls them."""
    if t[0] == "b":
        return {name: name for name in EQUALITY}
    if t[0] == "u":
        return UNSIGNED
    return {name: name for name in (SIGNED if t[0] == "s" else FLOAT)}


def operations() -> Iterator[tuple[str, LaneOp]]:
    """Return every spelling with its operation."""
    for sign in "bus":
        for size in ("16", "32", "64"):
            yield from _of_type(sign + size)
    yield from _of_type("f32")
    yield from _of_type("f32", ".ftz", "emu::ftz")
    yield from _of_type("f64")


def _of_type(t: str, dot: str = "", modifiers: str = "0") -> Iterator[tuple[str, LaneOp]]:
    c = C_TYPES[t]
    pipe = InstructionClass.FP64 if t == "f64" else InstructionClass.INT
    for written, name in comparisons(t).items():
        compare = f"emu::Compare::{name}, {modifiers}"
        for combined in WITH:
            tail = f"{dot}.{t}"
            arguments = (t, t, "pred") if combined else (t, t)
            middle = f"{written}.{combined}" if combined else written
            suffix = "_with" if combined else ""
            template = f"{compare}, {_with(combined)}{c}"
            yield (
                f"setp.{middle}{tail}",
                LaneOp(
                    functions=(
                        f"emu::setp{suffix}<{template}>",
                        f"emu::setp_not{suffix}<{template}>",
                    ),
                    results=("pred", "pred"),
                    arguments=arguments,
                    pipe=pipe,
                ),
            )
            # No compiler emits `set` with a combination.
            for d in () if combined else SET_RESULTS:
                function = f"set<{C_TYPES[d]}, {template}>"
                yield f"set.{middle}{dot}.{d}.{t}", call(function, d, *arguments)


def _with(combined: str) -> str:
    return f"emu::With::{combined}_, " if combined else ""
