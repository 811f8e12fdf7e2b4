"""Leaves out values of tunables at which every judged point failed, in one way.

The forecast of a search knows points: it would try such a value again beside other values.
"""

from collections.abc import Sequence
from dataclasses import replace

from cuda_llm.agents.playbook.history import History
from cuda_llm.agents.tunables.space import Point, Space, is_valid
from cuda_llm.search import Attempt

FAILURES = 3
"""Failures in one way, and nothing else, after which a value is tried no more."""

_Value = tuple[str, int]


def without_failing(space: Space, judged: Sequence[tuple[Attempt, Point]]) -> Space:
    """Return the space without values at which at least `FAILURES` judged points failed, all in the
    same way, and none passed. Defaults stay.

    Of values that failed together the value with most failures comes first, and its failures say
    nothing of the others.
    """
    passed = {item for one, point in judged if one.passed for item in point.items()}
    left = [(one.failure or one.code, point) for one, point in judged if not one.passed]
    defaults = space.defaults
    refused = set[_Value]()
    while True:
        counts = dict[_Value, list[str]]()
        for why, point in left:
            for name, value in point.items():
                if (name, value) not in passed and value != defaults[name]:
                    counts.setdefault((name, value), []).append(why)
        fitting = [
            item for item, whys in counts.items() if len(whys) >= FAILURES and len({*whys}) == 1
        ]
        if not fitting:
            break
        worst = max(fitting, key=lambda item: len(counts[item]))
        refused.add(worst)
        left = [(why, point) for why, point in left if point[worst[0]] != worst[1]]
    tunables = tuple(
        replace(one, values=tuple(v for v in one.values if (one.name, v) not in refused))
        for one in space.tunables
    )
    return replace(space, tunables=tunables)


def history_of(space: Space, history: History) -> History:
    """Return the history without points that are not of `space`; their kernels stay seen."""
    tried = tuple(one for one in history.tried if is_valid(space, one.point))
    return replace(history, tried=tried)
