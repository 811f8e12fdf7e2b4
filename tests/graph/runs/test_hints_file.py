"""Hints in the hands of a person."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.fork import Hints, from_toml, to_toml
from cuda_llm.search import Hint

words = st.text(max_size=40)
hints = st.builds(
    Hint,
    round=st.integers(0, 9),
    about=words,
    code=words,
    cause=words,
    times=st.integers(1, 9),
    text=words.filter(str.strip),
    evidence=words,
    hardware_text=words,
    avoid=st.lists(words, max_size=2).map(tuple),
    by=words,
)
several = st.lists(hints, max_size=3).map(tuple)


@given(st.builds(Hints, round=st.just(3), error_hints=several, performance_hints=several))
def test_a_file_that_nobody_edits_gives_the_same_hints(before: Hints) -> None:
    assert from_toml(to_toml(before), 3, "hints.toml") == before


def test_a_hint_of_ones_own_needs_only_a_text() -> None:
    text = '[[performance_hints]]\ntext = "Use float4."\n'
    (hint,) = from_toml(text, 2, "hints.toml").performance_hints
    assert hint == Hint(round=2, about="", code="USER", text="Use float4.", by="user")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[error_hints", "hints.toml: is not TOML"),
        (
            "[[hints]]\ntext='x'",
            "hints: found an unknown key; expected error_hints",
        ),
        ("[[error_hints]]\ncode='x'", "error_hints[0].text: found nothing; expected a string"),
        (
            "[[error_hints]]\ntext='x'\ncolour='red'",
            "error_hints[0].colour: found an unknown key; expected one of",
        ),
        ("[[error_hints]]\ntext='x'\nround='late'", "error_hints[0].round: found late; expected a"),
        (
            "[[error_hints]]\ntext=' '",
            "error_hints[0].text: found a blank string; expected some text",
        ),
        ("[[error_hints]]\ntext='x'\nid='r1-h1'", "error_hints[0].id: found an unknown key"),
        ("error_hints = ['x']", "error_hints[0]: found x; expected a table"),
        ("error_hints = 'x'", "error_hints: found x; expected an array"),
    ],
)
def test_a_mistake_is_named(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as caught:
        from_toml(text, 1, "hints.toml")
    assert complaint in str(caught.value)
