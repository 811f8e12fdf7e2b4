"""Spellings of distributions."""

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.tasks.distribution import FAMILIES, Distribution, parse_distribution


def test_splits_name_and_arguments() -> None:
    assert parse_distribution("normal") == Distribution(name="normal")
    assert parse_distribution(" ints(-1, min(n, 7) ) ") == Distribution(
        name="ints", arguments=("-1", "min(n, 7)")
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_can_be_spelled(name: str) -> None:
    arguments = FAMILIES[name].arguments
    text = f"{name}({', '.join('1' for _ in arguments)})" if arguments else name
    assert parse_distribution(text).name == name
    assert FAMILIES[name].floats or FAMILIES[name].integers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("normale", "did you mean normal?"),
        ("ints(1)", "has 1 arguments; expected ints(low, high)"),
        ("normal(0, 1)", "has 2 arguments; expected normal"),
        ("bins(count=3)", "is no distribution"),
        ("a.b()", "is no distribution"),
        ("", "is no distribution"),
        ("xyzzy", "known: normal, "),
    ],
)
def test_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        parse_distribution(text)
    assert message in str(caught.value)
