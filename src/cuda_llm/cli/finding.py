"""One check of `cuda-llm doctor`."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked for, what was found, and how to mend it."""

    what: str
    found: str
    mend: str = ""
    """Empty when nothing needs mending."""
    needed: bool = True
    """False: everything works without it, only with less."""
