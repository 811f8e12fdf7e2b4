"""Arithmetic of task folders: agrees with Python's, and refuses everything else."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate, names_in

DIMS = {"H": 7, "W": 12, "n": 1}

leaves = st.one_of(st.integers(0, 100).map(str), st.sampled_from(sorted(DIMS)))
texts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(
            "({} {} {})".format,
            inner,
            st.sampled_from(
                ["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"]
            ),
            inner,
        ),
        st.builds("({} ** {})".format, inner, st.integers(0, 3).map(str)),
        st.builds("(-{})".format, inner),
        st.builds("(not {})".format, inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("max({}, {})".format, inner, inner),
        st.builds("({} < {} <= {})".format, inner, inner, inner),
    ),
    max_leaves=12,
)


@given(texts)
def test_agrees_with_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "min": min, "max": max}, dict(DIMS))
    except ArithmeticError:
        with pytest.raises(TaskError):
            evaluate(text, DIMS)
        return
    found = evaluate(text, DIMS)
    assert found == expected
    assert type(found) is type(expected)


@given(texts)
def test_knows_the_names_of_what_it_can_evaluate(text: str) -> None:
    assert names_in(text) == set(re.findall(r"\b[HWn]\b", text))


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_ceil_div_rounds_up(dividend: int, divisor: int) -> None:
    quotient = evaluate(f"ceil_div({dividend}, {divisor})", {})
    assert isinstance(quotient, int)
    assert (quotient - 1) * divisor < dividend <= quotient * divisor


@given(st.text(max_size=60))
def test_never_fails_but_with_a_task_error(text: str) -> None:
    try:
        value = evaluate(text, DIMS)
    except TaskError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(value, int | float)
        assert not isinstance(value, int) or value.bit_length() <= 4096


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n.real",
        "n[0]",
        "'a' * 9",
        "__import__('os')",
        "(lambda: 1)()",
        "[n for n in n]",
        "n if n else n",
        "min(*n)",
        "min(n, key=n)",
        "print(n)",
        "n & 1",
        "~n",
        "1j",
        "n := 2",
        "n is n",
        "f'{n}'",
        "9 ** 9 ** 9",
        "2 ** 65",
        "(-1) ** 0.5",
        "0 ** -1",
        "1 / 0",
        "min()",
        "-" * 5000 + "1",
        "(" * 150 + "1" + ")" * 150 + "[0]",
        "*".join(["(9 ** 64)"] * 30),
    ],
)
def test_refuses_what_is_not_arithmetic(text: str) -> None:
    with pytest.raises(TaskError):
        evaluate(text, {"n": 3})


def test_names_the_unknown_name() -> None:
    with pytest.raises(TaskError, match="unknown name m; expected one of n"):
        evaluate("n + m", {"n": 3})


def test_whole_numbers_stay_exact() -> None:
    assert evaluate("n ** 3 // n ** 2", {"n": 2**53 + 1}) == 2**53 + 1
    assert math.isclose(float(evaluate("n / 3", {"n": 1})), 1 / 3)
