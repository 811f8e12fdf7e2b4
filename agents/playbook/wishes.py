"""Which values the reflection's hints ask for."""

from collections.abc import Sequence

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.tunable import Point, Space
from cuda_llm.search import Hint


def find_wishes(space: Space, situation: Situation, best: Point) -> tuple[Point, ...]:
    """What the `tunable-hint` lines answer to the newest hints; `best` lacks each of them.

    What limits the kernels counts before what failed.
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
    """Codes of the newest round that gave any of them."""
    known = [one for one in hints if one.code in answered]
    newest = max((one.round for one in known), default=0)
    return [one.code for one in known if one.round == newest]
