"""Integer arithmetic on Python's integers."""

from collections.abc import Callable

from lane_oracle.expected import Oracle


def width_of(t: str) -> int:
    """Bits of a PTX type."""
    return int("".join(c for c in t.split("x")[0] if c.isdigit()))


def cut(value: int, t: str) -> int:
    """The raw bits of a value in a type."""
    return value & ((1 << width_of(t)) - 1)


def read(bits: int, t: str) -> int:
    """The value of raw bits in a type."""
    width = width_of(t)
    bits &= (1 << width) - 1
    return bits - (1 << width) if t[0] == "s" and bits >> (width - 1) else bits


def clamp(value: int, t: str) -> int:
    """The nearest value a type holds, as raw bits."""
    width = width_of(t)
    low, high = (
        (-1 << (width - 1), (1 << (width - 1)) - 1) if t[0] == "s" else (0, (1 << width) - 1)
    )
    return cut(min(max(value, low), high), t)


def twice(t: str) -> str:
    """The type of double width."""
    return t[0] + str(2 * width_of(t))


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else -1


def _remainder(a: int, b: int) -> int:
    return a - b * _divide(a, b) if b else -1


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "div": _divide,
    "rem": _remainder,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def on(t: str, function: Callable[..., int], result: str | None = None) -> Oracle:
    """Reads every operand in type `t` and cuts the result to it."""
    return lambda args: (cut(function(*(read(a, t) for a in args)), result or t),)


def arithmetic(words: list[str]) -> Oracle | None:
    """add, sub, mul, mad, div, rem, min, max, neg, abs, sad and their variants."""
    if words[-1] == "relu":
        words = [words[0], "relu", *words[1:-1]]
    name, mods, t = words[0], words[1:-1], words[-1]
    if t.endswith("x2"):
        return _halfwords(name, mods, t[:-2])
    if "cc" in mods or name in ("addc", "subc", "madc"):
        return _carrying(name, mods, t)
    if "relu" in mods:
        return on(t, lambda a, b: max(BINARY[name](a, b), 0))
    if name in ("add", "sub") and "sat" in mods:
        return lambda args: (clamp(BINARY[name](read(args[0], t), read(args[1], t)), t),)
    if name in BINARY:
        return on(t, BINARY[name])
    if name in ("neg", "abs"):
        return on(t, lambda a: -a if name == "neg" else abs(a))
    if name == "sad":
        return on(t, lambda a, b, c: abs(a - b) + c)
    if name in ("mul", "mad"):
        return _product(mods, t, lambda a: read(a, t), width_of(t))
    if name in ("mul24", "mad24"):
        low = t[0] + "24"
        return _product(mods, t, lambda a: read(a, low), 16)
    return None


def _product(mods: list[str], t: str, factor: Callable[[int], int], high: int) -> Oracle:
    def oracle(args: tuple[int, ...]) -> tuple[int]:
        value = factor(args[0]) * factor(args[1])
        result = twice(t) if "wide" in mods else t
        if "hi" in mods:
            value = read(value >> high, t)
        if len(args) > 2:
            value += read(args[2], result)
        return (clamp(value, result) if "sat" in mods else cut(value, result),)

    return oracle


def _carrying(name: str, mods: list[str], t: str) -> Oracle:
    unsigned = "u" + t[1:]
    limit = 1 << width_of(t)

    def oracle(args: tuple[int, ...]) -> tuple[int, ...]:
        carry = args[-1] if name.endswith("c") else 0
        if name.startswith("mad"):
            value = read(args[0], t) * read(args[1], t)
            value = cut(value >> width_of(t) if "hi" in mods else value, t) + args[2] + carry
            out = value >= limit
        elif name.startswith("add"):
            value = args[0] + args[1] + carry
            out = value >= limit
        else:
            value = args[0] - args[1] - carry
            out = value < 0
        return (cut(value, unsigned), int(out)) if "cc" in mods else (cut(value, unsigned),)

    return oracle


def _halfwords(name: str, mods: list[str], t: str) -> Oracle:
    each = arithmetic([name, *mods, t])
    assert each is not None

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        low = each(tuple(a & 0xFFFF for a in args))[0]
        high = each(tuple(a >> 16 for a in args))[0]
        assert isinstance(low, int)
        assert isinstance(high, int)
        return (low | high << 16,)

    return oracle


def dot_product(words: list[str]) -> Oracle:
    """dp4a and dp2a."""
    a_type, b_type = words[-2][0] + "8", words[-1][0] + "8"
    c_type = "u32" if words[-1] == words[-2] == "u32" else "s32"

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        a, b, c = args
        total = read(c, c_type)
        if words[0] == "dp4a":
            for i in range(4):
                total += read(a >> 8 * i, a_type) * read(b >> 8 * i, b_type)
        else:
            first = 0 if words[1] == "lo" else 2
            for i in range(2):
                total += read(a >> 16 * i, a_type[0] + "16") * read(b >> 8 * (first + i), b_type)
        return (cut(total, "b32"),)

    return oracle


def byte_differences(words: list[str]) -> Oracle:
    """vabsdiff4, with or without .add."""
    t = words[2][0] + "8"

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        a, b, c = args
        each = [abs(read(a >> 8 * i, t) - read(b >> 8 * i, t)) for i in range(4)]
        if words[-1] == "add":
            return (cut(c + sum(each), "u32"),)
        return (int.from_bytes(bytes(each), "little"),)

    return oracle
