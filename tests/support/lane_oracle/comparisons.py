"""setp and set."""

from lane_oracle import formats
from lane_oracle.expected import Oracle
from lane_oracle.floats import operand
from lane_oracle.formats import FORMATS, encode, number
from lane_oracle.integers import read

ALIASES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
COMBINE = {
    "and": lambda x, y: x and y,
    "or": lambda x, y: x or y,
    "xor": lambda x, y: x != y,
}


def holds(words: list[str], t: str, a: int, b: int) -> bool:
    """Does the comparison `words[1]` hold between two encodings?"""
    name = ALIASES.get(words[1], words[1])
    if t not in FORMATS:
        x, y = read(a, t), read(b, t)
        return _outcome(name, x < y, x == y)
    u, v = operand(FORMATS[t], a, words), operand(FORMATS[t], b, words)
    if name in ("num", "nan"):
        return (u is not None and v is not None) == (name == "num")
    if u is None or v is None:
        return len(name) == 3
    return _outcome(name[:2], formats.less(u, v), formats.equal(u, v))


def _outcome(name: str, less: bool, equal: bool) -> bool:
    return {
        "eq": equal,
        "ne": not equal,
        "lt": less,
        "le": less or equal,
        "gt": not (less or equal),
        "ge": not less,
    }[name]


def predicate(words: list[str]) -> Oracle:
    """setp: p and q; for pairs the answers of the low and the high half."""
    t = words[-1]
    combine = COMBINE.get(words[2])

    def oracle(args: tuple[int, ...]) -> tuple[int, int]:
        a, b = args[:2]
        if t.endswith("x2"):
            half = t[:-2]
            p = holds(words, half, a & 0xFFFF, b & 0xFFFF)
            q = holds(words, half, a >> 16, b >> 16)
        else:
            p = holds(words, t, a, b)
            q = not p
        if combine:
            p, q = combine(p, bool(args[2])), combine(q, bool(args[2]))
        return (int(p), int(q))

    return oracle


def value(words: list[str]) -> Oracle:
    """set: ones everywhere, or 1.0 where the result is a float."""
    d, s = words[-2:]
    if s.endswith("x2"):
        each = d[:-2] if d.endswith("x2") else "u16"
        return lambda args: (
            _truth(each, holds(words, s[:-2], args[0] & 0xFFFF, args[1] & 0xFFFF))
            | _truth(each, holds(words, s[:-2], args[0] >> 16, args[1] >> 16)) << 16,
        )
    return lambda args: (_truth(d, holds(words, s, args[0], args[1])),)


def _truth(d: str, held: bool) -> int:
    if d in FORMATS:
        return encode(FORMATS[d], number(int(held)))
    return (1 << int(d[1:])) - 1 if held else 0
