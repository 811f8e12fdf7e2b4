"""What a prompt may hold, and how much of the GPU it may name.

Apart from the search, for every command's help reads it and is there at once.
"""

from dataclasses import dataclass, field
from typing import Literal

HardwareContext = Literal["full", "name", "none"]
"""How much of the GPU an agent's text may name: facts and figures, its name alone, or nothing."""


Component = Literal["history", "hints", "profile", "baseline", "host_code", "diversity"]
"""A field of `Components`."""


@dataclass(frozen=True, kw_only=True)
class Components:
    """What a prompt may hold, each to be switched off; `help` is the text of its switch."""

    history: bool = field(default=True, metadata={"help": "Tell what was tried."})
    """What was tried before and what came of it."""
    hints: bool = field(default=True, metadata={"help": "Tell what was learned."})
    """`error_hints` and `performance_hints`."""
    profile: bool = field(default=True, metadata={"help": "Tell what limits."})
    """What limits the parent, beyond its time."""
    baseline: bool = field(default=True, metadata={"help": "Show the baseline."})
    """The baseline's source and how the parent compares with it."""
    host_code: bool = field(default=True, metadata={"help": "Show how solve is called."})
    """How `solve` is called."""
    diversity: bool = field(default=True, metadata={"help": "Each of a round tries another way."})
    """A direction of its own for each brief of a round."""

    def __and__(self, other: "Components") -> "Components":
        """Return what both allow."""
        names = self.__dataclass_fields__
        return Components(**{name: getattr(self, name) and getattr(other, name) for name in names})


EVERYTHING = Components()
