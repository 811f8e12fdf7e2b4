"""Values as the state holds them: without what a reader would assume anyway."""

import dataclasses
from functools import cache
from typing import Any

from cuda_llm.codec import encode

REQUIRED = object()
"""Stands for the default of a field that has none: equal to nothing."""


def lean(value: Any) -> dict[str, Any]:
    """A dataclass in plain JSON, fields at their defaults left out: they decode to the same."""
    kind: Any = type(value)
    defaults = _defaults(kind)
    whole: dict[str, Any] = encode(value)
    return {key: item for key, item in whole.items() if item != defaults.get(key, REQUIRED)}


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    found = {}
    for one in dataclasses.fields(kind):
        if one.default is not dataclasses.MISSING:
            found[one.name] = encode(one.default)
        elif one.default_factory is not dataclasses.MISSING:
            found[one.name] = encode(one.default_factory())
    return found
