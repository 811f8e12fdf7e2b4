"""The keywords of `optimize`, split into a configuration and the caller's own objects. All keywords
are checked here, before any work begins."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cuda_llm.agents.protocols import PlacedAgent, Reflector, Tuner
from cuda_llm.agents.strategies.builtin import find_strategy_misfit
from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.parts import Parts
from cuda_llm.graph.runs.parts import find_generator_misfit
from cuda_llm.own_part import find_misfit, make_part
from cuda_llm.run_config import RunConfig, read_config, shown
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.open_device import checked_device, make_device
from cuda_llm.traces.event_log import Observer


def find_model_misfit(part: object) -> str:
    """Return what keeps an object from being a chat model, as `find_misfit` does."""
    return "" if hasattr(part, "ainvoke") else "lacks ainvoke"


PARTS: Mapping[str, Callable[[object], str]] = {
    "device": lambda part: find_misfit(part, Device),
    "generator": find_generator_misfit,
    "strategy": find_strategy_misfit,
    "model": find_model_misfit,
    "reflection_model": find_model_misfit,
    "reflector": lambda part: find_misfit(part, Reflector),
    "tuner": lambda part: find_misfit(part, Tuner),
    "bench": lambda part: find_misfit(part, Bench),
}
"""What keeps an object from being the part of a keyword, by keyword; empty where it fits."""
WATCHERS = ("observers", "reviewer")
"""Keywords of the caller's functions: observers receive every event, the reviewer each review."""
KEYWORDS = (*(name for name in RunConfig.model_fields if name != "task"), *PARTS, *WATCHERS)


def split_keywords(
    task: Task | str, keywords: Mapping[str, Any]
) -> tuple[RunConfig, Parts, tuple[Observer, ...]]:
    """Split keywords into the configuration (names and values), parts (objects) and observers.

    Raises TypeError for a keyword that is none, UsageError for a value of a wrong type.
    """
    plain: dict[str, Any] = {}
    brought: dict[str, Any] = {}
    for name, value in keywords.items():
        if name not in KEYWORDS:
            hint = nearest(name, sorted(KEYWORDS))
            raise TypeError(f"optimize() got an unexpected keyword argument {name!r}; {hint}")
        if name == "observers":
            check_each(name, value, callable, "functions that take an event")
        elif name == "reviewer":
            if not callable(value):
                raise UsageError(f"reviewer={shown(value)}: expected a function of a review")
            plain["review"] = True
        elif name == "agents":
            check_each(name, value, is_placed, "names, or PlacedAgent objects")
            plain[name] = tuple(one for one in value if isinstance(one, str))
            brought[name] = tuple(one for one in value if not isinstance(one, str))
        elif name == "agent_models":
            models = checked_models(value)
            plain[name] = {key: one for key, one in models.items() if isinstance(one, str)}
            brought[name] = {key: one for key, one in models.items() if not isinstance(one, str)}
        elif name in PARTS and not (isinstance(value, str) and name in RunConfig.model_fields):
            brought[name] = own_part(name, value)
        else:
            plain[name] = value
    named, brought["task"] = name_task(task)
    config = read_config({**plain, "task": named} if named else plain, RunConfig)
    return config, Parts(**brought), tuple(keywords.get("observers", ()))


def check_each(name: str, given: Any, fits: Any, expected: str) -> None:
    """Raise UsageError unless `given` is a list of values that fit."""
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(map(fits, given)):
        raise UsageError(f"{name}={shown(given)}: expected a list of {expected}")


def is_placed(agent: object) -> bool:
    """Return whether an entry of `agents` is a name or a placed agent."""
    return isinstance(agent, (str, PlacedAgent))


def checked_models(given: Any) -> Mapping[str, Any]:
    """Return `agent_models`, or raise UsageError where it is no mapping from names to models."""
    if not isinstance(given, Mapping):
        raise UsageError(f"agent_models={shown(given)}: expected a dict from agents to models")
    for name, model in given.items():
        if not isinstance(model, str):
            own_part("model", model, f"agent_models[{name!r}]")
    return given


def own_part(name: str, given: Any, place: str = "") -> Any:
    """Return the caller's object for a keyword; of a class, an object made without arguments, as on
    the command line. None is a part that is not given.

    Raises UsageError for an object that is not the part.
    """
    spelled = f"{place or name}={shown(given)}"
    make = make_device if name == "device" else make_part
    part = make(given, spelled)
    if given is not None and (misfit := PARTS[name](part)):
        named = "a name, or " if name in RunConfig.model_fields else ""
        what = "a chat model of LangChain" if "model" in name else f"a {name.capitalize()}"
        raise UsageError(f"{spelled}: expected {named}{what} (it {misfit})")
    return checked_device(part, spelled) if name == "device" and part is not None else part


def name_task(task: Task | str) -> tuple[str, Task | None]:
    """Return the task's name or folder, and the task itself where its folder differs from it.

    Raises UsageError for what is neither.
    """
    if isinstance(task, str):
        return task, None
    if not isinstance(task, Task):
        raise UsageError(f"task={shown(task)}: expected a name, a folder as text, or a Task")
    shipped = task.name in list_tasks() and load_task(task.name).folder == task.folder
    name = task.name if shipped else str(task.folder)
    return name, None if load_task(name) == task else task
