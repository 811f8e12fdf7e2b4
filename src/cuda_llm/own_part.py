"""A part of the user's own, made of its class and held to its protocol before a run."""

import inspect
from collections.abc import Mapping
from typing import Any

from cuda_llm.errors import CudaLLMError, UsageError, describe_error

_STARS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
"""By kind of a parameter: what stands before its name where it takes any number of arguments."""


def make_part(found: Any, given: str, place: str = "") -> Any:
    """Return an object as it is; of a class, an object that is made without arguments.

    `given` is the part as the user gave it. `place` is the file or module that was named; without
    `place` the user passed the class. Raises UsageError: the class needs arguments, with the
    remedy, or raises an error.
    """
    if not isinstance(found, type):
        return found
    name = found.__name__
    if needed := _needed_arguments(found):
        made = f"{name}({', '.join(f'{one}=...' for one in needed)})"
        remedy = f"pass one: {made}"
        if place:
            remedy = f"make one beside it, as in `mine = {made}`, and name that: {place}:mine"
        raise UsageError(f"{given}: {name} needs {', '.join(needed)}; {remedy}")
    try:
        return found()
    except CudaLLMError:
        raise
    except Exception as error:  # a user's own code may raise anything
        raise UsageError(f"{given}: cannot be made: {describe_error(error)}") from error


def _needed_arguments(kind: type) -> list[str]:
    """Return the names of the parameters without which no object is made."""
    try:
        parameters = inspect.signature(kind).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.default is one.empty and one.kind not in _STARS]


def find_misfit(part: object, protocol: type) -> str:
    """Return what keeps an object from being a part, as a predicate; empty where it fits.

    Members are the public names of the protocol's class body. A method fits that takes the
    arguments of the protocol's method, and is a coroutine function where the protocol's method is
    one: `lacks name`, or ``needs `async def generate(brief)`, has `def generate(brief)` ``.
    """
    members = {name: one for name, one in vars(protocol).items() if not name.startswith("_")}
    lacking = [
        name
        for name, one in members.items()
        if not hasattr(part, name)
        or (inspect.isfunction(one) and not callable(getattr(part, name)))
    ]
    if lacking:
        return f"lacks {', '.join(lacking)}"
    for name, wanted in members.items():
        method = getattr(part, name)
        if inspect.isfunction(wanted) and not fits(method, wanted):
            return f"needs `{_spell(name, wanted)}`, has `{_spell(name, method)}`"
    return ""


def fits(method: Any, wanted: Any) -> bool:
    """Return whether a method takes the arguments of a protocol's method, and is a coroutine
    function where the protocol's method is one."""
    if _is_coroutine_function(method) != inspect.iscoroutinefunction(wanted):
        return False
    try:
        inspect.signature(method).bind(*_parameters(wanted))
    except TypeError:
        return False
    except ValueError:  # a builtin without a signature
        return True
    return True


def _is_coroutine_function(method: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (method, method.__call__)))


def _parameters(method: Any) -> list[str]:
    """Return how each parameter is spelled in a signature, without `self`, types and defaults."""
    try:
        parameters = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return ["..."]
    spelled = [f"{_STARS.get(one.kind, '')}{one.name}" for one in parameters]
    return spelled[1:] if spelled[:1] == ["self"] else spelled


def _spell(name: str, method: Any) -> str:
    spelled = "async def" if _is_coroutine_function(method) else "def"
    return f"{spelled} {name}({', '.join(_parameters(method))})"
