"""Text of others made safe: secrets stay out of records, control characters out of terminals."""

import os
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "(key)"
LEAST = 8
"""A shorter one, such as the `none` that stands for no key, is no secret."""

_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
_FIELDS = re.compile(r"(?i)^(.*[_-])?(api_?key|access_?key|secret|password|authorization|token)$")
_SHAPES = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}"
    r"|(?<=Bearer )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"
)
"""Keys of OpenAI's form, bearer tokens, user and password of an address."""

_known: set[str] = set()


def hide(*secrets: str) -> None:
    """Keep these out of every record of this process from now on."""
    _known.update(one for one in secrets if len(one) >= LEAST)


def names_a_secret(variable: str) -> bool:
    """Return whether an environment variable of that name is taken for a secret."""
    return any(word in variable.upper() for word in _NAMES)


def redact(value: Any, name: str = "") -> Any:
    """Return the value without secrets: text, and what lists and mappings hold.

    All of a text counts as one where `name`, the field's, says so.
    """
    match value:
        case str():
            if name and len(value) >= LEAST and _FIELDS.match(name):
                return HIDDEN
            return _redact_text(value)
        case Mapping():
            return {key: redact(one, str(key)) for key, one in value.items()}
        case list():
            return [redact(one, name) for one in value]
        case tuple() if type(value) is tuple:
            return tuple(redact(one, name) for one in value)
        case _:
            return value


def _redact_text(text: str) -> str:
    for secret in sorted(_known | _of_environment(), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _SHAPES.sub(HIDDEN, text)


def _of_environment() -> set[str]:
    found = (value for name, value in os.environ.items() if names_a_secret(name))
    return {value for value in found if len(value) >= LEAST}


def printable(text: str) -> str:
    """Return the text without control characters: a kernel must not steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
