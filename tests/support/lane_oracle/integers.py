"""Integer operations, bit operations and selections on Python's integers."""

from collections.abc import Callable

from lane_oracle.expected import Oracle
from lane_oracle.formats import F32, decode


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


def _on(t: str, function: Callable[..., int], result: str | None = None) -> Oracle:
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
        return _on(t, lambda a, b: max(BINARY[name](a, b), 0))
    if name in ("add", "sub") and "sat" in mods:
        return lambda args: (clamp(BINARY[name](read(args[0], t), read(args[1], t)), t),)
    if name in BINARY:
        return _on(t, BINARY[name])
    if name in ("neg", "abs"):
        return _on(t, lambda a: -a if name == "neg" else abs(a))
    if name == "sad":
        return _on(t, lambda a, b, c: abs(a - b) + c)
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


def logic(words: list[str]) -> Oracle:
    """and, or, xor, not, cnot, of predicates too."""
    name, t = words[0], words[-1]
    t = "b1" if t == "pred" else t
    if name == "not":
        return _on(t, lambda a: ~a)
    if name == "cnot":
        return _on(t, lambda a: int(a == 0))
    return _on(t, BINARY[name])


def lop3(words: list[str]) -> Oracle:
    """Bit i of the result is bit (a_i b_i c_i) of the table."""

    def oracle(args: tuple[int, ...]) -> tuple[int, ...]:
        a, b, c, table = args[:4]
        value = 0
        for i in range(32):
            row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)
            value |= (table >> row & 1) << i
        if len(words) == 2:
            return (value,)
        return (value, BINARY[words[1]](int(value != 0), args[4]))

    return oracle


def shift(words: list[str]) -> Oracle:
    """shl, shr, shf."""
    name, t = words[0], words[-1]
    width = width_of(t)
    if name == "shl":
        return lambda args: (cut(args[0] << min(args[1], width), t),)
    if name == "shr":
        return lambda args: (cut(read(args[0], t) >> min(args[1], width), t),)
    left, wrap = words[1] == "l", words[2] == "wrap"

    def funnel(args: tuple[int, ...]) -> tuple[int]:
        pair = args[1] << 32 | args[0]
        amount = args[2] % 32 if wrap else min(args[2], 32)
        return (cut(pair << amount >> 32 if left else pair >> amount, "b32"),)

    return funnel


def count(words: list[str]) -> Oracle:
    """popc, clz, brev, bfind."""
    name, t = words[0], words[-1]
    width = width_of(t)
    if name == "popc":
        return lambda args: (args[0].bit_count(),)
    if name == "clz":
        return lambda args: (width - args[0].bit_length(),)
    if name == "brev":
        return lambda args: (int(f"{args[0]:0{width}b}"[::-1], 2),)

    def bfind(args: tuple[int, ...]) -> tuple[int]:
        a = read(args[0], t)
        position = (~a if a < 0 else a).bit_length() - 1
        if "shiftamt" in words and position >= 0:
            position = width - 1 - position
        return (cut(position, "b32"),)

    return bfind


def field(words: list[str]) -> Oracle:
    """bfe, bfi, szext, bmsk, fns."""
    name, t = words[0], words[-1]
    width = width_of(t)

    def bfe(args: tuple[int, ...]) -> tuple[int]:
        a, first, length = args[0], args[1] & 255, args[2] & 255
        bits = [a >> i & 1 if i < width else None for i in range(first, first + length)]
        sign = 0
        if t[0] == "s" and length:
            sign = a >> min(first + length - 1, width - 1) & 1
        value = sum((sign if b is None else b) << i for i, b in enumerate(bits))
        return (cut(value | (-sign << length), t),)

    def bfi(args: tuple[int, ...]) -> tuple[int]:
        source, base, first, length = args[0], args[1], args[2] & 255, args[3] & 255
        for i in range(first, min(first + length, width)):
            base = base & ~(1 << i) | (source >> (i - first) & 1) << i
        return (base,)

    def szext(args: tuple[int, ...]) -> tuple[int]:
        length = args[1] % 32 if "wrap" in words else min(args[1], 32)
        return (cut(read(args[0], t[0] + str(length)) if length else 0, t),)

    def bmsk(args: tuple[int, ...]) -> tuple[int]:
        first, length = (a % 32 if "wrap" in words else min(a, 32) for a in args)
        return (cut(((1 << length) - 1) << first, t),)

    def fns(args: tuple[int, ...]) -> tuple[int]:
        mask, base, n = args[0], args[1], read(args[2], "s32")
        if base > 31:
            return (0xFFFFFFFF,)
        places = range(base, 32) if n >= 0 else range(base, -1, -1)
        if n == 0:
            return (base if mask >> base & 1 else 0xFFFFFFFF,)
        found = [i for i in places if mask >> i & 1]
        return (found[abs(n) - 1] if abs(n) <= len(found) else 0xFFFFFFFF,)

    return {"bfe": bfe, "bfi": bfi, "szext": szext, "bmsk": bmsk, "fns": fns}[name]


def permute(words: list[str]) -> Oracle:
    """prmt in all modes, from the byte numbers each mode selects."""
    mode = words[2] if len(words) > 2 else ""
    rows: dict[str, Callable[[int], list[int]]] = {
        "f4e": lambda s: [(s + i) % 8 for i in range(4)],
        "b4e": lambda s: [(s - i) % 8 for i in range(4)],
        "rc8": lambda s: [s] * 4,
        "ecl": lambda s: [max(i, s) for i in range(4)],
        "ecr": lambda s: [min(i, s) for i in range(4)],
        "rc16": lambda s: [2 * (s % 2), 2 * (s % 2) + 1] * 2,
    }

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        source = (args[1] << 32 | args[0]).to_bytes(8, "little")
        if mode:
            chosen = [source[i] for i in rows[mode](args[2] % 4)]
        else:
            chosen = []
            for i in range(4):
                nibble = args[2] >> 4 * i & 15
                byte = source[nibble & 7]
                chosen.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
        return (int.from_bytes(bytes(chosen), "little"),)

    return oracle


def select(words: list[str]) -> Oracle:
    """mov, selp, slct."""
    if words[0] == "mov":
        return lambda args: (args[0],)
    if words[0] == "selp":
        return lambda args: (args[0] if args[2] else args[1],)

    def slct(args: tuple[int, ...]) -> tuple[int]:
        if words[-1] == "s32":
            first = read(args[2], "s32") >= 0
        else:
            c = decode(F32, args[2])
            flushed_away = "ftz" in words and c is not None and 0 < (c.size or 1) < 2**-126
            first = c is not None and (not c.negative or c.size == 0 or flushed_away)
        return (args[0] if first else args[1],)

    return slct
