"""What one part of the research found out."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One result: as lines for prompts, as data for other agents, as a sentence for the trace."""

    name: str
    """Key in the note's data."""
    lines: tuple[str, ...] = ()
    data: Any = field(default_factory=dict)
    """Plain JSON."""
    decision: str = ""
    """One sentence, or empty."""
