"""Finds a hardware profile by its exact name. A near miss is an error, never a guess."""

import difflib
from pathlib import Path

from cuda_llm.errors import HardwareError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.schema import read_hardware


def find_hardware(name: str) -> Hardware:
    """Returns the profile of the GPU called `name`: its product name, an alias or its slug.

    Case and white space do not matter; everything else does. Raises HardwareError where no
    profile, or more than one, goes by that name.
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
    """Returns every profile: those that ship, then the user's own, each sorted by file name.

    Raises HardwareError where a profile is broken or the user's folder is not there.
    """
    return tuple(read_hardware(path) for folder in _folders() for path in _profiles_in(folder))


def names_of(hardware: Hardware) -> tuple[str, ...]:
    """Returns every name of `hardware`."""
    return (hardware.name, hardware.slug, *hardware.aliases)


def _folders() -> list[Path]:
    from cuda_llm.settings import settings

    own = settings().hardware_dir
    return [Path(__file__).parent, *([] if own is None else [own])]


def _profiles_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        msg = f"setting hardware_dir (CUDA_LLM_HARDWARE_DIR): no such folder: {folder}"
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
