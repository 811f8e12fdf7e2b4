"""Read one hardware profile: a TOML file whose keys are the fields of `Hardware`."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import (
    Hardware,
    Limits,
    ModelConstants,
    Peaks,
    Pipes,
)

Part = TypeVar("Part", Limits, Peaks, Pipes, ModelConstants)

_TEXTS = ("name", "architecture", "target")
_INTEGERS = ("sm_count", "schedulers_per_sm", "memory_bus_bits", "memory_bytes", "l2_bytes")
_NUMBERS = ("boost_clock_mhz", "memory_clock_mhz")
_TABLES = ("limits", "peaks", "pipes", "model", "sources")
_KEYS = {*_TEXTS, *_INTEGERS, *_NUMBERS, *_TABLES, "aliases", "compute_capability"}

_MAY_BE_ZERO = {
    "fp64_tflops",
    "fp16_tflops",
    "shared_bytes_reserved_per_block",
    "launch_us",
    "fill_us",
    "grid_barrier_us",
}
"""Figures that may be nothing; every other one is above zero."""


def read_hardware(path: Path) -> Hardware:
    """Read the profile in `path`; its slug is the file name without `.toml`.

    Raises HardwareError, one line naming file and key, where the file cannot be used.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        msg = f"{path}: not a readable TOML file ({_first_line(error)})"
        raise HardwareError(msg) from error
    _refuse_unknown(path, "", data, _KEYS)
    plain: dict[str, Any] = {
        **{key: _text(path, data, key) for key in _TEXTS},
        **{key: _integer(path, "", data, key) for key in _INTEGERS},
        **{key: _number(path, "", data, key) for key in _NUMBERS},
    }
    hardware = Hardware(
        slug=path.stem,
        aliases=_aliases(path, data),
        compute_capability=_capability(path, data),
        limits=_part(path, data, "limits", Limits),
        peaks=_part(path, data, "peaks", Peaks),
        pipes=_part(path, data, "pipes", Pipes),
        model=_part(path, data, "model", ModelConstants),
        sources=_sources(path, data),
        **plain,
    )
    _require_sources(path, data, hardware)
    return hardware


def figure_keys(data: Mapping[str, Any]) -> list[str]:
    """Dotted keys of everything in a profile that needs a source, as in the file."""
    keys = []
    for key, value in data.items():
        if key == "sources":
            continue
        if isinstance(value, Mapping):
            keys += [f"{key}.{inner}" for inner in value]
        else:
            keys.append(key)
    return keys


def has_source(key: str, sources: Mapping[str, str]) -> bool:
    """Whether `key` or the table it stands in has a source."""
    return key in sources or key.split(".")[0] in sources


def _require_sources(path: Path, data: Mapping[str, Any], hardware: Hardware) -> None:
    keys = figure_keys(data)
    for key in keys:
        if not has_source(key, hardware.sources):
            raise _broken(path, key, "a figure without a source in [sources]")
    tables = {key.split(".")[0] for key in keys}
    for key in hardware.sources:
        if key not in keys and key not in tables:
            raise _broken(path, f"sources.{key}", "the source of a key that is not in the file")


def _part(path: Path, data: Mapping[str, Any], key: str, part: type[Part]) -> Part:
    table = _table(path, data, key)
    known = {field.name for field in fields(part)}
    _refuse_unknown(path, f"{key}.", table, known)
    values: dict[str, Any] = {}
    for field in fields(part):
        optional = field.default is not MISSING or field.default_factory is not MISSING
        if optional and field.name not in table:
            continue
        if field.name.startswith("tensor_"):
            rates = _table(path, table, field.name, f"{key}.")
            values[field.name] = {
                name: _number(path, f"{key}.{field.name}.", rates, name) for name in rates
            }
        elif field.type is int:
            values[field.name] = _integer(path, f"{key}.", table, field.name)
        else:
            values[field.name] = _number(path, f"{key}.", table, field.name)
    return part(**values)


def _sources(path: Path, data: Mapping[str, Any]) -> dict[str, str]:
    """One source a key. An entry may name several keys, separated by commas."""
    table = _table(path, data, "sources")
    sources: dict[str, str] = {}
    for names in table:
        for key in (name.strip() for name in names.split(",")):
            if key in sources:
                raise _broken(path, f"sources.{key}", "named twice")
            sources[key] = _text(path, table, names, "sources.")
    return sources


def _aliases(path: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    aliases = data.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(name, str) for name in aliases):
        raise _broken(path, "aliases", "expected a list of names")
    return tuple(aliases)


def _capability(path: Path, data: Mapping[str, Any]) -> tuple[int, int]:
    text = _text(path, data, "compute_capability")
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise _broken(path, "compute_capability", f'expected e.g. "8.6", found "{text}"')
    return int(major), int(minor)


def _table(path: Path, data: Mapping[str, Any], key: str, prefix: str = "") -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise _broken(path, prefix + key, "expected a table")
    return value


def _text(path: Path, data: Mapping[str, Any], key: str, prefix: str = "") -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _broken(path, prefix + key, "expected a text")
    return value


def _integer(path: Path, prefix: str, data: Mapping[str, Any], key: str) -> int:
    value = _number(path, prefix, data, key)
    if value != int(value):
        raise _broken(path, prefix + key, f"expected a whole number, found {value}")
    return int(value)


def _number(path: Path, prefix: str, data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _broken(path, prefix + key, "expected a number")
    if not math.isfinite(value) or value < 0 or (value == 0 and key not in _MAY_BE_ZERO):
        raise _broken(path, prefix + key, f"expected a number above zero, found {value}")
    return value


def _refuse_unknown(path: Path, prefix: str, data: Mapping[str, Any], known: set[str]) -> None:
    for key in data:
        if key not in known:
            raise _broken(path, prefix + key, "unknown key")


def _broken(path: Path, key: str, what: str) -> HardwareError:
    return HardwareError(f"{path}: {key}: {what}")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
