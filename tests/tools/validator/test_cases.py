"""Plans cover every size and distribution; random streams are secret and replayable."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from operator import ge

import numpy as np
import pytest
from corpus_sample import is_whole, sample
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import DimRange, HiddenSizes, Roofline, Task
from cuda_llm.tools.device import Level
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import (
    MANY_ELEMENTS,
    NONCE_BYTES,
    POISONS,
    distribution_rows,
    fresh_nonce,
    generator,
    inputs_of,
    plan,
    put_informative_first,
    terms_of,
    timed_case,
    timed_checks,
    work,
)
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.hidden_sizes import STEPS, draw_hidden, draw_ragged

PLANS = 100 if is_whole() else 4
"""Each draws hidden sizes of its own."""


@pytest.mark.parametrize("name", list_tasks())
@pytest.mark.parametrize("seed", sample(range(5), every=5))
def test_every_size_and_every_distribution_occurs(name: str, seed: int) -> None:
    task = load_task(name)
    cases = plan(task, np.random.default_rng(seed))
    used = {tuple(sorted(case.distributions.items())) for case in cases}
    assert used >= {tuple(sorted(row.items())) for row in distribution_rows(task)}
    sizes = [dict(case.dims) for case in cases]
    assert all(dict(dims) in sizes for dims in (*task.sizes.edge, task.sizes.emulated[0]))
    assert sum(case.group == "hidden" for case in cases) >= 2
    assert len(cases) <= len(task.sizes.edge) + len(distribution_rows(task)) + 20


@pytest.mark.parametrize("name", list_tasks())
def test_every_distribution_meets_a_size_where_it_shows(name: str) -> None:
    task = load_task(name)
    counts = [elements(task, dims) for dims in task.sizes.edge]
    longest = [max(column) for column in zip(*counts, strict=True)]
    enough = [min(MANY_ELEMENTS, count) for count in longest]
    for seed in range(PLANS):
        cases = plan(task, np.random.default_rng(seed))
        for row in distribution_rows(task):
            assert any(
                case.distributions == row and all(map(ge, elements(task, case.dims), enough))
                for case in cases
            ), (seed, row)


def test_a_task_of_one_size_is_planned_on_all_its_distributions() -> None:
    task = load_task("conv2d")
    one = replace(task.sizes, edge=task.sizes.edge[:1], emulated=(), hidden=HiddenSizes(dims={}))
    cases = plan(replace(task, sizes=one), np.random.default_rng(0))
    assert all(row in [case.distributions for case in cases] for row in distribution_rows(task))


def test_the_size_with_the_longest_shortest_buffer_comes_first_where_all_are_short() -> None:
    task = load_task("matrix_multiplication")
    shapes = [(1, 1, 1), (1, 900, 9), (900, 4, 9)]
    sizes = [("edge", dict(zip("MNK", shape, strict=True))) for shape in shapes]
    assert put_informative_first(task, sizes, 3) == [sizes[2]] * 3 + [sizes[1], sizes[0]]


def test_the_cheapest_of_the_informative_sizes_is_repeated() -> None:
    task = load_task("vector_add")
    sizes = [("edge", {"n": n}) for n in (5, 1000, 2000, 3000)]
    small, *informative = sizes
    assert put_informative_first(task, sizes, 5) == [
        *informative[::-1],
        *informative[:1] * 2,
        small,
    ]


@pytest.mark.parametrize("name", list_tasks())
def test_cases_run_from_cheap_to_dear_with_both_poisons_and_one_repeat(name: str) -> None:
    cases = plan(load_task(name), np.random.default_rng(0))
    effort = [case.work for case in cases]
    assert effort == sorted(effort)
    assert {case.poison for case in cases} == set(POISONS)
    assert sum(case.repeat_seed != 0 for case in cases) == 1
    assert cases[0].schedule_seed == 0
    assert any(case.schedule_seed for case in cases)
    assert cases[0].level is Level.FULL


@pytest.mark.parametrize("name", list_tasks())
def test_linear_tasks_are_probed_for_exactness(name: str) -> None:
    task = load_task(name)
    probes = [case for case in plan(task, np.random.default_rng(0)) if case.probe]
    assert {case.group for case in probes} == ({"edge", "hidden"} if task.linear else set())


@pytest.mark.parametrize("name", ["matrix_multiplication", "reduction", "conv2d"])
def test_probe_sums_stay_exact_in_float32_however_many_terms(name: str) -> None:
    task = load_task(name)
    for seed in range(5):
        for case in plan(task, np.random.default_rng(seed)):
            if case.probe:
                inputs = draw_inputs(task, case, np.random.default_rng(seed))
                values = [np.abs(array).reshape(-1) for array in inputs.values()]
                nonzero = min(float(np.mean(array > 0)) for array in values)
                biggest = np.prod([array.max() for array in values])
                assert nonzero * terms_of(task, case).count * biggest < 2**24


def test_terms_know_which_inputs_cancel_and_which_repeat() -> None:
    task = load_task("reduction")
    case = timed_case(task, {"n": 100}, Level.CHECK)
    for spelling, symmetric, repeated in [
        ("normal", True, False),
        ("uniform(-5, 5)", True, False),
        ("uniform(-5, 6)", False, False),
        ("uniform_unit", False, False),
        ("all_equal(1)", False, True),
        ("mixed", False, False),
    ]:
        terms = terms_of(task, replace(case, distributions={"input": spelling}))
        assert (terms.count, terms.symmetric, terms.repeated) == (100, symmetric, repeated)


@pytest.mark.parametrize("name", list_tasks())
def test_hidden_sizes_are_fresh_admissible_and_new_each_time(name: str) -> None:
    task = load_task(name)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(30):
        sizes = draw_hidden(task, rng)
        assert len(sizes) >= 2
        for size in sizes:
            hidden = task.sizes.hidden
            assert not task.requires or evaluate(task.requires, size)
            assert evaluate(hidden.cost, size) <= hidden.max_cost
            assert all(
                limits.minimum <= size[dim] <= limits.maximum for dim, limits in hidden.dims.items()
            )
            assert size not in task.sizes.edge
            seen.append(tuple(size.items()))
    # Where a task requires one extent to reach another, few sizes just meet that.
    assert len(set(seen)) > (0.6 if task.requires else 0.7) * len(seen)


def test_hidden_sizes_respect_multiples_and_reach_small_and_large() -> None:
    task = load_task("vector_add")
    limits = HiddenSizes(dims={"n": DimRange(minimum=10, maximum=100_000, multiple_of=32)})
    task = replace(task, sizes=replace(task.sizes, hidden=limits))
    rng = np.random.default_rng(0)
    drawn = [size["n"] for _ in range(50) for size in draw_hidden(task, rng)]
    assert all(n % 32 == 0 and 32 <= n <= 100_000 for n in drawn)
    assert min(drawn) < 1000
    assert max(drawn) > 50_000


def elements(task: Task, dims: Mapping[str, int]) -> list[int]:
    """Of each buffer."""
    return [prod(spec.shape) for spec in buffer_specs(task, dims)]


def test_hidden_sizes_that_cannot_be_drawn_are_a_fault_of_the_task() -> None:
    task = load_task("vector_add")
    task = replace(task, requires="n > 400000")
    with pytest.raises(TaskError, match=r"sizes\.hidden"):
        draw_hidden(task, np.random.default_rng(0))


NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
KEYS = st.tuples(NONCES, st.text(max_size=8), st.text(max_size=8), st.integers(0, 1 << 40))


@given(KEYS)
def test_a_key_replays_its_stream(key: tuple[bytes, str, str, int]) -> None:
    assert generator(*key).bytes(32) == generator(*key).bytes(32)


@given(KEYS, KEYS)
def test_keys_that_differ_anywhere_give_other_streams(
    one: tuple[bytes, str, str, int], other: tuple[bytes, str, str, int]
) -> None:
    assert (generator(*one).bytes(16) == generator(*other).bytes(16)) == (one == other)


def test_parts_of_a_key_are_not_run_together() -> None:
    nonce = bytes(NONCE_BYTES)
    assert generator(nonce, "ab", "c", 1).bytes(16) != generator(nonce, "a", "bc", 1).bytes(16)
    assert generator(nonce, "a", "b1", 2).bytes(16) != generator(nonce, "a", "b", 12).bytes(16)


def test_nonces_are_sixteen_bytes_and_never_repeat() -> None:
    drawn = {fresh_nonce() for _ in range(100)}
    assert len(drawn) == 100
    assert {len(nonce) for nonce in drawn} == {NONCE_BYTES}


def test_hidden_sizes_lie_beside_the_numbers_of_a_source() -> None:
    task = load_task("vector_add")
    drawn = draw_hidden(task, np.random.default_rng(1), (12345, 1 << 30))
    assert sum(abs(size["n"] - 12345) <= 1 for size in drawn) == 2


@pytest.mark.parametrize("seed", range(10))
def test_a_filter_as_large_as_its_image_is_always_drawn(seed: int) -> None:
    drawn = draw_hidden(load_task("conv2d"), np.random.default_rng(seed))
    assert any(size["H"] == size["R"] and size["W"] == size["S"] for size in drawn)


@pytest.mark.parametrize("name", list_tasks())
def test_one_hidden_size_lies_beside_a_timed_one(name: str) -> None:
    task = load_task(name)
    timed = [*task.sizes.emulated, *task.sizes.bench]
    found = 0
    for seed in range(10):
        for size in draw_hidden(task, np.random.default_rng(seed)):
            near = any(all(abs(size[d] - one[d]) <= 3 for d in one) for one in timed)
            found += near or any(elements(task, size) == elements(task, one) for one in timed)
    assert found >= 5


@pytest.mark.parametrize("name", list_tasks())
def test_the_smallest_timed_size_is_checked_on_as_many_inputs_as_it_affords(name: str) -> None:
    task, rng = load_task(name), np.random.default_rng(0)
    rows = distribution_rows(task)
    smallest, *_, largest = task.sizes.emulated
    cases = timed_checks(task, smallest, rng, "emulated")
    assert len(cases) >= 2
    assert rows[0] not in [case.distributions for case in cases]
    assert any(case.probe for case in cases) == task.linear
    assert timed_checks(task, largest, rng, "emulated")
    every = timed_checks(task, smallest, rng, "bench", most=99)
    drawn = [case.distributions for case in every]
    assert all(row in drawn for row in rows[1:])
    sums_one = task.tolerance.kind in ("reduction", "dot") and len(inputs_of(task)) == 1
    assert any("regions" in case.label for case in every) != sums_one


def test_one_value_repeated_is_checked_at_the_largest_size_that_affords_two() -> None:
    task = load_task("histogram")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        cases = timed_checks(task, task.sizes.emulated[-1], rng, "emulated")
        assert any(case.label.startswith(("all_equal", "spike")) for case in cases)


def test_a_task_that_states_no_work_is_planned_by_its_buffers() -> None:
    """`tasks new` drafts a roofline of 0 operations and 0 bytes."""
    stated = load_task("vector_add")
    task = replace(stated, roofline=Roofline(flops="0", bytes="0"))
    assert timed_checks(task, task.sizes.emulated[0], np.random.default_rng(0), "emulated")
    efforts = [work(task, dims) for dims in sorted(task.sizes.bench, key=lambda dims: dims["n"])]
    assert efforts == sorted(efforts)
    assert min(efforts) > 0


@pytest.mark.parametrize("seed", range(3))
def test_sizes_lie_on_either_side_of_what_a_source_compares_an_extent_with(seed: int) -> None:
    task = load_task("rms_norm")
    sizes = draw_hidden(task, np.random.default_rng(seed), (), {"cols": (77,), "eps": (3,)})
    assert {76, 77, 78} <= {size["cols"] for size in sizes}
    assert all(size["rows"] * size["cols"] <= task.sizes.hidden.max_cost for size in sizes)


def test_one_extent_alone_is_changed_of_a_timed_size_with_several() -> None:
    task = load_task("matrix_multiplication")
    changed: set[str] = set()
    for seed in range(8):
        for size in draw_hidden(task, np.random.default_rng(seed)):
            for timed in task.sizes.emulated:
                other = [name for name in size if size[name] != timed[name]]
                changed.update(other if len(other) == 1 else ())
    assert changed == {"M", "N", "K"}


@pytest.mark.parametrize("name", ["prefix_sum", "matrix_multiplication", "cross_entropy"])
def test_a_size_above_a_timed_one_is_ragged_and_within_the_task_s_own_extents(name: str) -> None:
    task = load_task(name)
    largest = task.sizes.bench[0]
    declared = (*task.sizes.bench, *task.sizes.large)
    most = {extent: max(size[extent] for size in declared) for extent in largest}
    grown = set()
    for seed in range(40):
        size = draw_ragged(task, largest, np.random.default_rng(seed), most_times=8.0)
        assert size is not None
        few = max(STEPS)
        longer = [one for one in size if size[one] - few >= 1.4 * largest[one]]
        grown |= set(longer)
        assert len(longer) <= 1
        for extent in size:
            assert size[extent] <= min(8 * largest[extent], most[extent]) + few
    assert grown


def test_a_size_beside_one_of_small_extents_has_extents_at_most_twice_as_long() -> None:
    """16 images of 4 channels with steps of 53 and 43 would be 51 times as many elements."""
    task = load_task("layer_norm")
    dims = task.sizes.bench[0]
    for seed in range(40):
        size = draw_ragged(task, dims, np.random.default_rng(seed))
        assert size is not None
        assert all(1 <= size[name] <= 2 * dims[name] for name in task.sizes.hidden.dims)
