from itertools import islice

from cuda_llm.agents.playbook.history import History, TriedPoint
from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.playbook.propose import propose
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space, is_valid

LARGE = (
    "".join(f"#define T{n} 0  // tunable: 0 1 2 3 4 5 6 7\n" for n in range(8))
    + "// tunable-if: T0 <= T1 + T2\n"
    + f"int x[] = {{{', '.join(f'T{n}' for n in range(8))}}};\n"
)


def kernels_of(source: str) -> TunableKernel:
    space = read_space(source)
    assert isinstance(space, Space)
    return TunableKernel(source, space)


def test_a_space_too_large_to_enumerate_is_searched_step_by_step_and_to_preferences_too() -> None:
    kernels = kernels_of(LARGE)
    best = {f"T{n}": 3 for n in range(8)}
    tried = [
        TriedPoint(point={**best, "T7": value}, score=None if value == 0 else -abs(value - 3) / 10)
        for value in range(6)
    ]
    history = History(tried=tuple(tried), preferred=({"T3": 7},))
    points = list(islice(propose(kernels, history, "1"), 9))
    assert all(is_valid(kernels.space, one) for one in points)
    assert {**best, "T3": 7} in points
    changed = [sum(one[name] != best[name] for name in best) for one in points]
    assert changed.count(1) >= 3
    assert points == list(islice(propose(kernels, history, "1"), 9))


def test_more_points_of_a_round_only_add_to_fewer() -> None:
    kernels = kernels_of(LARGE)
    few = list(islice(propose(kernels, History(), "7"), 3))
    assert list(islice(propose(kernels, History(), "7"), 8))[:3] == few
