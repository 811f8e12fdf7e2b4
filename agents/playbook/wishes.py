"""Finds the values that a kernel's `tunable-hint` lines prefer under the hints of reflection."""

from collections.abc import Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.tunable import Point, Space
from cuda_llm.search import Hint


def find_wishes(space: Space, situation: Situation, best: Point) -> tuple[Point, ...]:
    """Returns the preferred values under the newest hints, without those that `best` has.

    Values for bottlenecks come before values for failures.
    """
    answered = {one.code for one in space.preferences}
    codes = [
        *_newest(situation.performance_hints, answered),
        *_newest(situation.error_hints, answered),
    ]
    return tuple(
        preference.values
        for code in dict.fromkeys(codes)
        for preference in space.preferences
        if preference.code == code and not preference.values.items() <= best.items()
    )


def _newest(hints: Sequence[Hint], answered: set[str]) -> list[str]:
    """Returns the codes in `answered` that hints of the newest round have."""
    known = [one for one in hints if one.code in answered]
    newest = max((one.round for one in known), default=0)
    return [one.code for one in known if one.round == newest]
