"""Presets of a benchmark: an experiment as a name for tasks and options, in `presets.toml`."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.data_file import UnfitError, read_as, read_table
from cuda_llm.errors import UsageError, nearest

PRESETS = Path(__file__).with_name("presets.toml")
LIST = "list"
"""What `--preset` takes in place of a name to show all presets."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One experiment: what it asks, and the tasks and options of its runs."""

    question: str
    """Question that the table of the benchmark answers."""
    tasks: tuple[str, ...]
    sweep: tuple[str, ...]
    """Options of the runs as `--sweep` takes them; an option with one value is the option
    itself."""

    @property
    def command(self) -> str:
        """The command without the preset."""
        options = [f"--sweep {shlex.quote(one)}" for one in self.sweep]
        return " ".join(("cuda-llm bench", *map(shlex.quote, self.tasks), *options))


def read_presets() -> Mapping[str, Preset]:
    """Return the presets by name, in the order of their file."""
    found = {}
    for name, table in read_table(PRESETS, UsageError).items():
        try:
            found[name] = read_as(Preset, table)
        except UnfitError as unfit:
            raise UsageError(f"{PRESETS}: {name}: {unfit}") from None
    return found


def find_preset(name: str) -> Preset:
    """Return the preset of that name. Raises UsageError where there is none."""
    presets = read_presets()
    if name not in presets:
        raise UsageError(f"--preset {name}: no such preset; {nearest(name, presets)}")
    return presets[name]
