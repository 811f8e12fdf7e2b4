"""Reads what a TOML or JSON file holds into a frozen dataclass that is also its schema.

pydantic checks it and loads at the first file. What does not fit is refused on one line that names
the key, what was found and what was expected.
"""

import difflib
import json
import tomllib
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

from cuda_llm.errors import UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Place = tuple[str | int, ...]
"""Keys and indices from the top of a file to a value."""

LONGEST_SHOWN = 80
"""Characters of a value that its message shows, to the end of a word."""

_WORDS = {
    "string_type": "a string",
    "bool_type": "true or false",
    "tuple_type": "an array",
    "dataclass_type": "a table",
    "mapping_type": "a table",
    "dict_type": "a table",
}
"""Words of TOML for what pydantic calls by Python's."""


class UnfitError(ValueError):
    """A value does not fit. `str()` is one line: key, what was found, what was expected."""

    def __init__(self, found: object, expected: str, *place: str | int) -> None:
        self.found = found
        self.expected = expected
        self.place = place
        shown = " ".join((found if isinstance(found, str) else repr(found)).split())
        if len(shown) > LONGEST_SHOWN:
            start = shown[:LONGEST_SHOWN]
            shown = f"{start.rpartition(' ')[0] or start} ..."
        shown = shown or "a blank string"
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
        key = "".join(steps).removeprefix(".")
        super().__init__(f"{key + ': ' if key else ''}found {shown}; expected {expected}")


@dataclass(frozen=True)
class Rule:
    """Annotates a field with what its value must be.

    `build` makes the schema from `pydantic_core.core_schema`. Where it is a function that raises
    UnfitError, `expected` stays empty. A function finds the whole file in `info.context`.
    """

    build: Callable[[Any], Any]
    expected: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = self.build(core_schema)
        if not self.expected:
            return schema
        return core_schema.custom_error_schema(schema, "unfit", custom_error_message=self.expected)


Text = Annotated[str, Rule(lambda core: core.str_schema(pattern=r"\S"), "some text")]
Identifier = Annotated[
    str,
    Rule(lambda core: core.str_schema(pattern="^[A-Za-z][A-Za-z0-9_]*$"), "letters, digits and _"),
]
Extent = Annotated[int, Rule(lambda core: core.int_schema(ge=0), "a whole number of at least 0")]
Count = Annotated[int, Rule(lambda core: core.int_schema(ge=1), "a whole number of at least 1")]
Amount = Annotated[float, Rule(lambda core: core.float_schema(ge=0), "a number of at least 0")]
Positive = Annotated[
    float, Rule(lambda core: core.float_schema(gt=0, allow_inf_nan=False), "a number above 0")
]


def config_file() -> Path:
    """Return where the user's `config.toml` is looked for."""
    import platformdirs

    return Path(platformdirs.user_config_dir("cuda-llm")) / "config.toml"


def read_table(path: Path, error: type[UsageError]) -> dict[str, Any]:
    """Read the file as plain values. Raises `error`: missing, unreadable or no TOML."""
    try:
        return deepcopy(_parse(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise error(f"{path}: not found; expected a TOML file") from None
    except OSError as cause:
        raise error(f"{path}: cannot be read: {cause.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as cause:
        raise error(f"{path}: is not TOML: {' '.join(str(cause).split())}") from None


@lru_cache(maxsize=256)
def _parse(text: str) -> dict[str, Any]:
    """A run reads the same few files over and over, and parsing one takes milliseconds."""
    return tomllib.loads(text)


def read_as(
    kind: Callable[..., T], data: Mapping[str, Any], derived: Mapping[str, Any] | None = None
) -> T:
    """Return the value of dataclass `kind` that a file spells.

    `derived` are fields that do not stand in the file. Raises UnfitError with the place of the
    first value that does not fit.
    """
    from pydantic import ValidationError

    derived = derived or {}
    whole = {**data, **derived}
    for key in derived:
        if key in data:
            raise UnfitError("an unknown key", _likely(key, kind, derived), key)
    # As JSON, because strict Python values would have to be tuples and enumerations already.
    text = json.dumps(whole, default=str)
    try:
        value: T = _adapter(kind).validate_json(text, strict=True, extra="forbid", context=whole)
    except ValidationError as refused:
        raise _explain(kind, json.loads(text), derived, refused.errors()[0]) from None
    return value


def _explain(
    kind: Any, given: Any, derived: Mapping[str, Any], first: Mapping[str, Any]
) -> UnfitError:
    """Say in the words of a TOML file what pydantic says of the first value that does not fit."""
    from pydantic import ValidationError

    *above, last = place = tuple(part for part in first["loc"] if part != "[key]")
    if first["type"] == "unexpected_keyword_argument":
        known = _likely(last, _kind_at(kind, above), () if above else derived)
        return UnfitError("an unknown key", known, *place)
    if first["type"] == "missing":
        # What belongs there is what the refusal of a value that fits nowhere says.
        table = given
        for part in above:
            table = table[part]
        if isinstance(table, list):
            table.append(None)
        else:
            table[last] = None
        try:
            _adapter(kind).validate_json(json.dumps(given), strict=True, context=given)
        except ValidationError as refused:
            expected = _explain(kind, given, derived, refused.errors()[0]).expected
            return UnfitError("nothing", expected, *place)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, UnfitError):
        return UnfitError(cause.found, cause.expected, *place)
    message = first["msg"].removeprefix("Input should be ")
    return UnfitError(first["input"], _WORDS.get(first["type"], message), *place)


def _kind_at(kind: Any, place: list[str | int]) -> Any:
    """Return the type of what stands at a place of a file that is read as `kind`."""
    for part in place:
        names = _file_names(kind)
        if part in names:
            kind = get_type_hints(kind)[names[part]]
        else:
            kind = get_args(kind)[0 if isinstance(part, int) else 1]
    return kind


def _file_names(kind: Any) -> dict[str | int, str]:
    """Return fields of a dataclass by their names in a file; nothing for other types."""
    spell = getattr(kind, "__pydantic_config__", {}).get("alias_generator", str)
    declared = fields(kind) if hasattr(kind, "__dataclass_fields__") else ()
    return {spell(one.name): one.name for one in declared}


def _likely(key: object, kind: Any, derived: Collection[str] = ()) -> str:
    known = [str(name) for name in _file_names(kind) if name not in derived]
    close = difflib.get_close_matches(str(key), known, n=1)
    return close[0] if close else "one of " + ", ".join(known)


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
