"""What `cuda-llm doctor` says of one thing."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked for."""

    what: str
    found: str
    mend: str = ""
    """Empty when nothing needs mending."""
    needed: bool = True
    """False: everything works without it, only with less."""
