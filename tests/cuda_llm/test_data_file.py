"""Files into dataclasses: what fits, and the one line that says what does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cuda_llm.data_file import Count, Positive, Text, UnfitError, read_as, read_table
from cuda_llm.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Wheel:
    spokes: Count
    inches: Positive = 28.0


@dataclass(frozen=True, kw_only=True)
class Bicycle:
    name: Text
    wheels: tuple[Wheel, ...]
    gears: tuple[tuple[Count, Count], ...] = ()
    parts: Mapping[str, Wheel] = field(default_factory=dict)
    folder: Path


HERE = {"folder": Path("here")}
GOOD: dict[str, Any] = {"name": "mine", "wheels": [{"spokes": 36}, {"spokes": 32, "inches": 26}]}


def test_tables_and_arrays_become_values() -> None:
    assert read_as(Bicycle, GOOD, HERE) == Bicycle(
        name="mine", wheels=(Wheel(spokes=36), Wheel(spokes=32, inches=26.0)), folder=Path("here")
    )


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": " "}, "name: found a blank string; expected some text"),
        ({"name": 3}, "name: found 3; expected some text"),
        ({"wheels": 2}, "wheels: found 2; expected an array"),
        ({"wheels": ["round"]}, "wheels[0]: found round; expected a table"),
        (
            {"wheels": [{}]},
            "wheels[0].spokes: found nothing; expected a whole number of at least 1",
        ),
        (
            {"wheels": [{"spokes": True}]},
            "wheels[0].spokes: found True; expected a whole number of at least 1",
        ),
        (
            {"wheels": [{"spokes": 1, "inch": 3}]},
            "wheels[0].inch: found an unknown key; expected inches",
        ),
        ({"gears": [[48]]}, "gears[0][1]: found nothing; expected a whole number of at least 1"),
        ({"parts": 1}, "parts: found 1; expected a table"),
        (
            {"parts": {"spare": {"spokes": 1, "colour": "red"}}},
            "parts.spare.colour: found an unknown key; expected one of spokes, inches",
        ),
        (
            {"colour": "red"},
            "colour: found an unknown key; expected one of name, wheels, gears, parts",
        ),
        ({"folder": "there"}, "folder: found an unknown key; expected one of name, wheels,"),
    ],
)
def test_what_does_not_fit_is_one_line_with_its_place(change: Mapping[str, Any], line: str) -> None:
    with pytest.raises(UnfitError) as refused:
        read_as(Bicycle, {**GOOD, **change}, HERE)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_what_is_missing_at_the_top_is_named_with_what_belongs_there() -> None:
    with pytest.raises(UnfitError, match="wheels: found nothing; expected an array"):
        read_as(Bicycle, {"name": "mine"}, HERE)


@pytest.mark.parametrize(
    ("content", "expected"), [(b"a = = 1", "is not TOML"), (b"\xff\xfe", "is not TOML")]
)
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=rf"broken\.toml: {expected}"):
        read_table(path, UsageError)
    with pytest.raises(UsageError, match=r"none\.toml: not found"):
        read_table(tmp_path / "none.toml", UsageError)
