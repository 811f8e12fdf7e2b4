import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from playbook_runs import PLAYBOOK, ask_round, at, bowl, brief, play, playbook_task

from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.errors import MissingError, TaskError
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Draft, Hint, Kind
from cuda_llm.source_tokens import normal_sha
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.verdict_wording import describe


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return playbook_task(tmp_path)


def hint(code: str) -> Hint:
    return Hint(round=1, about="", code=code, text="")


def test_the_first_round_shows_the_default_and_every_structure(task: Task) -> None:
    attempts = play(task, 1)
    assert attempts[0].tunables == {"VARIANT": 0, "TILE": 8, "ITEMS": 1, "WIDTH": 1}
    assert {one.tunables["VARIANT"] for one in attempts} == {0, 1, 2}
    assert {one.tunables["WIDTH"] for one in attempts} == {1, 2, 4}


def test_kernels_are_specialised_and_described_by_their_points(task: Task) -> None:
    attempts = play(task, 6)
    assert len({one.normal_sha for one in attempts}) == len(attempts) == 30
    (draft,) = ask_round(PlaybookGenerator(task), at(task, ()), [brief(1)])
    assert isinstance(draft, Draft)
    assert read_space(draft.source) is None
    assert "#if" not in draft.source
    assert draft.idea == "VARIANT 0, TILE 8, ITEMS 1, WIDTH 1"


def test_the_same_seed_gives_the_same_search_and_another_seed_another(task: Task) -> None:
    assert play(task, 4, seed=3) == play(task, 4, seed=3)
    assert play(task, 4, seed=3) != play(task, 4, seed=4)


def test_an_answer_depends_neither_on_the_order_of_briefs_nor_on_what_was_asked_before(
    task: Task,
) -> None:
    attempts = play(task, 3)
    briefs = [brief(index, Kind.DEPART if index > 3 else Kind.IMPROVE) for index in range(1, 6)]
    where = at(task, attempts)
    expected = ask_round(PlaybookGenerator(task), where, briefs)
    used = PlaybookGenerator(task)
    ask_round(used, at(task, attempts[:5]), briefs)
    for seed in range(5):
        order = random.Random(seed).sample(range(5), 5)
        answers = ask_round(used, where, [briefs[place] for place in order])
        assert answers == [expected[place] for place in order]


def test_the_search_finds_the_bottom_of_a_bowl_that_chance_misses(task: Task) -> None:
    best = bowl({"VARIANT": 2, "TILE": 32, "ITEMS": 4, "WIDTH": 4})
    assert best is not None
    reached = [max(one.speedup or 0 for one in play(task, 5, seed=seed)) for seed in range(7)]
    assert sorted(reached)[3] > 0.95 * best


def test_all_kernels_are_tried_once_and_then_the_playbook_is_exhausted(tmp_path: Path) -> None:
    """VARIANT 0 is a kernel for each TILE; the others have one for each valid point."""
    source = PLAYBOOK.replace("4 8 16 32 64", "4 8").replace("1 2 4 8", "1 4 8")
    task = playbook_task(tmp_path, source)
    attempts = play(task, 10)
    assert len(attempts) == len({one.normal_sha for one in attempts}) == 2 + 2 * 3 * (2 + 3)
    (answer,) = ask_round(PlaybookGenerator(task), at(task, attempts), [brief(1, Kind.DEPART)])
    assert answer == NoCode(kind="exhausted")
    assert describe(answer) == ("every kernel of the playbook was tried",)


def test_a_hint_gives_its_values_to_some_candidates_and_not_to_all(
    task: Task,
) -> None:
    attempts = play(task, 1, lambda point: 2.0 if point["VARIANT"] == 1 else 1.0)
    briefs = [brief(index) for index in range(1, 6)]
    hinted = at(task, attempts, performance_hints=(hint("latency"),))
    answers = ask_round(PlaybookGenerator(task), hinted, briefs)
    points = [one.tunables for one in answers if isinstance(one, Draft)]
    wanted = [one for one in points if (one["ITEMS"], one["WIDTH"]) == (4, 4)]
    assert 1 <= len(wanted) < 5
    assert wanted[0]["VARIANT"] == 1
    assert answers != ask_round(PlaybookGenerator(task), at(task, attempts), briefs)


def test_hints_that_are_switched_off_or_unknown_change_nothing(task: Task) -> None:
    attempts = play(task, 1, lambda _: 1.0)  # The best, the first, has none of the hint's values.
    plain = ask_round(PlaybookGenerator(task), at(task, attempts), [brief(2)])
    hinted = at(task, attempts, performance_hints=(hint("latency"),))
    unknown = at(task, attempts, error_hints=(hint("TIMED_OUT"),))
    assert ask_round(PlaybookGenerator(task), hinted, [brief(2, hints=False)]) == plain
    assert ask_round(PlaybookGenerator(task), unknown, [brief(2)]) == plain
    assert ask_round(PlaybookGenerator(task), hinted, [brief(2)]) != plain


