"""How the terms of a modelled time (DRAM, L2, issue, latency ...) combine to one time."""

from collections.abc import Mapping
from typing import TypeVar

SHARPNESS = 4.0
"""Exponent of the soft maximum: two equal terms cost 19 % more than one (an estimate)."""
LAUNCH = "launch"
LATENCY = "latency"
FIRST_TURN = "first_turn"
"""Term of the first turn through a block: until its loads have arrived, nothing is there to overlap
with, and after the last the block still reduces and stores."""
ALONE = frozenset({LAUNCH, FIRST_TURN})
"""Terms that overlap with nothing."""
DATA_PATH = frozenset({"shared", "l1"})
"""Terms that share one data path, shared memory and L1: their times add up before the maximum."""
PATH = "data_path"
TermName = TypeVar("TermName", bound=str)


def unit_of(term: str) -> str:
    """Return the unit that a term is the time of: the term itself, the data path, or latency."""
    if term == FIRST_TURN:
        return LATENCY
    return PATH if term in DATA_PATH else term


def combine(terms_us: Mapping[TermName, float]) -> float:
    """Return the modelled time of `LaunchProfile.terms_us`.

    The soft maximum of the terms that overlap, plus those that overlap with nothing (`ALONE`).
    """
    apart = ALONE | DATA_PATH
    overlapping = [us for term, us in terms_us.items() if term not in apart]
    overlapping.append(sum(us for term, us in terms_us.items() if term in DATA_PATH))
    alone_us = sum(us for term, us in terms_us.items() if term in ALONE)
    return alone_us + _soft_maximum(overlapping)


def _soft_maximum(values: list[float]) -> float:
    largest = max(values)
    if largest <= 0:
        return 0.0
    total = sum((value / largest) ** SHARPNESS for value in values)
    return float(largest * total ** (1 / SHARPNESS))
