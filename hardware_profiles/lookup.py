"""Reads hardware profiles, and finds a profile by its exact name.

A near miss is an error, never a guess.
"""

import contextlib
import difflib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cuda_llm.data_file import UnfitError, read_as, read_table
from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import FigureOrigin, Hardware
from cuda_llm.settings import setting_source, settings


def read_hardware(path: Path) -> Hardware:
    """Read the profile in `path`; its slug is the file name without `.toml`.

    Raises HardwareError, in a line that names file and key, where the file is not valid.
    """
    written = b""
    with contextlib.suppress(OSError):
        written = path.read_bytes()
    return _read(path, written)


@lru_cache(maxsize=128)
def _read(path: Path, _written: bytes) -> Hardware:
    """Read a profile once for each of its contents: whoever looks for a GPU reads all profiles."""
    table = read_table(path, HardwareError)
    try:
        hardware = read_as(Hardware, table, {"slug": path.stem})
        sources = _sources(hardware.sources)
        keys = figure_keys(table)
        _require_sources(keys, sources)
        _require_figures(keys, hardware.origins)
    except UnfitError as unfit:
        raise HardwareError(f"{path}: {unfit}") from None
    return replace(hardware, sources=sources)


def figure_keys(table: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of everything in a profile that needs a source."""
    keys = []
    for key, value in table.items():
        if key in ("sources", "origins"):
            continue
        if isinstance(value, Mapping):
            keys += [f"{key}.{inner}" for inner in value]
        else:
            keys.append(key)
    return keys


def has_source(key: str, sources: Mapping[str, str]) -> bool:
    """Return whether `key` or the table it stands in has a source."""
    return key in sources or key.split(".")[0] in sources


def _require_sources(keys: list[str], sources: Mapping[str, str]) -> None:
    for key in keys:
        if not has_source(key, sources):
            raise UnfitError("a figure without a source", "one in [sources]", key)
    tables = {key.split(".")[0] for key in keys}
    for key in sources:
        if key not in keys and key not in tables:
            raise UnfitError("the source of nothing", "a key that is in the file", "sources", key)


def _require_figures(keys: list[str], origins: Mapping[FigureOrigin, tuple[str, ...]]) -> None:
    """Raise UnfitError for an origin of a key that is not in the file, and for a second origin of a
    key."""
    known, listed = {*keys, *(key.split(".")[0] for key in keys)}, set[str]()
    for origin, named in origins.items():
        for key in named:
            if key not in known:
                expected = "keys that are in the file"
                raise UnfitError(f"the origin of nothing: {key}", expected, "origins", origin)
            if key in listed:
                raise UnfitError(f"a second origin of {key}", "one for each key", "origins", origin)
            listed.add(key)


def _sources(table: Mapping[str, str]) -> dict[str, str]:
    """Return the source of each key; an entry may name several keys, separated by commas."""
    sources: dict[str, str] = {}
    for names, source in table.items():
        for key in (name.strip() for name in names.split(",")):
            if key in sources:
                raise UnfitError("a second source", "one for each key", "sources", key)
            sources[key] = source
    return sources


def find_hardware(name: str) -> Hardware:
    """Return the profile of the GPU called `name`: its product name, an alias or its slug.

    Case and white space are ignored, nothing else. Raises HardwareError where no profile, or
    several profiles, have that name.
    """
    profiles = list_hardware()
    wanted = _normalise(name)
    found = [profile for profile in profiles if wanted in map(_normalise, names_of(profile))]
    if len(found) == 1:
        return found[0]
    if found:
        claims = ", ".join(f"{profile.name} ({profile.slug}.toml)" for profile in found)
        msg = f'more than one hardware profile is called "{name}": {claims}'
        raise HardwareError(msg)
    nearest = ", ".join(_nearest(wanted, profiles))
    msg = f'no hardware profile is called "{name}"; the nearest are: {nearest}'
    raise HardwareError(msg)


def list_hardware() -> tuple[Hardware, ...]:
    """Return every profile: those that ship, then the user's own, each sorted by file name.

    Raises HardwareError where a profile is broken or the user's folder is not there.
    """
    return tuple(read_hardware(path) for folder in _folders() for path in _profiles_in(folder))


def names_of(hardware: Hardware) -> tuple[str, ...]:
    """Return every name of `hardware`."""
    return (hardware.name, hardware.slug, *hardware.aliases)


def _folders() -> list[Path]:
    own = settings().hardware_dir
    return [Path(__file__).parent, *([] if own is None else [own])]


def _profiles_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        msg = (
            f"the setting hardware_dir ({setting_source('hardware_dir')}): no such folder: {folder}"
        )
        raise HardwareError(msg)
    return sorted(folder.glob("*.toml"))


def _nearest(wanted: str, profiles: tuple[Hardware, ...], most: int = 3) -> list[str]:
    def likeness(profile: Hardware) -> tuple[bool, float]:
        names = [_normalise(name) for name in names_of(profile)]
        ratios = [difflib.SequenceMatcher(None, wanted, name).ratio() for name in names]
        return any(wanted in name for name in names), max(ratios)

    return [profile.name for profile in sorted(profiles, key=likeness, reverse=True)[:most]]


def _normalise(name: str) -> str:
    return " ".join(name.split()).casefold()
