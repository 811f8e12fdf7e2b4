"""A sweep: the tasks of a benchmark with several values of options of a run, a run for each."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.strategies.builtin import find_strategy
from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.runs.parts import check_generator, find_agents
from cuda_llm.graph.runs.resolve import resolve_config
from cuda_llm.run_config import NO_VALUE, RunConfig, flag_of, option_of, read_text

LONGEST_NAME = 90
"""Largest number of characters of a run's name, before the suffix that makes equal names differ."""
SEED = "seed"
"""Option whose values repeat a search: other options are compared over all seeds together."""
ONE_EACH = ("task", "device")
"""Options of which a benchmark has one value, or a table of its own for each."""

Setting = Mapping[str, Any]
"""Values of the swept options of one run, by the option's name, in the order of the sweep; empty
without a sweep."""
Swept = Mapping[str, tuple[Any, ...]]
"""Values of each swept option, by the option's name; the first is what others are compared with."""


def read_swept(given: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Read sweeps as they are typed, `rounds=1,3`: an option of a run and values of it.

    Raises UsageError for an option that is none or has one value in a benchmark, for an option or a
    value that stands twice, and for a value that the option cannot have.
    """
    swept: dict[str, tuple[Any, ...]] = {}
    for text in given:
        name, values = _read_one(text)
        if name in swept:
            raise UsageError(f"--sweep {text}: {name} is swept twice; list all its values once")
        swept[name] = values
    return swept


def _read_one(text: str) -> tuple[str, tuple[Any, ...]]:
    """Return name and values of one sweep. Raises UsageError."""
    option, equals, listed = text.partition("=")
    name = _field_of(option.strip())
    words = [one.strip() for one in listed.split(",")]
    if not equals or not all(words):
        raise UsageError(f"--sweep {text}: expected OPTION=A,B with commas between the values")
    if not name:
        known = sweepable()
        raise UsageError(f"--sweep {text}: no option {option!r}; {nearest(option, known)}")
    if len(set(words)) < len(words):
        raise UsageError(f"--sweep {text}: one value stands twice")
    return name, tuple(read_text(name, one) for one in words)


def _field_of(option: str) -> str:
    """Return the field that an option is: by its name or as on the command line; else empty."""
    plain = option.lstrip("-").replace("-", "_")
    flags = {flag_of(name)[2:].replace("-", "_"): name for name in sweepable()}
    return plain if plain in sweepable() else flags.get(plain, "")


def sweepable() -> tuple[str, ...]:
    """Return the options of a run that a benchmark may sweep."""
    return tuple(
        name
        for name in RunConfig.model_fields
        if (option := option_of(name)).in_benchmark
        and option.on_command_line
        and name not in ONE_EACH
    )


def settle(config: RunConfig, swept: Swept) -> RunConfig:
    """Return the configuration with each option that has one value: such options make no sweep."""
    return config.changed(**{name: one[0] for name, one in swept.items() if len(one) == 1})


def combine(config: RunConfig, swept: Swept) -> tuple[RunConfig, tuple[Setting, ...]]:
    """Return what all runs have in common, and the setting of each combination; none of no sweep.

    Every combination is resolved and checked as a run of its own is. Raises UsageError and
    MissingError for the first that cannot be.
    """
    several = {name: values for name, values in swept.items() if len(values) > 1}
    settings = []
    for values in product(*several.values()):
        one = resolve_config(config.changed(**dict(zip(several, values, strict=True))))
        check_config(one)
        settings.append({name: getattr(one, name) for name in several})
    if not several:
        return config, ()
    plain = RunConfig()
    return config.changed(**{name: getattr(plain, name) for name in several}), tuple(settings)


def check_config(config: RunConfig) -> None:
    """Check that the parts that a configuration names are there. Raises UsageError and
    MissingError."""
    find_strategy(config.strategy)
    check_generator(config.generator, has_model=bool(config.model))
    find_agents(config.agents, ())
    open_templates(config.prompts)


def values_of(settings: Iterable[Setting]) -> dict[str, tuple[Any, ...]]:
    """Return the values of each swept option over all settings, in the order of the sweep."""
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        for name, value in setting.items():
            found.setdefault(name, {}).setdefault(spell_value(value), value)
    return {name: tuple(values.values()) for name, values in found.items()}


def without_seed(setting: Setting) -> Setting:
    """Return the options that are compared: all but the seed; the seed where it alone is swept."""
    others = {name: value for name, value in setting.items() if name != SEED}
    return others or setting


def spell_value(value: Any) -> str:
    """Return a value as `--sweep` takes it: `none` for the empty value, `history+hints`."""
    if isinstance(value, Mapping):
        value = [f"{name}={one}" for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        return "+".join(map(spell_value, value)) or NO_VALUE
    if value is None or value == "":
        return NO_VALUE
    return f"{value:g}" if isinstance(value, float) else str(value)


def spell_setting(setting: Setting) -> str:
    """Return `seed 0, strategy fsr`: equal for equal settings alone; empty without a sweep."""
    return ", ".join(f"{name} {spell_value(value)}" for name, value in setting.items())


def name_runs(
    tasks: Mapping[str, str], settings: Sequence[Setting]
) -> tuple[dict[str, str], dict[str, Setting]]:
    """Return the task and the setting of each run by its name, which is safe as a folder's.

    A name says the task and what differs: `reduction-seed-1-strategy-best-of-n`. A task's runs
    follow each other, so that what is done early can be compared.
    """
    of_task: dict[str, str] = {}
    of_setting: dict[str, Setting] = {}
    taken: set[str] = set()
    for task, folder in tasks.items():
        for setting in settings:
            name = _unique(_spell_run(task, setting), taken)
            of_task[name], of_setting[name] = folder, setting
    return of_task, of_setting


def _spell_run(task: str, setting: Setting) -> str:
    """Return a name of letters, digits, `.`, `_` and `-`."""
    values = {name: spell_value(value).rpartition("/")[2] for name, value in setting.items()}
    parts = (task, *(part for pair in values.items() for part in pair))
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") for part in parts)


def _unique(name: str, taken: set[str]) -> str:
    """Return the name, with a number where it is taken: on any file system, and when cut."""
    found, number = name[:LONGEST_NAME], 1
    while found.casefold() in taken:
        number += 1
        found = f"{name[:LONGEST_NAME]}-{number}"
    taken.add(found.casefold())
    return found
