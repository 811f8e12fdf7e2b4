"""What was tried on a kernel without gain."""

from collections.abc import Iterator

from cuda_llm.agents.quote import one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import doubt, gain_over
from cuda_llm.search import Attempt, Kind

MOST = 4


def tried_in_vain(situation: Situation, parent: Attempt) -> tuple[str, ...]:
    """Directions that led from `parent` to something no faster, newest first."""
    return tuple(dict.fromkeys(_without_gain(situation, parent)))[:MOST]


def _without_gain(situation: Situation, parent: Attempt) -> Iterator[str]:
    for child in reversed(situation.attempts):
        what = child.direction or child.idea
        is_try = child.parent == parent.id and child.kind in {Kind.IMPROVE, Kind.DEPART}
        if not is_try or not what or child.speedup is None or parent.speedup is None:
            continue
        gain, margin = gain_over(child, parent), doubt(situation, child, parent)
        if gain <= margin:
            came = "no faster" if gain >= -margin else f"{-gain:.0%} slower"
            yield f"{one_line(what, 160)} (tried: {came})"
