"""A sweep: the tasks of a benchmark with several seeds, strategies and models, a run for each."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import Any

from cuda_llm.agents.strategies.builtin import find_strategy
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.resolve import absolute_code
from cuda_llm.run_config import RunConfig

LONGEST_NAME = 90
"""Largest number of characters of a run's name, before the suffix that makes equal names differ."""

FLAGS: Mapping[str, str] = {"seed": "--seeds", "strategy": "--strategies", "model": "--models"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The options in which two runs of one task may differ."""

    seed: int
    strategy: str
    model: str
    """Name of the model as the user gave the name; empty without a model."""

    def __str__(self) -> str:
        """Return `seed 0, fsr, small-model`."""
        return ", ".join(filter(None, (f"seed {self.seed}", self.strategy, self.model)))


SWEPT = tuple(one.name for one in fields(Setting))
"""Options that take several values in a sweep."""
Swept = Mapping[str, tuple[Any, ...]]
"""Values of each option of a sweep, by the option's name."""


def read_swept(seeds: str = "", strategies: str = "", models: str = "") -> Swept:
    """Read lists as they are typed, `0,1,2`; those that are empty are left out.

    Raises UsageError for a value that is none, or that stands twice.
    """
    typed = {"seed": seeds, "strategy": strategies, "model": models}
    words = {name: _split(FLAGS[name], text) for name, text in typed.items() if text}
    for seed in words.get("seed", ()):
        if not (seed.isascii() and seed.isdecimal()):
            raise UsageError(f"--seeds {seeds}: expected whole numbers, as in 0,1,2")
    read: Mapping[str, Callable[[str], Any]] = {
        "seed": int,
        "strategy": absolute_code,
        "model": str,
    }
    swept = {name: tuple(map(read[name], values)) for name, values in words.items()}
    for name, values in swept.items():
        if len(set(values)) < len(values):
            raise UsageError(f"{FLAGS[name]} {typed[name]}: one value stands twice")
    return swept


def _split(flag: str, text: str) -> tuple[str, ...]:
    values = tuple(one.strip() for one in text.split(","))
    if not all(values):
        raise UsageError(f"{flag} {text}: expected values with commas between them")
    return values


def settle(config: RunConfig, swept: Swept) -> RunConfig:
    """Return the configuration with each option that has one value: such options make no sweep."""
    return config.changed(**{name: one[0] for name, one in swept.items() if len(one) == 1})


def combine(config: RunConfig, swept: Swept) -> tuple[RunConfig, tuple[Setting, ...]]:
    """Return what all runs have in common, and the setting of each combination; none of no sweep.

    Raises UsageError for the first that cannot be.
    """
    several = {name: values for name, values in swept.items() if len(values) > 1}
    if not several:
        return config, ()
    choices = ((getattr(config, name),) if name not in several else several[name] for name in SWEPT)
    settings = tuple(
        Setting(**dict(zip(SWEPT, values, strict=True))) for values in product(*choices)
    )
    for one in settings:
        config.changed(**vars(one))
        find_strategy(one.strategy)
    return config.changed(**{name: getattr(RunConfig(), name) for name in several}), settings


def name_runs(
    tasks: Mapping[str, str], settings: Sequence[Setting]
) -> tuple[dict[str, str], dict[str, Setting]]:
    """Return the task and the setting of each run by its name, which is safe as a folder's.

    A name says the task and what differs: `reduction-seed1-best-of-n`. A task's runs follow each
    other, so that what is done early can be compared.
    """
    of_task: dict[str, str] = {}
    of_setting: dict[str, Setting] = {}
    differs = [name for name in SWEPT if len({getattr(one, name) for one in settings}) > 1]
    taken: set[str] = set()
    for task, folder in tasks.items():
        for setting in settings:
            name = _unique(_spell(task, setting, differs), taken)
            of_task[name], of_setting[name] = folder, setting
    return of_task, of_setting


def _spell(task: str, setting: Setting, differs: Iterable[str]) -> str:
    """Return a name of letters, digits, `.`, `_` and `-`."""
    said = {
        "seed": f"seed{setting.seed}",
        "strategy": setting.strategy.rpartition("/")[2],
        "model": setting.model.rpartition("/")[2] or "no-model",
    }
    parts = (task, *(said[name] for name in differs))
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") for part in parts)


def _unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number where it is taken: on any file system, and when cut."""
    found, number = name[:LONGEST_NAME], 1
    while found.casefold() in taken:
        number += 1
        found = f"{name[:LONGEST_NAME]}-{number}"
    taken.add(found.casefold())
    return found
