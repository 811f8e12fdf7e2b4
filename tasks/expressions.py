"""Arithmetic that a task folder may write: `H - R + 1`, `ceil_div(n, 256) * 4`, `H >= R`.

Whole numbers stay exact. There is nothing to call but min, max and ceil_div, nothing to reach
into, and no result grows past 4,096 bits, so a task folder from a stranger is safe to read.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any

from cuda_llm.data_file import Rule, UnfitError
from cuda_llm.errors import TaskError

Number = int | float | bool

_MAX_LENGTH = 400
_MAX_BITS = 4096

_COMPARE: Mapping[type[ast.cmpop], Callable[[Number, Number], bool]] = MappingProxyType(
    {
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
    }
)
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = MappingProxyType(
    {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
)


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > 64:
        raise TaskError(f"exponent {exponent} is out of range; expected at most 64")
    result: Number = base**exponent
    if isinstance(result, complex):
        raise TaskError(f"{base} ** {exponent} is no real number")
    return result


def _ceil_div(dividend: Number, divisor: Number) -> Number:
    return -(-dividend // divisor)


_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: _power,
    }
)
_CALLS: Mapping[str, Callable[..., Number]] = MappingProxyType(
    {"min": min, "max": max, "ceil_div": _ceil_div}
)


def evaluate(text: str, dims: Mapping[str, int]) -> Number:
    """Return the value of `text`, whose names are dims. Raises TaskError that names the fault."""
    tree = _parse(text)
    try:
        return _value(tree, dims)
    except TaskError as error:
        raise TaskError(f"{text!r}: {error}") from None
    except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
        raise TaskError(f"{text!r}: {error}") from None


def names_in(text: str) -> frozenset[str]:
    """Return the names in a legal expression. Raises TaskError where it is not legal."""
    return _names(_parse(text), text)


def _check_expression(value: Any, info: Any) -> str:
    """Return the expression as text. Raises UnfitError: illegal, or with a name that is no dim."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UnfitError(value, "an expression in dims")
    text, dims = str(value), info.context.get("dims")
    if not isinstance(dims, Mapping):
        return text  # The table itself is refused.
    try:
        unknown = names_in(text) - set(dims)
    except TaskError as error:
        raise UnfitError(str(error), "an expression in dims") from None
    if unknown:
        listed = ", ".join(sorted(unknown))
        raise UnfitError(f"{text!r} with unknown {listed}", f"only {', '.join(dims) or 'numbers'}")
    return text


Expression = Annotated[
    str, Rule(lambda core: core.with_info_plain_validator_function(_check_expression))
]
"""A field of a task file: arithmetic on the file's dims."""
OptionalExpression = Annotated[
    str,
    Rule(
        lambda core: core.with_info_plain_validator_function(
            lambda value, info: "" if value == "" else _check_expression(value, info)
        )
    ),
]


@lru_cache(maxsize=1024)
def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_LENGTH:
        raise TaskError(f"expression of {len(text)} characters; expected at most {_MAX_LENGTH}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise TaskError(f"{text!r} is no expression; expected arithmetic on dims") from None


def _value(node: ast.expr, dims: Mapping[str, int]) -> Number:
    result = _unbounded_value(node, dims)
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        raise TaskError(f"a value needs more than {_MAX_BITS} bits")
    return result


def _unbounded_value(node: ast.expr, dims: Mapping[str, int]) -> Number:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            if name not in dims:
                raise TaskError(f"unknown name {name}; expected one of {', '.join(dims) or 'none'}")
            return dims[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left, dims), _value(right, dims))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, dims))
        case ast.BoolOp(op=op, values=[first, *rest]):
            value = _value(first, dims)
            for part in rest:
                if bool(value) is isinstance(op, ast.Or):
                    break
                value = _value(part, dims)
            return value
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            return _compare(left, ops, comparators, dims)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _CALLS:
            return _CALLS[name](*(_value(argument, dims) for argument in arguments))
    raise TaskError(_illegal(node))


def _compare(
    left: ast.expr, ops: list[ast.cmpop], comparators: list[ast.expr], dims: Mapping[str, int]
) -> bool:
    value = _value(left, dims)
    for op, comparator in zip(ops, comparators, strict=True):
        if type(op) not in _COMPARE:
            raise TaskError(f"{type(op).__name__} is no comparison of numbers")
        following = _value(comparator, dims)
        if not _COMPARE[type(op)](value, following):
            return False
        value = following
    return True


def _names(node: ast.expr, text: str) -> frozenset[str]:
    """Return the names below `node` without evaluating, because no size is known yet."""
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return frozenset()
        case ast.Name(id=name):
            return frozenset({name})
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = [left, right]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            parts = [operand]
        case ast.BoolOp(values=parts):
            pass
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(
            type(op) in _COMPARE for op in ops
        ):
            parts = [left, *comparators]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _CALLS:
            pass
        case _:
            raise TaskError(f"{text!r}: {_illegal(node)}")
    return frozenset().union(*(_names(part, text) for part in parts))


def _illegal(node: ast.expr) -> str:
    return (
        f"`{ast.unparse(node)}` is not allowed; expected numbers, dims, + - * / // % **, "
        "comparisons, and, or, not, min, max, ceil_div"
    )
