"""Hints as a small TOML file that a person edits.

[[performance_hints]]
code = "bank_conflicts"
about = "r1-c2"
text = "Pad the tile by one column."
"""

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.search import Hint

CHANNELS = ("error_hints", "performance_hints")
ALWAYS = ("code", "about", "text", "by")
KEYS = tuple(field for field in fields(Hint) if field.name != "id")
"""What an entry may say. Its id follows from that: a hint that was changed is another one."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What a run has learned, by channel."""

    round: int
    """After which round."""
    error_hints: tuple[Hint, ...] = ()
    performance_hints: tuple[Hint, ...] = ()


def to_toml(hints: Hints) -> str:
    """The file, with a word on how to edit it."""
    return "\n".join(_lines(hints)) + "\n"


def from_toml(text: str, round_: int, name: str) -> Hints:
    """The hints of an edited file. What an entry leaves out is a person's own.

    Raises UsageError naming the file `name`, the entry and what was expected.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{name}: no TOML: {error}") from None
    unknown = sorted(set(data) - set(CHANNELS))
    if unknown:
        expected = " and ".join(f"[[{channel}]]" for channel in CHANNELS)
        raise UsageError(f"{name}: unknown key {unknown[0]!r}; expected {expected}")
    read = {channel: tuple(_read(data, channel, round_, name)) for channel in CHANNELS}
    return Hints(round=round_, **read)


def _lines(hints: Hints) -> Iterator[str]:
    yield f"# What the run has learned up to round {hints.round}. Change, add or delete entries;"
    yield "# the new run goes on with what is left. An entry of your own needs only a text."
    for channel in CHANNELS:
        for hint in getattr(hints, channel):
            yield from ("", f"[[{channel}]]")
            for field in KEYS:
                value = encode(getattr(hint, field.name))
                if field.name in ALWAYS or value not in ("", [], field.default):
                    yield f"{field.name} = {_spell(value)}"
    yield from ("", "# [[performance_hints]]", '# text = "..."')


def _spell(value: Any) -> str:
    """A TOML value. JSON spells strings, numbers and lists alike, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(data: dict[str, Any], channel: str, round_: int, name: str) -> Iterator[Hint]:
    entries = data.get(channel, [])
    if not isinstance(entries, list):
        raise UsageError(f"{name}: {channel} is no list; expected [[{channel}]]")
    known = [field.name for field in KEYS]
    for number, entry in enumerate(entries, 1):
        where = f"{name}: {channel} {number}"
        if not isinstance(entry, dict) or not str(entry.get("text", "")).strip():
            raise UsageError(f'{where}: expected text = "..."')
        unknown = sorted(set(entry) - set(known))
        if unknown:
            raise UsageError(f"{where}: unknown key {unknown[0]!r}; there are {', '.join(known)}")
        own = {"round": round_, "about": "", "code": "USER", "by": "user"}
        try:
            yield decode(Hint, {**own, **entry})
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
