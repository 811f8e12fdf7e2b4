"""Random expressions without side effects, defined for all values."""

from random_kernels.scope import FLOATS, INTEGERS, TYPES, Scope

_BINARY = ("add", "sub", "mul", "conj", "disj", "excl", "quo", "rem", "least", "most")
_UNARY = ("inv", "neg")
_FLOAT_UNARY = ("root", "down", "cut", "even", "magnitude", "-")
_WORD = (
    "u32(__popc({0}))",
    "u32(__clz(i32({0})))",
    "__brev({0})",
    "u32(__ffs(i32({0})))",
    "__byte_perm({0}, {1}, {2})",
    "__umulhi({0}, {1})",
    "u32(__mulhi(i32({0}), i32({1})))",
    "__funnelshift_l({0}, {1}, {2})",
    "words[{0} & 31]",
    "add(mul({0}, {1}), {2})",
)
_LONG = ("u64(__popcll({0}))", "u64(__clzll(i64({0})))", "__umul64hi({0}, {1})")
# None half way between two values: nvcc rounds such a literal up, g++ to even.
_SPECIAL = {
    "f32": ("0.0f", "-0.0f", "1.0f", "3.4e38f", "1e-45f", "-7.25f", "16777215.0f", "0.1f"),
    "f64": ("0.0", "-0.0", "1.0", "1.7e308", "5e-324", "-7.25", "9007199254740991.0", "0.1"),
}


def expression(scope: Scope, kind: str, depth: int = 2) -> str:
    """An expression of a type."""
    draw = scope.random
    if depth <= 0 or draw.random() < 0.2:
        return _leaf(scope, kind)
    if draw.random() < 0.12:
        yes, no = (expression(scope, kind, depth - 1) for _ in range(2))
        return f"({condition(scope, depth - 1)} ? {yes} : {no})"
    if draw.random() < 0.12:
        return _converted(scope, kind, depth)
    if kind in FLOATS:
        return _floating(scope, kind, depth)
    return _integer(scope, kind, depth)


def condition(scope: Scope, depth: int = 2) -> str:
    """An expression that is true or false."""
    draw = scope.random
    if depth > 0 and draw.random() < 0.25:
        first, second = condition(scope, depth - 1), condition(scope, depth - 1)
        return f"({first} {draw.choice(('&&', '||', '!='))} {second})"
    if draw.random() < 0.1:
        return f"!({condition(scope, depth - 1)})"
    if draw.random() < 0.25:
        return f"({expression(scope, 'u32', depth)} & {draw.choice((1, 2, 3, 4, 16))})"
    kind = draw.choice(TYPES)
    first, second = expression(scope, kind, depth), expression(scope, kind, depth - 1)
    return f"({first} {draw.choice(('<', '<=', '>', '>=', '==', '!='))} {second})"


def small(scope: Scope, below: int) -> str:
    """A u32 below a power of two."""
    return f"({expression(scope, 'u32', 2)} & {below - 1})"


def _integer(scope: Scope, kind: str, depth: int) -> str:
    draw = scope.random
    one = expression(scope, kind, depth - 1)
    other = expression(scope, kind, depth - 2)
    match draw.randrange(10):
        case 0:
            return f"{draw.choice(_UNARY)}({one})"
        case 1:
            return f"{draw.choice(('shl', 'shr', 'rotate'))}({one}, {_amount(scope, depth)})"
        case 2:
            return f"field({one}, {_amount(scope, depth)}, {_amount(scope, depth)})"
        case 3 if kind in {"u32", "u64"}:
            third = expression(scope, kind, depth - 2)
            return draw.choice(_WORD if kind == "u32" else _LONG).format(one, other, third)
        case 4 if depth > 1:
            return f"whirl<{kind}, {draw.randrange(4)}>({one}, {other})"
        case 5 if scope.functions:
            return _called(scope, kind, depth)
    return f"{draw.choice(_BINARY)}<{kind}>({one}, {other})"


def _floating(scope: Scope, kind: str, depth: int) -> str:
    draw = scope.random
    one = expression(scope, kind, depth - 1)
    other = expression(scope, kind, depth - 2)
    match draw.randrange(8):
        case 0 | 1:
            return f"{draw.choice(_FLOAT_UNARY)}({one})"
        case 2:
            return f"fused({one}, {other}, {expression(scope, kind, depth - 2)})"
        case 3:
            return f"({one} / {other})"
        case 4 if scope.functions:
            return _called(scope, kind, depth)
    return f"({one} {draw.choice('+-*')} {other})"


def _amount(scope: Scope, depth: int) -> str:
    if scope.random.random() < 0.5:
        return str(scope.random.randrange(40))
    return expression(scope, "u32", depth - 2)


def _converted(scope: Scope, kind: str, depth: int) -> str:
    draw = scope.random
    source = draw.choice(TYPES)
    value = expression(scope, source, depth - 1)
    if kind in FLOATS or source in INTEGERS:
        return f"{kind}({value})"
    return f"{kind}(toward_{draw.choice(('u32', 'i32', 'u64', 'i64'))}({value}))"


def _called(scope: Scope, kind: str, depth: int) -> str:
    function = scope.random.choice(scope.functions)
    values = ", ".join(expression(scope, t, min(depth - 2, 1)) for t in function.takes)
    call = f"{function.name}({values})"
    if kind == function.gives:
        return call
    return f"{kind}(bits({call}))"


def _leaf(scope: Scope, kind: str) -> str:
    draw = scope.random
    names = [name for name, its in scope.variables if its == kind]
    arrays = [(name, size) for name, its, size in scope.arrays if its == kind]
    choice = draw.random()
    if arrays and choice < 0.25:
        name, size = draw.choice(arrays)
        return f"{name}[{_index(scope, size)}]"
    if names and choice < 0.75:
        return draw.choice(names)
    if choice < 0.85 and kind not in FLOATS:
        name, its = draw.choice(scope.variables)
        return f"{kind}({name})" if its in INTEGERS else f"{kind}(bits({name}))"
    return literal(scope, kind)


def _index(scope: Scope, size: int) -> str:
    if scope.random.random() < 0.3:
        return str(scope.random.randrange(size))
    name, its = scope.random.choice(scope.variables)
    return f"{name} & {size - 1}" if its in INTEGERS else f"bits({name}) & {size - 1}"


def literal(scope: Scope, kind: str) -> str:
    """A constant, often one at the edge of its type."""
    draw = scope.random
    if kind in FLOATS:
        if draw.random() < 0.5:
            return f"({draw.choice(_SPECIAL[kind])})"
        return f"{kind}({draw.uniform(-100, 100):.3f})"
    width = int(kind[1:])
    value = draw.choice(
        (0, 1, 2, 7, 31, draw.randrange(100), draw.getrandbits(width), 1 << (width - 1))
    )
    value &= (1 << width) - 1
    return f"{kind}({value:#x}{'ull' if width == 64 else 'u'})"
