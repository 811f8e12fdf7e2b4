from collections.abc import Callable, Mapping
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


def judge_large(point: Mapping[str, int]) -> float | None:
    """Slower with each step away from T0 = 1, T1 = 5 and T2 = 2; T3 = 0 fails."""
    if point["T3"] == 0:
        return None
    return -(abs(point["T0"] - 1) + abs(point["T1"] - 5) + abs(point["T2"] - 2)) / 10


def search(
    kernels: TunableKernel,
    judge: Callable[[Mapping[str, int]], float | None],
    rounds: int,
    preferred: tuple[Mapping[str, int], ...] = (),
) -> list[TriedPoint]:
    """Rounds of six points, each asked before any of them is judged."""
    tried = list[TriedPoint]()
    for round in range(rounds):
        history = History(tried=tuple(tried), preferred=preferred)
        points = list(islice(propose(kernels, history, f"{round}"), 6))
        tried += [TriedPoint(point=one, score=judge(one)) for one in points]
    return tried


def test_a_space_too_large_to_enumerate_is_searched_to_its_best_values() -> None:
    kernels = kernels_of(LARGE)
    tried = search(kernels, judge_large, 10)
    assert all(is_valid(kernels.space, one.point) for one in tried)
    assert len({tuple(one.point.values()) for one in tried}) == 60
    assert max(one.score for one in tried if one.score is not None) == 0


def test_values_that_fail_are_asked_less_often_once_that_is_known() -> None:
    tried = search(kernels_of(LARGE), judge_large, 10)
    fails = [one.score is None for one in tried]
    assert sum(fails[:12]) > sum(fails[-12:])


def test_a_hint_is_followed_in_every_round() -> None:
    kernels = kernels_of(LARGE)
    for rounds in (1, 2, 4):
        history = History(
            tried=tuple(search(kernels, judge_large, rounds)), preferred=({"T3": 7, "T4": 6},)
        )
        assert history.best
        points = list(islice(propose(kernels, history, "1"), 3))
        assert any((one["T3"], one["T4"]) == (7, 6) for one in points)
        assert points == list(islice(propose(kernels, history, "1"), 3))


def test_a_space_in_which_everything_fails_is_searched_on() -> None:
    tried = search(kernels_of(LARGE), lambda _: None, 4)
    assert len({tuple(one.point.values()) for one in tried}) == 24


def test_points_that_are_one_kernel_are_asked_once_and_taken_for_one() -> None:
    """MODE 0 ignores the others, so all its 64 points are one kernel."""
    kernels = kernels_of(
        "#define MODE 0  // tunable: 0 1\n#define A 1  // tunable: 1 2 3 4 5 6 7 8\n"
        "#define B 1  // tunable: 1 2 3 4 5 6 7 8\n"
        "#if MODE == 0\nint x;\n#else\nint x[] = {A, B};\n#endif\n"
    )

    def judge(point: Mapping[str, int]) -> float:
        return 0.0 if point["MODE"] == 0 else -1 - abs(point["A"] - 3) / 10

    tried = search(kernels, judge, 12)
    assert len(tried) == len({kernels.sha(one.point) for one in tried}) == 65


def test_more_points_of_a_round_only_add_to_fewer() -> None:
    kernels = kernels_of(LARGE)
    few = list(islice(propose(kernels, History(), "7"), 3))
    assert list(islice(propose(kernels, History(), "7"), 8))[:3] == few
