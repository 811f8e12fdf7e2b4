"""A strategy of one's own: a beam search that improves several kernels at once.

    cuda-llm run histogram --strategy examples/beam_search.py:BeamSearch

The fastest `WIDTH` kernels so far are the parents of a round, whatever rounds they are from, so
that a promising structure survives although another one is ahead.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from cuda_llm.extend import (
    EVERYTHING,
    Assignment,
    Attempt,
    Brief,
    Choice,
    Components,
    Kind,
    Situation,
    at_the_limit,
    choose_fastest,
    distinct_failures,
    make_briefs,
    passed_by_speed,
)

WIDTH = 3


@dataclass(frozen=True)
class BeamSearch:
    """Improves the `WIDTH` fastest kernels of different structure."""

    name: str = "beam"
    deduplicate: bool = True
    components: Components = EVERYTHING

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """The beam's members take turns as parents; without any, failures are fixed."""
        orders: list[Assignment] = [(Kind.IMPROVE, parent) for parent in find_beam(situation)]
        orders = orders or [(Kind.FIX, one) for one in distinct_failures(situation.attempts)]
        orders = orders or [(Kind.FIRST, None)]
        taken = islice(cycle(orders), situation.config.candidates)
        return make_briefs(situation, list(taken), self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """The result is the best ever, as in `fsr`."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """At the hardware's limit, or when a whole round changed nothing in the beam."""
        newest = max((one.round for one in situation.attempts), default=0)
        beam = find_beam(situation)
        stale = bool(beam) and all(one.round < newest for one in beam)
        return at_the_limit(situation) or ("the beam has not changed" if stale else "")


def find_beam(situation: Situation) -> list[Attempt]:
    """The fastest of each family: of kernels with one ancestor, only the best is kept."""
    families: dict[str, Attempt] = {}
    for one in passed_by_speed(situation.attempts):
        families.setdefault(ancestor(situation, one), one)
    return list(families.values())[:WIDTH]


def ancestor(situation: Situation, attempt: Attempt) -> str:
    """Id of the kernel that a line of improvements began with."""
    while attempt.parent is not None:
        attempt = situation.attempt(attempt.parent)
    return attempt.id
