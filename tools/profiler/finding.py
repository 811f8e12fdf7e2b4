"""One reason for the time of one launch, before reasons are ranked."""

from dataclasses import dataclass

from cuda_llm.spots import SourceSpot


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A reason and the time that would go if it went."""

    code: str
    saved_us: float
    share: float
    """Part of the launch's time it accounts for, 0 to 1."""
    explanation: str
    advice: str
    spot: SourceSpot | None = None
    waste: bool = False
    """True where the kernel can do without: the same work has a cheaper form."""
