"""Logic, shifts, bit fields, permutations and selections on Python's integers."""

from collections.abc import Callable

from lane_oracle.expected import Oracle
from lane_oracle.formats import F32, decode
from lane_oracle.integers import BINARY, cut, on, read, width_of


def logic(words: list[str]) -> Oracle:
    """and, or, xor, not, cnot, of predicates too."""
    name, t = words[0], words[-1]
    t = "b1" if t == "pred" else t
    if name == "not":
        return on(t, lambda a: ~a)
    if name == "cnot":
        return on(t, lambda a: int(a == 0))
    return on(t, BINARY[name])


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

    def place(number: int) -> int:
        """A position or length. Above 255 it is the low byte, or all of it for 64-bit fields."""
        return number & 255 if width == 32 else min(number, 255)

    def bfe(args: tuple[int, ...]) -> tuple[int]:
        a, first, length = args[0], place(args[1]), place(args[2])
        bits = [a >> i & 1 if i < width else None for i in range(first, first + length)]
        sign = 0
        if t[0] == "s" and length:
            sign = a >> min(first + length - 1, width - 1) & 1
        value = sum((sign if b is None else b) << i for i, b in enumerate(bits))
        return (cut(value | (-sign << length), t),)

    def bfi(args: tuple[int, ...]) -> tuple[int]:
        source, base, first, length = args[0], args[1], place(args[2]), place(args[3])
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
