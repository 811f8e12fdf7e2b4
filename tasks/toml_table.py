"""A TOML table read key by key, every complaint naming file, key, what was found and expected."""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import names_in

Choice = TypeVar("Choice", bound=StrEnum)

_REQUIRED: Any = object()


class TomlTable:
    """One table. Read the keys you know, then call `finish` to refuse the others."""

    def __init__(self, file: Path, values: Mapping[str, Any], prefix: str = "") -> None:
        self.file = file
        self._values = values
        self._prefix = prefix
        self._known: list[str] = []

    @classmethod
    def read(cls, file: Path) -> "TomlTable":
        """Parse a file. Raises TaskError where it is missing, unreadable or no TOML."""
        try:
            return cls(file, tomllib.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise TaskError(f"{file}: not found; expected a task description") from None
        except OSError as error:
            raise TaskError(f"{file}: cannot be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TaskError(f"{file}: is not TOML: {' '.join(str(error).split())}") from None

    @property
    def where(self) -> str:
        """File and name of this table."""
        return f"{self.file}: {self._prefix.removesuffix('.')}"

    def refuse(self, key: str, found: object, expected: str) -> NoReturn:
        """Complain about one key of this table."""
        shown = found if isinstance(found, str) else repr(found)
        shown = " ".join(shown.split())
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise TaskError(f"{self.file}: {self._prefix}{key}: found {shown}; expected {expected}")

    def finish(self) -> None:
        """Refuse keys nobody asked for."""
        for key in self._values:
            if key not in self._known:
                close = difflib.get_close_matches(key, self._known, n=1)
                known = f"{close[0]}" if close else "one of " + ", ".join(self._known)
                self.refuse(key, "an unknown key", known)

    def keys(self) -> tuple[str, ...]:
        """All keys, where the keys themselves are data."""
        self._known = list(self._values)
        return tuple(self._values)

    def _get(self, key: str, default: Any, expected: str) -> Any:
        self._known.append(key)
        if key in self._values:
            return self._values[key]
        if default is _REQUIRED:
            self.refuse(key, "nothing", expected)
        return default

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """A string of one or more lines, not blank unless that is the default."""
        value = self._get(key, default, "a string")
        if not isinstance(value, str):
            self.refuse(key, value, "a string")
        if not value.strip() and value != default:
            self.refuse(key, "a blank string", "some text")
        return value

    def choice(self, key: str, kinds: type[Choice], default: Choice = _REQUIRED) -> Choice:
        """One of the values of an enumeration."""
        expected = "one of " + ", ".join(kinds)
        value = self._get(key, default, expected)
        try:
            return kinds(value)
        except ValueError:
            self.refuse(key, value, expected)

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`."""
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            self.refuse(key, value, "true or false")
        return value

    def whole(self, key: str, default: int = _REQUIRED, least: int = 1) -> int:
        """A whole number of at least `least`."""
        expected = f"a whole number of at least {least}"
        value = self._get(key, default, expected)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.refuse(key, value, expected)
        return value

    def number(self, key: str, default: float = _REQUIRED) -> float:
        """A finite number, not negative."""
        value = self._get(key, default, "a number of at least 0")
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
            self.refuse(key, value, "a number of at least 0")
        return float(value)

    def expression(self, key: str, names: Mapping[str, Any], default: str = _REQUIRED) -> str:
        """Arithmetic on the given names; a bare number is taken as its text."""
        value = self._get(key, default, "an expression in dims")
        if value == "" and default == "":
            return ""
        return self._checked_expression(key, value, names)

    def expressions(self, key: str, names: Mapping[str, Any]) -> tuple[str, ...]:
        """An array of expressions."""
        value = self._get(key, _REQUIRED, "an array of expressions in dims")
        if not isinstance(value, list) or not value:
            self.refuse(key, value, "an array of expressions in dims")
        return tuple(
            self._checked_expression(f"{key}[{i}]", item, names) for i, item in enumerate(value)
        )

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings, empty where absent."""
        value = self._get(key, [], "an array of strings")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.refuse(key, value, "an array of strings")
        return tuple(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        """An array of positive numbers, empty where absent."""
        value = self._get(key, [], "an array of positive numbers")
        if not isinstance(value, list) or not all(
            isinstance(item, int | float) and not isinstance(item, bool) and 0 < item < float("inf")
            for item in value
        ):
            self.refuse(key, value, "an array of positive numbers")
        return tuple(map(float, value))

    def table(self, key: str, optional: bool = False) -> "TomlTable":
        """A table below this one, empty where it is optional and absent."""
        value = self._get(key, {} if optional else _REQUIRED, "a table")
        if not isinstance(value, dict):
            self.refuse(key, value, "a table")
        return TomlTable(self.file, value, f"{self._prefix}{key}.")

    def has(self, key: str) -> bool:
        """Whether the key is written at all."""
        return key in self._values

    def tables(self, key: str) -> Iterator["TomlTable"]:
        """The elements of an array of tables, at least one."""
        value = self._get(key, _REQUIRED, "an array of tables")
        if not isinstance(value, list) or not value:
            self.refuse(key, value, "an array of tables")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                self.refuse(f"{key}[{index}]", item, "a table")
            yield TomlTable(self.file, item, f"{self._prefix}{key}[{index}].")

    def _checked_expression(self, key: str, value: object, names: Mapping[str, Any]) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            self.refuse(key, value, "an expression in dims")
        try:
            unknown = names_in(value) - set(names)
        except TaskError as error:
            self.refuse(key, str(error), "an expression in dims")
        if unknown:
            self.refuse(
                key,
                f"{value!r} with unknown {', '.join(sorted(unknown))}",
                f"only {', '.join(names) or 'numbers'}",
            )
        return value
