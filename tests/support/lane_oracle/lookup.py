"""The oracle of every spelling."""

from collections.abc import Callable

from lane_oracle import bits, comparisons, conversions, floats, integers
from lane_oracle.expected import Oracle
from lane_oracle.formats import FORMATS

BY_NAME: dict[str, Callable[[list[str]], Oracle]] = {
    "setp": comparisons.predicate,
    "set": comparisons.value,
    "cvt": conversions.convert,
    "testp": floats.test,
    "copysign": floats.sign,
    "lop3": bits.lop3,
    "prmt": bits.permute,
    "vabsdiff4": integers.byte_differences,
    **dict.fromkeys(("dp4a", "dp2a"), integers.dot_product),
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), bits.logic),
    **dict.fromkeys(("shl", "shr", "shf"), bits.shift),
    **dict.fromkeys(("popc", "clz", "brev", "bfind"), bits.count),
    **dict.fromkeys(("bfe", "bfi", "szext", "bmsk", "fns"), bits.field),
    **dict.fromkeys(("mov", "selp", "slct"), bits.select),
}


def oracle_of(spelling: str) -> Oracle:
    """Raises LookupError where nobody wrote an oracle."""
    opcode, _, arity = spelling.partition("/")
    words = opcode.split(".")
    name, t = words[0], words[-1]
    if name in BY_NAME:
        return BY_NAME[name](words)
    if t.endswith("x2") and t[0] in "fb":
        each = floating([name, *words[1:-1], t[:-2]], 2)
        return floats.pairs(each, 32 if t == "f32x2" else 16)
    if t in FORMATS:
        return floating(words, int(arity or 2))
    found = integers.arithmetic(words)
    if found is None:
        raise LookupError(spelling)
    return found


def floating(words: list[str], arity: int) -> Oracle:
    """Operations of one floating-point format."""
    name, t = words[0], words[-1]
    if words[-2] == "f32" and t != "f32":
        return floats.mixed(words)
    if name in ("neg", "abs"):
        return floats.sign(words)
    if name in ("min", "max"):
        return floats.extreme(words, arity)
    if "approx" in words:
        if t == "f64":
            return floats.gross(words) if "ftz" in words else floats.reciprocal_root(words)
        if name == "div":
            return floats.divide_approximately(words)
        if name in ("rcp", "sqrt"):
            return floats.nearly(words, 1)
        if name in floats.FUNCTIONS:
            return floats.approximate(words)
    if "full" in words:
        return floats.nearly(words, 2)
    if name in ("add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt"):
        return floats.arithmetic(words)
    raise LookupError(".".join(words))
