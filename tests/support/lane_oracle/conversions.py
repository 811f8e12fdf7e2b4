"""cvt in every form."""

from lane_oracle import formats
from lane_oracle.expected import Expected, Oracle
from lane_oracle.floats import finish, operand
from lane_oracle.formats import F32, FORMATS, TF32, Real, decode, number
from lane_oracle.integers import clamp, cut, read, width_of

INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def convert(words: list[str]) -> Oracle:
    """The oracle of a cvt."""
    if words[1] == "pack":
        return _pack(words)
    d, s = words[-2:]
    if d == "tf32":
        return _tf32(words)
    if d.endswith("x2") or s.endswith("x2"):
        return _pairs(words)
    if s not in FORMATS:
        if d not in FORMATS:
            saturates = "sat" in words
            return lambda args: (
                clamp(read(args[0], s), d) if saturates else cut(read(args[0], s), d),
            )
        return lambda args: (finish(FORMATS[d], number(read(args[0], s)), words),)
    if d not in FORMATS:
        return _to_integer(words)
    return lambda args: (_to_float(words, args[0]),)


def _integral(value: Real, words: list[str]) -> Real:
    mode = next((INTEGRAL[w] for w in words if w in INTEGRAL), None)
    if mode is None or value is None or value.size is None:
        return value
    whole = formats.round_integer(value.value, mode)
    return number(whole, negative_zero=value.negative)


def _to_integer(words: list[str]) -> Oracle:
    d, s = words[-2:]
    width = width_of(d)

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        value = _integral(_source(words, args[0]), words)
        if value is None:
            return (1 << (width - 1) if s == "f64" or width == 64 else 0,)
        if value.size is None:
            return (clamp(-(1 << 99) if value.negative else 1 << 99, d),)
        return (clamp(int(value.value), d),)

    return oracle


def _source(words: list[str], bits: int) -> Real:
    """.ftz flushes f32 alone, and not on the way to f16."""
    d, s = words[-2:]
    return operand(FORMATS[s], bits, words if s == "f32" and d != "f16" else [])


def _to_float(words: list[str], bits: int) -> Expected:
    d = words[-2]
    value = _integral(_source(words, bits), words)
    if value is None and "sat" not in words and d != "f64":
        kept = _kept_nan(words, bits)
        if kept is not None:
            return kept
    return finish(FORMATS[d], value, words, flushes=d == "f32")


def _kept_nan(words: list[str], bits: int) -> int | None:
    """A NaN that keeps its sign and payload; None where it becomes the canonical one."""
    d, s = words[-2:]
    if words[1:-2] == [] and (d, s) in (("f32", "f32"), ("f32", "bf16")):
        return bits << (F32.width - FORMATS[s].width)
    if s != "f64":
        return None
    form = FORMATS[d]
    payload = bits >> (52 - form.mantissa) & ((1 << form.mantissa) - 1)
    assert form.infinity is not None
    quiet = form.infinity | 1 << (form.mantissa - 1) | payload
    return bits >> 63 << (form.width - 1) | quiet


def _tf32(words: list[str]) -> Oracle:
    def oracle(args: tuple[int, ...]) -> tuple[int]:
        value = decode(F32, args[0])
        if value is None:
            cuts = "rna" in words and "satfinite" not in words
            return (args[0] >> 13 << 13 if cuts else TF32.nan << 13,)
        bits = finish(TF32, value, words)
        assert isinstance(bits, int)
        return (bits << 13,)

    return oracle


def _pairs(words: list[str]) -> Oracle:
    d, s = words[-2:]
    to, source = (FORMATS.get(t.removesuffix("x2"), F32) for t in (d, s))

    def narrow(value: Real) -> int:
        bits = finish(to, value, words)
        assert isinstance(bits, int)
        return bits

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        if s == "f32":
            high, low = (decode(F32, a) for a in args)
        else:
            high, low = (
                decode(source, args[0] >> source.width),
                decode(source, args[0] & ((1 << source.width) - 1)),
            )
        return (narrow(high) << to.width | narrow(low),)

    return oracle


def _pack(words: list[str]) -> Oracle:
    t = words[3]
    width = width_of(t)

    def oracle(args: tuple[int, ...]) -> tuple[int]:
        a, b = (clamp(read(x, "s32"), t) for x in args[:2])
        above = args[2] << (2 * width) if len(args) > 2 else 0
        return (cut(above | a << width | b, "b32"),)

    return oracle
