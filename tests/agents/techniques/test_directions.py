"""Directions: different within a round, fit for the task and what runs it, and repeatable."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CATALOGUE, CHANGES
from cuda_llm.agents.techniques.directions import OPEN, directions
from cuda_llm.agents.techniques.structures import STRUCTURES
from cuda_llm.agents.techniques.task_kind import TaskKind, kind_of
from cuda_llm.agents.techniques.technique import REPAIR
from cuda_llm.capabilities import Capabilities
from cuda_llm.components import HardwareContext
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode, Passed, Verdict
from cuda_llm.profile import Bottleneck, Profile
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.loader import list_tasks, load_task

GPU, EMULATED = Capabilities(), Capabilities(full_isa=False)

KINDS = {
    "attention_fp16": TaskKind.ATTENTION,
    "conv2d": TaskKind.CONVOLUTION,
    "cross_entropy": TaskKind.ROW_LOSS,
    "dot_product": TaskKind.REDUCTION,
    "gemm_fp16": TaskKind.PRODUCT,
    "histogram": TaskKind.HISTOGRAM,
    "layer_norm": TaskKind.COLUMNS,
    "matrix_copy": TaskKind.COPY,
    "matrix_multiplication": TaskKind.PRODUCT,
    "matrix_transpose": TaskKind.TRANSPOSE,
    "max_pool_3d": TaskKind.WINDOW,
    "mean_squared_error": TaskKind.REDUCTION,
    "mlp_block": TaskKind.PRODUCT_CHAIN,
    "monte_carlo_integration": TaskKind.REDUCTION,
    "multi_head_attention": TaskKind.ATTENTION,
    "ordinary_least_squares": TaskKind.SOLVER,
    "prefix_sum": TaskKind.SCAN,
    "reduction": TaskKind.REDUCTION,
    "relu": TaskKind.ELEMENTWISE,
    "reverse_array": TaskKind.PERMUTATION,
    "rms_norm": TaskKind.ROWS,
    "sigmoid": TaskKind.ELEMENTWISE,
    "softmax": TaskKind.ROWS,
    "sorting": TaskKind.SORTING,
    "top_k": TaskKind.SELECTION,
    "vector_add": TaskKind.ELEMENTWISE,
}
TASKS = tuple(KINDS)
ASKED = (Kind.FIRST, Kind.FIX, Kind.IMPROVE, Kind.DEPART)


class Verdicts:
    """An archive of verdicts alone."""

    def __init__(self, verdicts: Mapping[str, Verdict] | None = None) -> None:
        self.verdicts = verdicts or {}

    def source(self, attempt: str) -> str:
        return ""

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts.get(attempt, NoCode(message="none"))


def situation(task: str = "reduction", gpu: str = "rtx_3090_ti", **changes: object) -> Situation:
    plain = Situation(
        task=load_task(task),
        hardware=find_hardware(gpu),
        device="a device",
        capabilities=EMULATED,
        config=RunConfig(),
        round=1,
        archive=Verdicts(),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def limited(by: tuple[str, ...], task: str = "matrix_multiplication") -> Situation:
    """A situation whose incumbent is limited by those bottlenecks."""
    passed = Attempt(
        id="r1-c1",
        round=1,
        index=1,
        kind=Kind.FIRST,
        written_by="model",
        code="PASSED",
        limited_by=by[0],
    )
    found = tuple(Bottleneck(code=code, share=0.3, explanation="it is slow") for code in by)
    profile = Profile(device="d", hardware="h", source="modelled", bottlenecks=found)
    verdicts = Verdicts({"r1-c1": Passed(profile=profile)})
    return situation(task, attempts=(passed,), incumbent=passed, round=2, archive=verdicts)


def test_the_kind_of_every_shipped_task_follows_from_its_declaration() -> None:
    assert {name: kind_of(load_task(name)) for name in list_tasks()} == KINDS


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("kind", ASKED)
def test_every_kind_of_brief_has_directions_enough_for_a_round_of_five(
    name: str, kind: Kind
) -> None:
    given = directions(situation(name), kind, 5)
    assert len(set(given)) == 5
    assert all(text in {technique.text for technique in CATALOGUE} for text in given)


@given(
    name=st.sampled_from(sorted(TASKS)),
    kind=st.sampled_from(ASKED),
    seed=st.integers(0, 2**32),
    round_=st.integers(1, 30),
    number=st.integers(0, 200),
)
def test_a_round_gets_different_directions_and_a_longer_one_only_adds(
    name: str, kind: Kind, seed: int, round_: int, number: int
) -> None:
    at = situation(name, config=RunConfig(seed=seed), round=round_)
    given = directions(at, kind, number)
    assert len(given) == len(set(given)) == number
    assert all(given)
    assert directions(at, kind, number) == given
    assert directions(at, kind, number + 3)[:number] == given


def test_another_seed_or_round_gives_another_order() -> None:
    orders = {
        directions(
            situation("histogram", config=RunConfig(seed=seed), round=round_), Kind.DEPART, 5
        )
        for seed in range(3)
        for round_ in (2, 3)
    }
    assert len(orders) > 1


def test_what_relieves_the_dominating_bottleneck_comes_first() -> None:
    at = limited(("bank_conflicts", "latency"))
    relieving = [one.text for one in CHANGES if "bank_conflicts" in one.against]
    waiting = [one.text for one in CHANGES if "latency" in one.against]
    found = directions(at, Kind.IMPROVE, 6)
    places = [one in waiting and one not in relieving for one in found]
    assert found[0] in relieving
    assert True in places
    assert places == sorted(places)


def test_a_choice_of_its_own_comes_before_other_structures_and_those_before_twists() -> None:
    given = directions(limited(("divergence",)), Kind.IMPROVE, 40)
    plain = [one for one in given if one in {technique.text for technique in CHANGES}]
    rest = given[len(plain) + 1 :]
    kinds = [one.startswith(tuple(plain)) for one in rest]
    assert given[len(plain)] == OPEN
    assert kinds == sorted(kinds)
    assert True in kinds
    assert {one.text for one in STRUCTURES} >= set(rest[: kinds.index(True)]) > set()


def test_changes_that_relieve_nothing_come_behind_other_ways_to_do_the_work() -> None:
    given = directions(limited(("what_a_profiler_of_ones_own_found",)), Kind.IMPROVE, 40)
    changes = {one.text for one in CHANGES}
    structures = {one.text for one in STRUCTURES}
    first = next(at for at, text in enumerate(given) if text in changes)
    assert given[0] == OPEN
    assert set(given[1:first]) <= structures
    assert first > 1


def test_nobody_else_gets_what_a_critique_asks_for() -> None:
    at = limited(("bank_conflicts",))
    padding = next(one.text for one in CHANGES if one.shown_by == "padding")
    assert padding in directions(at, Kind.IMPROVE, 5)
    asked = Hint(
        round=1,
        about="r1-c1",
        code="bank_conflicts",
        text="Pad it.",
        change="Pad the partial sums by 8 floats.",
        brings=("padding",),
        by="critique",
    )
    first, *others = directions(at, Kind.IMPROVE, 5, hints=(asked,))
    assert first == asked.change
    assert not [one for one in others if one.startswith(padding)]


def test_without_profiles_no_bottleneck_shows_in_the_order() -> None:
    config = RunConfig(without=("profile",))
    orders = {
        directions(replace(limited((code,)), config=config), Kind.IMPROVE, 5)
        for code in ("bank_conflicts", "latency", "tail")
    }
    assert len(orders) == 1


def test_what_was_tried_on_the_parent_comes_last() -> None:
    at = limited(("latency",))
    first = directions(at, Kind.IMPROVE, 1)[0]
    parent = at.attempts[0]
    child = replace(parent, id="r2-c1", round=2, kind=Kind.IMPROVE, parent="r1-c1", direction=first)
    again = replace(at, attempts=(parent, child), round=2)
    assert first not in directions(again, Kind.IMPROVE, 5)


def test_repairs_go_from_plain_to_bold_for_each_failure_anew() -> None:
    failed = Attempt(
        id="r1-c1", round=1, index=1, kind=Kind.FIRST, written_by="model", code="WRONG_RESULT"
    )
    tried = replace(failed, id="r2-c1", round=2, parent="r1-c1", kind=Kind.FIX)
    plain = directions(situation(), Kind.FIX, 1)[0]
    at = situation(attempts=(failed, replace(tried, direction=plain)), round=3)
    assert "smallest change" in plain
    assert directions(at, Kind.FIX, 1, parent=failed)[0] != plain
    assert directions(at, Kind.FIX, 1, parent=at.attempts[1])[0] != plain
    assert directions(at, Kind.FIX, 1, parent=replace(failed, id="r1-c2"))[0] == plain


def every_text(at: Situation, kind: Kind) -> str:
    return " ".join(directions(at, kind, 60))


@pytest.mark.parametrize(
    ("gpu", "able", "asynchronous", "bulk"),
    [
        ("gtx_1660_super", GPU, False, False),
        ("rtx_3090_ti", GPU, True, False),
        ("h100_sxm5_80gb", GPU, True, True),
        ("h100_sxm5_80gb", EMULATED, True, True),
    ],
)
def test_only_instructions_that_the_device_has_are_offered(
    gpu: str, able: Capabilities, asynchronous: bool, bulk: bool
) -> None:
    at = situation("matrix_multiplication", gpu, capabilities=able)
    texts = every_text(at, Kind.IMPROVE)
    assert ("__pipeline_memcpy_async" in texts) == asynchronous
    assert ("tensor memory accelerator" in texts) == bulk


@pytest.mark.parametrize("context", ["full", "name", "none"])
def test_a_hidden_gpu_does_not_show_in_what_is_offered(context: HardwareContext) -> None:
    config = RunConfig(hardware_context=context)
    old, new = (
        every_text(situation("matrix_multiplication", gpu, config=config), Kind.IMPROVE)
        for gpu in ("gtx_1660_super", "h100_sxm5_80gb")
    )
    assert (old == new) == (context == "none")


def test_a_library_is_offered_only_where_the_task_allows_it() -> None:
    assert "cub::" in every_text(situation("reduction"), Kind.DEPART)
    task = load_task("reduction")
    without = replace(task, capabilities=replace(task.capabilities, header_libraries=()))
    assert "cub::" not in every_text(replace(situation(), task=without), Kind.DEPART)


def test_without_diversity_no_brief_has_a_direction() -> None:
    config = RunConfig(without=("diversity",))
    assert directions(situation(config=config), Kind.FIRST, 3) == ("", "", "")


def test_the_catalogue_says_nothing_twice_and_no_figure_of_a_gpu() -> None:
    texts = [technique.text for technique in CATALOGUE]
    assert len(texts) == len(set(texts))
    assert not [text for text in texts if "sm_" in text or "RTX" in text or "KB" in text]


def test_every_kind_of_task_has_structures_of_its_own_and_every_technique_a_source() -> None:
    assert {kind for one in STRUCTURES for kind in one.tasks} == set(TaskKind)
    assert not [one.text for one in STRUCTURES if len(one.tasks) == len(TaskKind)]
    named = [one for one in CATALOGUE if one.kinds != REPAIR]
    assert not [one.text for one in named if not re.search(r"\b(19|20)\d\d\b", one.source)]
