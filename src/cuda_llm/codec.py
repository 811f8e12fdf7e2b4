"""Values to plain JSON and back. Importing this is free; decoding loads pydantic."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Set
from enum import Enum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, get_args

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from cuda_llm.outcomes import Verdict

T = TypeVar("T")
SPARSE: Mapping[str, bool] = MappingProxyType({"sparse": True})
"""Metadata of a dataclass field that `encode` leaves out while it has its default."""


class ByCode:
    """Annotation of a union of verdicts in a field: each is decoded by its code."""

    def __get_pydantic_core_schema__(self, union: Any, handler: Callable[[Any], Any]) -> Any:
        """Return pydantic's schema, which reads `code` first."""
        from pydantic_core import core_schema

        kinds = {kind.code: handler(kind) for kind in get_args(union)}
        return core_schema.tagged_union_schema(kinds, discriminator="code")


def encode(value: Any) -> Any:
    """Return `value` in JSON's own types, a verdict with its code.

    Infinities and NaN become strings that decode.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = [one for one in dataclasses.fields(value) if not _is_left_out(value, one)]
        code = getattr(type(value), "code", None)
        head = {"code": code} if isinstance(code, str) else {}
        return {**head, **{one.name: encode(getattr(value, one.name)) for one in told}}
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
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return str(value) if isinstance(value, Path) else value


def _is_left_out(value: Any, one: "dataclasses.Field[Any]") -> bool:
    """Return whether a field is sparse and has its default."""
    if "sparse" not in one.metadata:
        return False
    made = one.default_factory
    default = one.default if made is dataclasses.MISSING else made()
    return bool(getattr(value, one.name) == default)


def decode(kind: Callable[..., T], data: Any) -> T:
    """Return the value of dataclass `kind` that `data` was encoded from.

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


def encode_verdict(verdict: "Verdict") -> dict[str, Any]:
    """Return the verdict's fields, its code first."""
    return {"code": verdict.code, **encode(verdict)}


def decode_verdict(data: Mapping[str, Any]) -> "Verdict":
    """Return the verdict that `data` was encoded from. Raises ValueError."""
    from cuda_llm.outcomes import InfraFailed

    fields = {key: value for key, value in data.items() if key != "code"}
    verdict: Verdict = decode(_verdict_kinds().get(str(data.get("code")), InfraFailed), fields)
    return verdict


@cache
def _verdict_kinds() -> dict[str, Any]:
    from cuda_llm.outcomes import Verdict

    return {kind.code: kind for kind in get_args(Verdict) if isinstance(kind.code, str)}


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
