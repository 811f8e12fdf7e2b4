"""How the terms of a modelled time (DRAM, L2, issue, latency ...) combine to one time."""

from collections.abc import Mapping
from typing import TypeVar

SHARPNESS = 4.0
"""Exponent of the soft maximum: two equal terms cost 19 % more than one (an estimate)."""
LAUNCH = "launch"
DATA_PATH = frozenset({"shared", "l1"})
"""Terms that share one data path, shared memory and L1: their times add up before the maximum."""
PATH = "data_path"
TermName = TypeVar("TermName", bound=str)


def unit_of(term: str) -> str:
    """Return the unit that a term is the time of: the term itself, or the data path."""
    return PATH if term in DATA_PATH else term


def combine(terms_us: Mapping[TermName, float]) -> float:
    """Return the modelled time of `LaunchProfile.terms_us`.

    The soft maximum of the terms that overlap, plus the launch, which overlaps with nothing.
    """
    alone = {LAUNCH, *DATA_PATH}
    overlapping = [us for term, us in terms_us.items() if term not in alone]
    overlapping.append(sum(us for term, us in terms_us.items() if term in DATA_PATH))
    launch_us = sum(us for term, us in terms_us.items() if term == LAUNCH)
    return launch_us + _soft_maximum(overlapping)


def _soft_maximum(values: list[float]) -> float:
    largest = max(values)
    if largest <= 0:
        return 0.0
    total = sum((value / largest) ** SHARPNESS for value in values)
    return float(largest * total ** (1 / SHARPNESS))
