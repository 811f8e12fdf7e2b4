"""The keywords of `optimize`, split into a configuration and the caller's own objects. All keywords
are checked here, before any work begins."""

from collections.abc import Iterable, Mapping
from typing import Any

from cuda_llm.agents.protocols import PlacedAgent
from cuda_llm.errors import UsageError, nearest
from cuda_llm.graph.parts import Parts
from cuda_llm.run_config import RunConfig, read_config, shown
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Task
from cuda_llm.traces.event_log import Observer

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "device": ("name", "hardware", "capabilities", "carry_out"),
    "generator": ("name", "written_by", "generate"),
    "strategy": ("name", "deduplicate", "components", "write_briefs", "choose", "stop"),
    "model": ("ainvoke",),
    "reflection_model": ("ainvoke",),
    "reflector": ("name", "reflect"),
    "tuner": ("propose",),
    "bench": ("time_baseline", "compile", "validate", "profile"),
}
"""Members that an object must have to be the part that a keyword names, by keyword."""
WATCHERS = ("observers", "reviewer")
"""Keywords of the caller's functions: observers receive every event, the reviewer each review."""
KEYWORDS = (*(name for name in RunConfig.model_fields if name != "task"), *MEMBERS, *WATCHERS)


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
        elif name in MEMBERS and not (isinstance(value, str) and name in RunConfig.model_fields):
            check_part(name, value)
            brought[name] = value
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
            check_part("model", model, f"agent_models[{name!r}]")
    return given


def check_part(name: str, part: object, place: str = "") -> None:
    """Raise UsageError unless an object has what the part needs; None is a part not given."""
    lacking = [one for one in MEMBERS[name] if not hasattr(part, one)]
    if part is not None and lacking:
        lacks = f"it lacks {', '.join(lacking)}"
        named = "a name, or " if name in RunConfig.model_fields else ""
        what = "a chat model of LangChain" if "model" in name else f"a {name.capitalize()}"
        raise UsageError(f"{place or name}={shown(part)}: expected {named}{what} ({lacks})")


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
