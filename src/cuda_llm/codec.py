"""Values to plain JSON and back. Importing this is free; decoding loads pydantic."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from cuda_llm.outcomes import InfraFailed, Verdict

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def encode(value: Any) -> Any:
    """`value` in JSON's own types. Numbers that are not finite become strings that decode."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value)]
        return {name: encode(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, Set)):
        return [encode(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, Path) else value


def decode(kind: Callable[..., T], data: Any) -> T:
    """The value of dataclass `kind` that `data` was encoded from.

    Raises ValueError: `field: why`, of the first field that does not fit.
    """
    from pydantic import ValidationError

    try:
        value: T = _adapter(kind).validate_python(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return value


def encode_verdict(verdict: Verdict) -> dict[str, Any]:
    """The verdict's fields, its code first."""
    return {"code": verdict.code, **encode(verdict)}


def decode_verdict(data: Mapping[str, Any]) -> Verdict:
    """The verdict that `data` was encoded from. Raises ValueError."""
    fields = {key: value for key, value in data.items() if key != "code"}
    code = str(data.get("code"))
    verdict: Verdict = decode(_verdict_kinds().get(code, InfraFailed), fields)
    return verdict


@cache
def _verdict_kinds() -> dict[str, Any]:
    return {kind.code: kind for kind in get_args(Verdict) if isinstance(kind.code, str)}


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
