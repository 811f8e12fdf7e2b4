"""The options of a run, as the command line, the settings' page and the graph's input know them."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from cuda_llm.graph.request import OptionText, RunRequest

if TYPE_CHECKING:
    from dataclasses import Field


@dataclass(frozen=True, kw_only=True)
class RunOption:
    """One field of `RunRequest`: name, type, default and text."""

    name: str
    kind: Any
    """Its type, without the text."""
    default: Any
    text: OptionText

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return self.text.flag or f"--{self.name.replace('_', '-')}"

    @property
    def is_list(self) -> bool:
        """Whether it is given once for each of several values."""
        return get_origin(self.kind) is tuple

    @property
    def item_kind(self) -> Any:
        """The type of one value of a list."""
        return get_args(self.kind)[0]

    @property
    def is_mapping(self) -> bool:
        """Whether it is given as NAME=VALUE, once for each name."""
        return get_origin(self.kind) is Mapping

    @property
    def is_choice(self) -> bool:
        """Whether it takes one of some words; an empty one among them means no value was given."""
        return get_origin(self.kind) is Literal


def task_help() -> str:
    """Return the help text of the task, which is an argument and no option."""
    text: OptionText = get_type_hints(RunRequest, include_extras=True)["task"].__metadata__[0]
    return text.help


def run_options() -> tuple[RunOption, ...]:
    """Return every field of `RunRequest` but `task`, in its order."""
    hints = get_type_hints(RunRequest, include_extras=True)
    return tuple(
        RunOption(
            name=one.name,
            kind=hints[one.name].__origin__,
            default=_default_of(one),
            text=hints[one.name].__metadata__[0],
        )
        for one in fields(RunRequest)
        if one.name != "task"
    )


def _default_of(one: "Field[Any]") -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()
