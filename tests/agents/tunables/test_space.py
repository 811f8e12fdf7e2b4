from itertools import islice, product

from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.playbook.kernels import sample_points, valid_points
from cuda_llm.agents.tunables.space import Space, Tunable, is_valid

NAMES = ("A", "B", "C")
CONDITIONS = ("A <= B", "A * C != 4", "C == 1 or B > A", "12 / (A - 2) > 1", "A or B or C")


def space_of(domains: list[list[int]], conditions: list[str]) -> Space:
    """Tunables A, B and C."""
    tunables = [
        Tunable(name=name, default=values[0], values=tuple(values))
        for name, values in zip(NAMES, domains, strict=True)
    ]
    return Space(tunables=tuple(tunables), conditions=tuple(conditions))


spaces = st.builds(
    space_of,
    st.lists(
        st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True), min_size=3, max_size=3
    ),
    st.lists(st.sampled_from(CONDITIONS), unique=True),
)


@given(spaces)
def test_the_points_are_the_product_without_what_the_conditions_exclude(space: Space) -> None:
    every = [
        dict(zip(NAMES, values, strict=True))
        for values in product(*(one.values for one in space.tunables))
    ]
    expected = [point for point in every if is_valid(space, point)]
    assert list(valid_points(space)) == expected


@given(spaces, st.integers(0, 99))
def test_sampled_points_are_valid_and_depend_on_the_seed_alone(space: Space, seed: int) -> None:
    if not any(valid_points(space)):
        return
    sampled = list(islice(sample_points(space, seed), 5))
    assert all(is_valid(space, point) for point in sampled)
    assert sampled == list(islice(sample_points(space, seed), 5))


def test_every_point_of_a_small_space_is_sampled_some_time() -> None:
    space = space_of([[0, 1], [1, 2, 3], [0, 1]], ["A <= B"])
    sampled = {tuple(one.values()) for one in islice(sample_points(space, 1), 200)}
    assert len(sampled) == len(list(valid_points(space))) == 12


def test_a_space_far_too_large_to_enumerate_is_sampled_at_once() -> None:
    names = [f"T{n}" for n in range(30)]
    tunables = tuple(Tunable(name=name, default=0, values=tuple(range(16))) for name in names)
    space = Space(tunables=tunables, conditions=("T0 + T1 <= T29",))
    assert all(is_valid(space, one) for one in islice(sample_points(space, 3), 20))
    assert len(list(islice(valid_points(space), 1000))) == 1000


def test_a_space_whose_points_cannot_be_found_ends_and_falls_back_to_its_defaults() -> None:
    names = [f"T{n}" for n in range(24)]
    tunables = tuple(Tunable(name=name, default=1, values=(0, 1)) for name in names)
    space = Space(tunables=tunables, conditions=(" * ".join(names),))
    assert next(sample_points(space, 5)) == space.defaults
    assert not list(valid_points(space))


def test_a_point_has_an_allowed_value_for_each_tunable_and_no_other() -> None:
    space = space_of([[0, 1], [1], [2]], [])
    assert is_valid(space, {"A": 1, "B": 1, "C": 2})
    assert not is_valid(space, {"A": 1, "B": 1})
    assert not is_valid(space, {"A": 1, "B": 2, "C": 2})
    assert not is_valid(space, {"A": 1, "B": 1, "C": 2, "D": 0})
