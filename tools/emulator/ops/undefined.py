"""Which lane operations keep undefined bits apart, and the C++ rules that do.

A rule of `emu/undefined.h` has the name of the operation in the namespace `emu::undefined`, and
takes for each argument its value and its undefined bits. An operation without a rule is undefined
in all bits where any bit of an argument is.
"""

import re

from cuda_llm.tools.emulator.ops.lane_op import LaneOp

_RULES = frozenset(
    {
        *("mov", "bit_not", "bit_and", "bit_or", "bit_xor", "lop3", "shl", "shr"),
        *("shf_l_wrap", "shf_r_wrap", "shf_l_clamp", "shf_r_clamp"),
        *("brev", "bfe", "bfi", "szext", "prmt", "selp"),
        *("add", "sub", "neg", "mul_lo", "mad_lo", "mul_wide", "mad_wide", "cvt_int"),
    }
)
_IN_HALVES = frozenset({"each_half", "each_halfword"})
_PAIRS = frozenset({"floats_to_pair"})


def undefined_rule(operation: LaneOp, values: list[str], bits: list[str]) -> tuple[str, ...]:
    """Return C++ of the undefined bits of each result, from the C++ of each argument and of its
    undefined bits; empty where the operation has no rule."""
    if len(operation.functions) != 1:
        return ()
    function = operation.functions[0]
    name = re.match(r"emu::(\w+)", function)
    if name is None:
        return ()
    if name[1] in _RULES:
        arguments = ", ".join(part for pair in zip(values, bits, strict=True) for part in pair)
        return (f"emu::undefined::{function.removeprefix('emu::')}({arguments})",)
    if name[1] in _IN_HALVES:
        return (f"emu::undefined::halves({' | '.join(bits)})",)
    if name[1] in _PAIRS:
        return (f"emu::undefined::pair({bits[0]}, {bits[1]})",)
    return ()
