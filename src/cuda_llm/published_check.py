"""What the check that is published with a task would have said of a kernel. Values only."""

from dataclasses import dataclass
from typing import Literal

Basis = Literal["executed", "passed ours", "never ended"]
"""How it is known: by making that check, or because our own verdict leaves no other answer."""


@dataclass(frozen=True, kw_only=True)
class PublishedCheck:
    """The answer of the check of arXiv 2506.09092: each output element within an absolute
    tolerance of the reference, on one fixed draw of the first distribution at each size.

    It refuses an element only where its distance is greater than the tolerance, so a NaN passes;
    it calls `solve` once on outputs that hold zeros, and looks at nothing else.
    """

    accepts: bool
    basis: Basis
    sizes: str = ""
    """Group of sizes that it was made at: `bench` as published, or `emulated`, smaller ones, where
    the device shows no whole results at the others. Empty where nothing was executed."""
    left_out: int = 0
    """How many of these sizes were not looked at, for they would have taken too long."""
    absolute_tolerance: float
    detail: str = ""
    """Why it refuses."""
