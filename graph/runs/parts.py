"""Finds and checks the parts that a configuration names, before anything is written or started."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector
from cuda_llm.dotted import is_dotted, load_dotted, split_dotted
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.parts import GeneratorChoice, Parts, Replay, RunParts
from cuda_llm.graph.runs.resolve import resolve_config
from cuda_llm.own_part import find_misfit, make_part
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Author
from cuda_llm.source_file import read_source
from cuda_llm.source_kinds import require_solve
from cuda_llm.tasks.objective import with_objective
from cuda_llm.tasks.own_sizes import with_sizes
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.traces.run_folder import RunFolder

GENERATORS = ("auto", "llm", "playbook", "tuner")
BESIDE_WRITTEN: int = RunConfig.model_fields["tune"].default
"""Tunings a round where nobody says how many."""
NAME_A_MODEL = "name one with --model (or CUDA_LLM_MODEL)"


def find_parts(config: RunConfig, brought: Parts) -> RunParts:
    """Find the parts of a new run: as the user asked, and by the settings where nothing was asked.

    Raises UsageError for what is not there or makes no sense, MissingError for what this machine or
    the task lacks.
    """
    from cuda_llm.settings import settings

    parts = find_parts_by_name(resolve_config(config), brought)
    named = settings().agent_models
    by_settings = {name: named[name] for name in parts.own_part_names if name in named}
    models = {**by_settings, **parts.config.agent_models}
    task = parts.task
    decided = parts.config.changed(
        objective=task.objective, weights=task.weights, agent_models=models
    )
    return replace(parts, config=decided)


def find_parts_by_name(config: RunConfig, brought: Parts) -> RunParts:
    """Find the parts of a resolved configuration, the device last: opening a device may take
    minutes.

    Raises as `find_parts` does.
    """
    from cuda_llm.agents.strategies.builtin import find_strategy
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tasks.new_task import require_no_guesses

    if config.start:
        require_solve(read_source(Path(config.start)), config.start)
    task = brought.task or load_task(config.task)
    require_no_guesses(task)
    task = with_objective(with_sizes(task, config.sizes), config.objective, config.weights)
    task = replace(task, strict=task.strict or config.strict)
    replay = find_replay(config, brought, task)
    has_model = bool(config.model) or brought.model is not None
    recorded = None if replay is None else replay.generator
    own = brought.generator or (recorded if recorded and recorded.name != "playbook" else None)
    chosen = (
        GeneratorChoice(own.name)
        if own is not None
        else choose_generator(config.generator, task, has_model=has_model, start=config.start)
    )
    if chosen.name == "tuner" and config.tune not in (BESIDE_WRITTEN, config.candidates):
        raise UsageError(
            f"--tune {config.tune}: counts tunings beside written kernels, and generator tuner has "
            "none; say how many kernels a round tries with --candidates"
        )
    agents = find_agents(config.agents, brought.agents)
    generator = own or recorded or load_generator(chosen, task, config.start)
    own_part_names = (*(one.name for one in agents), *names_of(generator, brought.reflector))
    check_agent_models((*config.agent_models, *brought.agent_models), own_part_names)
    strategy = brought.strategy or find_strategy(config.strategy)
    templates = open_templates(config.prompts)
    return RunParts(
        config=config,
        brought=brought,
        folder=RunFolder(Path(config.out) / config.run_id),
        task=task,
        device=find_device(config, brought, replay),
        generator_choice=chosen,
        generator=generator,
        strategy=strategy,
        agents=agents,
        templates=templates,
        own_part_names=own_part_names,
        replay=replay,
    )


def find_device(config: RunConfig, brought: Parts, replay: Replay | None) -> Device:
    """Return the recorded device, the caller's own device, or the device that the configuration
    names, which is opened here."""
    from cuda_llm.tools.open_device import open_device

    if replay is not None and replay.device is not None:
        return replay.device
    return brought.device or brought.opened_device or open_device(config.device)


def find_replay(config: RunConfig, brought: Parts, task: Task) -> Replay | None:
    """Open the record that the configuration names; None for a run that is no replay."""
    if not config.replay:
        return None
    from cuda_llm.graph.runs.replay import open_replay

    return open_replay(config, brought, task)


def choose_generator(
    wanted: str, task: Task, *, has_model: bool, start: str = ""
) -> GeneratorChoice:
    """Decide what `auto` means, and whether the generator named can work on this task.

    Without model and playbook, `auto` searches the kernel of the file `start`. Raises UsageError
    for an unknown name, MissingError where no generator could write a kernel.
    """
    check_generator(wanted, has_model=has_model)
    if wanted not in GENERATORS or wanted == "tuner":
        return GeneratorChoice(wanted)
    if wanted == "llm" or (wanted == "auto" and has_model):
        return GeneratorChoice("llm")
    if task.playbook is None and wanted == "auto" and start:
        note = f"no model is named and {task.name} has no playbook, so {start} itself is searched"
        return GeneratorChoice("tuner", f"{note}; --model NAME asks a model")
    if task.playbook is None:
        remedy = (
            f"{NAME_A_MODEL}, search a kernel of yours with --start FILE.cu, or write tunable "
            f"kernels into {task.folder / 'playbook.cu'}"
        )
        lacks = "" if wanted == "playbook" else " and no model is named"
        raise MissingError(f"task {task.name} has no playbook{lacks}", remedy)
    if wanted == "playbook":
        return GeneratorChoice("playbook")
    note = "no model is named, so the playbook writes the kernels; --model NAME asks a model"
    note += ", --generator tuner searches the kernel of --start" if start else ""
    return GeneratorChoice("playbook", note)


def check_generator(wanted: str, *, has_model: bool) -> None:
    """Raise UsageError for an unknown name, MissingError for a model's generator without a
    model."""
    if wanted not in GENERATORS and not is_dotted(wanted):
        known = ", ".join(GENERATORS)
        raise UsageError(f"unknown generator {wanted!r}; there are {known}, or FILE.py:NAME")
    if wanted == "llm" and not has_model:
        raise MissingError("generator llm: no model is named", NAME_A_MODEL)


def load_generator(chosen: GeneratorChoice, task: Task, start: str) -> Generator | None:
    """Load the generator; None for `llm`, which needs the run's model client first.

    Raises UsageError for one that is none, and where the kernel to `start` from has nothing to be
    tuned; TaskError for a playbook that cannot be used.
    """
    if chosen.name == "llm":
        return None
    if chosen.name == "playbook":
        from cuda_llm.agents.playbook.generator import PlaybookGenerator

        return PlaybookGenerator(task)
    if chosen.name == "tuner":
        from cuda_llm.agents.playbook.tuner import open_for_tuning

        return open_for_tuning(start)
    given = f"generator {chosen.name!r}"
    found = load_dotted(chosen.name, "generator")
    generator: Generator = make_part(found, given, split_dotted(chosen.name)[0])
    if misfit := find_generator_misfit(generator):
        raise UsageError(f"{given} {misfit}; see cuda_llm.extend.Generator")
    return generator


def find_generator_misfit(part: object) -> str:
    """Return what keeps an object from being a generator, as `find_misfit` does."""
    misfit = find_misfit(part, Generator)
    if misfit:
        return misfit
    author = part.written_by  # type: ignore[attr-defined]
    known = get_args(Author)
    return "" if author in known else f"has written_by {author!r}; expected {', '.join(known)}"


def find_agents(specs: Sequence[str], passed: Sequence[PlacedAgent]) -> tuple[PlacedAgent, ...]:
    """Find the agents that ship, without agents that `-NAME` leaves out, and the user's own agents.

    An agent with the name of an agent that ships replaces that agent. Raises UsageError.
    """
    from cuda_llm.agents.find_agent import SHIPPED, find_agent

    unwanted = {spec[1:] for spec in specs if spec.startswith("-")}
    if unknown := sorted(unwanted - set(SHIPPED)):
        raise UsageError(f"--agent -{unknown[0]}: there is no such agent to leave out")
    own = [*(find_agent(spec) for spec in specs if not spec.startswith("-")), *passed]
    taken = unwanted | {agent.name for agent in own}
    return (*(find_agent(name) for name in SHIPPED if name not in taken), *own)


def names_of(*parts: Generator | Reflector | None) -> tuple[str, ...]:
    """Return the names of the parts that are not None."""
    return tuple(part.name for part in parts if part is not None)


def check_agent_models(named: Sequence[str], own_part_names: Sequence[str]) -> None:
    """Check that each model is for a part of the run. Raises UsageError."""
    if strangers := [one for one in named if one not in own_part_names]:
        known = ", ".join(own_part_names) or "none"
        msg = f"--agent-model {strangers[0]}=...: no part of this run has that name; there are"
        raise UsageError(f"{msg} {known} (--model and --reflection-model name those of our agents)")
