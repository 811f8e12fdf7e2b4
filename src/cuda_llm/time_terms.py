"""How the terms of a modelled time (DRAM, L2, issue, latency ...) combine to one time."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from cuda_llm.profile import LaunchProfile

SHARPNESS = 4.0
"""Exponent of the soft maximum: two equal terms cost 19 % more than one (an estimate)."""
LAUNCH = "launch"
DATA_PATH = frozenset({"shared", "l1"})
"""Terms that share one data path, shared memory and L1: their times add up before the maximum."""
TERM_NAMES: Mapping[str, str] = {
    "dram": "DRAM bandwidth",
    "l2": "L2 bandwidth",
    "shared": "the path of shared memory and L1",
    "issue": "instruction issue",
    "latency": "latency",
    "atomic": "atomics",
    "launch": "the launches themselves",
    "blocks": "starting blocks",
    "fp32": "fp32 arithmetic",
    "fp64": "fp64 arithmetic",
    "fp16": "fp16 arithmetic",
    "int": "integer arithmetic",
    "sfu": "special functions",
    "convert": "conversions",
    "shuffle": "warp shuffles",
    "tensor": "tensor operations",
}
TermName = TypeVar("TermName", bound=str)


def dominating_term(launches: Sequence[LaunchProfile]) -> tuple[str, float] | None:
    """Return the name of the term that a call spends most time on, and its share of the time, 0 to
    1.

    None where the launches have no terms.
    """
    spent: dict[str, float] = {}
    for launch in launches:
        for term, us in launch.terms_us.items():
            name = "shared" if term in DATA_PATH else term
            spent[name] = spent.get(name, 0.0) + us
    whole_us = sum(launch.time_us for launch in launches)
    if not spent or whole_us <= 0:
        return None
    term = max(spent, key=spent.__getitem__)
    return TERM_NAMES.get(term, term), min(1.0, spent[term] / whole_us)


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
