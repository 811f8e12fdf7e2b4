"""One thing that research found out."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The same three times: for prompts, for other agents, for the trace."""

    name: str
    """Its key in the note's data."""
    lines: tuple[str, ...] = ()
    data: Any = field(default_factory=dict)
    """Plain JSON."""
    decision: str = ""
    """One sentence; empty where there is nothing to tell."""
