from collections.abc import Mapping

import numpy as np
import pytest

from cuda_llm.agents.playbook.forecast import Forecast
from cuda_llm.agents.playbook.history import TriedPoint
from cuda_llm.agents.playbook.point_table import PointTable, tabulate
from cuda_llm.agents.tunables.space import Space, Tunable

THREADS = tuple(range(16, 272, 16))
ITEMS = (1, 2, 3, 4, 6, 8)


@pytest.fixture
def table() -> PointTable:
    space = Space(
        tunables=(
            Tunable(name="THREADS", default=16, values=THREADS),
            Tunable(name="ITEMS", default=1, values=ITEMS),
        )
    )
    return tabulate(space, [{"THREADS": one, "ITEMS": two} for one in THREADS for two in ITEMS])


def score(point: Mapping[str, int]) -> float:
    """Best at ITEMS 4; whole warps are faster; more threads are a little better."""
    return -abs(point["ITEMS"] - 4) - 3.0 * (point["THREADS"] % 32 > 0) + point["THREADS"] / 1000


def tried_points(table: PointTable, every: int) -> list[TriedPoint]:
    points = list(table.points())[::every]
    return [TriedPoint(point=one, score=score(one)) for one in points]


def test_the_largest_gain_is_expected_where_what_was_tried_points_to(table: PointTable) -> None:
    tried = [one for one in tried_points(table, 5) if (one.score or 0) < 0]
    gains = Forecast(table, tried).gains()
    point = table.point(int(np.argmax(gains)))
    assert point["THREADS"] % 32 == 0
    assert point["ITEMS"] in (3, 4, 6)


def test_a_point_that_was_asked_for_is_worth_less_until_it_is_known(table: PointTable) -> None:
    forecast = Forecast(table, tried_points(table, 7))
    before = forecast.gains()
    at = int(np.argmax(before))
    forecast.learn(at, None)
    assert forecast.gains()[at] < 0.8 * before[at]
    assert np.all(forecast.gains() <= before + 1e-6)


def test_what_is_learned_of_a_point_raises_those_around_it(table: PointTable) -> None:
    points = list(table.points())
    at, beside, far = (
        points.index({"THREADS": threads, "ITEMS": items})
        for threads, items in ((64, 6), (64, 8), (240, 1))
    )
    fast, slow = (Forecast(table, tried_points(table, 7)) for _ in range(2))
    fast.learn(at, 0.0)
    slow.learn(at, -5.0)
    more = fast.gains() - slow.gains()
    assert more[beside] > more[far]


def test_failures_and_equal_scores_are_forecast_too(table: PointTable) -> None:
    points = list(table.points())[::9]
    equal = [TriedPoint(point=one, score=1.0) for one in points]
    failed = [TriedPoint(point=one, score=None if at else 1.0) for at, one in enumerate(points)]
    for tried in (equal, failed):
        gains = Forecast(table, tried).gains()
        assert np.all(np.isfinite(gains))
        assert np.all(gains >= 0)
