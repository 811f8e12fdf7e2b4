"""Reads a hardware profile: a TOML file whose keys are the fields of `Hardware`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cuda_llm.data_file import UnfitError, read_as, read_table
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware


def read_hardware(path: Path) -> Hardware:
    """Reads the profile in `path`; its slug is the file name without `.toml`.

    Raises HardwareError, one line naming file and key, where the file cannot be used.
    """
    table = read_table(path, HardwareError)
    try:
        hardware = read_as(Hardware, table, {"slug": path.stem})
        sources = _sources(hardware.sources)
        _require_sources(figure_keys(table), sources)
    except UnfitError as unfit:
        raise HardwareError(f"{path}: {unfit}") from None
    return replace(hardware, sources=sources)


def figure_keys(table: Mapping[str, Any]) -> list[str]:
    """Returns the dotted keys of everything in a profile that needs a source."""
    keys = []
    for key, value in table.items():
        if key == "sources":
            continue
        if isinstance(value, Mapping):
            keys += [f"{key}.{inner}" for inner in value]
        else:
            keys.append(key)
    return keys


def has_source(key: str, sources: Mapping[str, str]) -> bool:
    """Tells whether `key` or the table it stands in has a source."""
    return key in sources or key.split(".")[0] in sources


def _require_sources(keys: list[str], sources: Mapping[str, str]) -> None:
    for key in keys:
        if not has_source(key, sources):
            raise UnfitError("a figure without a source", "one in [sources]", key)
    tables = {key.split(".")[0] for key in keys}
    for key in sources:
        if key not in keys and key not in tables:
            raise UnfitError("the source of nothing", "a key that is in the file", "sources", key)


def _sources(table: Mapping[str, str]) -> dict[str, str]:
    """Returns one source for each key; an entry may name several keys, separated by commas."""
    sources: dict[str, str] = {}
    for names, source in table.items():
        for key in (name.strip() for name in names.split(",")):
            if key in sources:
                raise UnfitError("a second source", "one for each key", "sources", key)
            sources[key] = source
    return sources