def test_without_history_the_space_is_spread_over_and_nothing_is_repeated(task: Task) -> None:
    attempts = play(task, 1)
    briefs = [brief(index, history=False) for index in range(1, 6)]
    blind = ask_round(PlaybookGenerator(task), at(task, attempts), briefs)
    worse = [type(one)(**{**one.__dict__, "speedup": 1 / (one.speedup or 1)}) for one in attempts]
    assert blind == ask_round(PlaybookGenerator(task), at(task, worse), briefs)
    known = {one.normal_sha for one in attempts}
    assert not known & {normal_sha(one.source) for one in blind if isinstance(one, Draft)}


def test_a_departing_candidate_leaves_the_incumbents_structure(task: Task) -> None:
    attempts = play(task, 4)
    briefs = [brief(index, Kind.IMPROVE if index < 4 else Kind.DEPART) for index in range(1, 6)]
    where = at(task, attempts)
    answers = ask_round(PlaybookGenerator(task), where, briefs)
    structures = [one.tunables["VARIANT"] for one in answers if isinstance(one, Draft)]
    assert where.incumbent is not None
    assert where.incumbent.tunables["VARIANT"] not in structures[3:]
    assert len({one.source for one in answers if isinstance(one, Draft)}) == 5


def test_failures_keep_the_search_away(task: Task) -> None:
    """A third of the space fails; most of it is left alone once that is known."""

    def fails(point: Mapping[str, int]) -> float | None:
        return None if point["WIDTH"] == 4 else bowl(point)

    attempts = [one for seed in range(5) for one in play(task, 5, fails, seed=seed)]
    early = [one for one in attempts if one.round <= 2]
    late = [one for one in attempts if one.round >= 4]
    share = [sum(not one.passed for one in some) / len(some) for some in (early, late)]
    assert share[1] < share[0]


def test_kernels_of_other_authors_and_failures_of_our_own_parts_are_no_history(task: Task) -> None:
    attempts = play(task, 2)
    plain = ask_round(PlaybookGenerator(task), at(task, attempts, round=3), [brief(3)])
    known = attempts[7]
    others = (
        replace(known, id="r2-c6", index=6, written_by="model", speedup=99.0),
        replace(known, id="r2-c7", index=7, code="INFRA_RUNNER", speedup=None),
        replace(known, id="r2-c8", index=8, code="DUPLICATE", speedup=None),
    )
    where = at(task, [*attempts, *others], round=3)
    assert ask_round(PlaybookGenerator(task), where, [brief(3)]) == plain


def test_a_task_without_a_playbook_is_refused_before_any_work(task: Task) -> None:
    bare = replace(task, playbook=None)
    with pytest.raises(MissingError, match=r"no playbook\.cu.*--model") as raised:
        PlaybookGenerator(bare)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (PLAYBOOK.replace("4 8 16", "4 16"), r"playbook.cu:3: the default 8 of TILE"),
        ("int x;\n", "declares no tunables"),
    ],
)
def test_a_playbook_that_cannot_be_used_is_refused_with_its_line(
    tmp_path: Path, source: str, message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        PlaybookGenerator(playbook_task(tmp_path, source))


@pytest.mark.parametrize(
    "name",
    [
        *("conv2d", "histogram", "matrix_multiplication"),
        *("matrix_transpose", "reduction", "vector_add"),
    ],
)
def test_the_playbooks_that_ship_are_searched(name: str) -> None:
    attempts = play(load_task(name), 2, lambda point: 1.0 + sum(point.values()) % 7)
    assert len({one.normal_sha for one in attempts}) == 10


def test_an_order_on_another_kernel_than_the_incumbent_stays_near_its_point(task: Task) -> None:
    attempts = play(task, 3)
    where = at(task, attempts)
    assert where.incumbent
    ranked = sorted((one for one in attempts if one.speedup), key=lambda one: one.speedup or 0.0)
    other = ranked[0]
    order = replace(brief(2, Kind.IMPROVE), parent=other.id)
    (draft,) = ask_round(PlaybookGenerator(task), where, [order])
    assert isinstance(draft, Draft)
    assert sum(other.tunables[name] != value for name, value in draft.tunables.items()) <= 2
    same = [replace(brief(2, Kind.IMPROVE), parent=one) for one in (where.incumbent.id, None)]
    answers = [ask_round(PlaybookGenerator(task), where, [one]) for one in same]
    assert answers[0] == answers[1] != [draft]


def test_an_order_on_two_kernels_takes_values_of_both_first(task: Task) -> None:
    attempts = [
        replace(one, tunables=point, normal_sha=f"sha {one.id}")
        for one, point in zip(
            play(task, 1)[:2],
            (
                {"VARIANT": 1, "TILE": 8, "ITEMS": 1, "WIDTH": 1},
                {"VARIANT": 2, "TILE": 32, "ITEMS": 4, "WIDTH": 1},
            ),
            strict=True,
        )
    ]
    one, other = attempts
    where = at(task, attempts)
    order = replace(brief(1, Kind.IMPROVE), parent=one.id, second=other.id)
    (draft,) = ask_round(PlaybookGenerator(task), where, [order])
    assert isinstance(draft, Draft)
    assert draft.tunables not in (one.tunables, other.tunables)
    both = [{each.tunables[name] for each in attempts} for name in draft.tunables]
    assert all(value in known for value, known in zip(draft.tunables.values(), both, strict=True))
