"""The switches of `fsr`: compositions and pairs of kernels."""

from dataclasses import dataclass, replace

import pytest
from searches import attempt, situation

from cuda_llm.agents.composition import CompositionRefused
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr, find_strategy
from cuda_llm.agents.strategies.partners import (
    best_at_sizes,
    best_of_structures,
    find_partners,
)
from cuda_llm.agents.strategies.splits import Split, best_split
from cuda_llm.components import Components
from cuda_llm.errors import UsageError
from cuda_llm.outcomes import NoCode, Verdict
from cuda_llm.search import Attempt, Hint, Kind

KERNEL = """
__global__ void turn(const float* input, float* output, int rows, int cols) { BODY }
extern "C" void solve(const float* input, float* output, int rows, int cols) {
    turn<<<1, 32>>>(input, output, rows, cols);
}
"""
OFF = Fsr(composition=False, pairs=False)


@dataclass(frozen=True)
class Sources:
    """The kernels of a search, by their ids."""

    by_id: dict[str, str]

    def source(self, attempt: str) -> str:
        return self.by_id.get(attempt, "")

    def verdict(self, attempt: str) -> Verdict:
        return NoCode(message=attempt)


def searched(*attempts: Attempt, incumbent: str, **sources: str) -> Situation:
    by_id = {one.id: KERNEL.replace("BODY", "") for one in attempts}
    kept = Sources(by_id | {name.replace("_", "-"): text for name, text in sources.items()})
    return situation(*attempts, incumbent=incumbent, archive=kept, candidates=4)


SMALL = attempt("r1-c1", 2.0, times_us=(20.0, 250.0))
LARGE = attempt("r1-c2", 2.1, times_us=(60.0, 75.0))
BETWEEN = attempt("r1-c3", 1.0, times_us=(100.0, 200.0))
SPLIT = searched(SMALL, LARGE, BETWEEN, incumbent="r1-c2")


def test_the_best_at_each_size_and_of_each_structure_follow_from_the_attempts() -> None:
    assert [one.id for one in best_at_sizes(SPLIT)] == ["r1-c1", "r1-c2"]
    tiled = searched(
        SMALL,
        LARGE,
        BETWEEN,
        incumbent="r1-c2",
        r1_c3=KERNEL.replace("BODY", "__shared__ int t[9];"),
    )
    assert [one.id for one in best_of_structures(tiled)] == ["r1-c2", "r1-c3"]
    assert [one.id for one in find_partners(tiled, LARGE)] == ["r1-c1"]
    assert [one.id for one in find_partners(tiled, BETWEEN)] == ["r1-c1", "r1-c2"]


def test_of_kernels_that_tie_at_a_size_the_fastest_over_all_is_the_best_there() -> None:
    near = replace(SMALL, id="r1-c4", speedup=1.5, times_us=(19.9, 255.0))
    where = searched(SMALL, LARGE, near, incumbent="r1-c2")
    assert [one.id for one in best_at_sizes(where)] == ["r1-c1", "r1-c2"]
    assert [one.id for one in find_partners(where, LARGE)] == ["r1-c1"]
    noisy = replace(SMALL, spread=3.0)
    assert find_partners(searched(noisy, LARGE, incumbent="r1-c2"), LARGE) == ()


def test_the_best_two_are_split_between_the_sizes_where_each_is_the_best() -> None:
    split = best_split(SPLIT, (SMALL, LARGE, BETWEEN))
    assert isinstance(split, Split)
    assert (split.small.id, split.large.id) == ("r1-c1", "r1-c2")
    assert split.times_us == (20.0, 75.0)
    assert split.speedup == pytest.approx((100 / 20 * 200 / 75) ** 0.5)
    assert split.condition == "(long long)rows * cols < 524288LL"
    low, high = (one["rows"] * one["cols"] for one in SPLIT.sizes)
    assert low < 524288 < high


def test_a_split_within_a_tie_of_the_fastest_is_not_worth_it() -> None:
    near = replace(SMALL, times_us=(59.0, 250.0))
    assert best_split(searched(near, LARGE, incumbent="r1-c2"), (near, LARGE)) is None
    noisy = [replace(one, spread=0.9) for one in (SMALL, LARGE)]
    assert best_split(searched(*noisy, incumbent="r1-c2"), noisy) is None


def test_a_composition_is_proposed_once_and_says_who_runs_where() -> None:
    fsr = Fsr(composition=True)
    trial = fsr.compose(SPLIT)
    assert isinstance(trial, Trial)
    assert (trial.parent, trial.second) == ("r1-c1", "r1-c2")
    assert trial.draft.idea == "r1-c1 up to rows = cols = 512, r1-c2 beyond"
    tried = attempt("r1-c4", kind=Kind.COMPOSE, parent="r1-c1", second="r1-c2")
    again = searched(SMALL, LARGE, replace(tried, idea=trial.draft.idea), incumbent="r1-c2")
    assert fsr.compose(again) is None
    assert OFF.compose(SPLIT) is None


def test_a_kernel_that_does_not_fit_gives_way_to_the_next_best() -> None:
    second = attempt("r1-c4", 1.9, times_us=(22.0, 255.0))
    broken = "#ifdef X\n#include <cstdio>\n#endif\n" + KERNEL.replace("BODY", "")
    where = searched(SMALL, LARGE, second, incumbent="r1-c2", r1_c1=broken)
    trial = Fsr(composition=True).compose(where)
    assert isinstance(trial, Trial)
    assert trial.parent == "r1-c4"
    refused = Fsr(composition=True).compose(searched(SMALL, LARGE, incumbent="r1-c2", r1_c1=broken))
    assert isinstance(refused, CompositionRefused)
    assert (refused.fault, refused.attempts) == ("conditional_include", ("r1-c1", "r1-c2"))


def test_without_switches_every_order_is_on_the_incumbent() -> None:
    briefs = OFF.write_briefs(SPLIT)
    assert {(one.parent, one.second) for one in briefs} == {("r1-c2", None)}


def test_one_of_a_round_shows_a_second_kernel_and_what_it_is_better_at() -> None:
    unrolled = KERNEL.replace("BODY", "\n#pragma unroll\nfor (;;) {}")
    where = searched(SMALL, LARGE, BETWEEN, incumbent="r1-c2", r1_c1=unrolled)
    briefs = replace(OFF, pairs=True).write_briefs(where)
    assert [one.second for one in briefs] == [None, None, None, "r1-c1"]
    assert briefs[3].direction == (
        "graft into r1-c2 what makes r1-c1 faster at rows = cols = 512 (it has: unrolling)"
    )
    plain = replace(OFF, pairs=True).write_briefs(SPLIT)
    assert plain[3].direction == (
        "take over what makes r1-c1 faster at rows = cols = 512, or choose between both kernels by "
        "size in solve"
    )
    without = replace(OFF, pairs=True, components=Components(history=False))
    assert {one.second for one in without.write_briefs(where)} == {None}


def test_another_second_kernel_is_shown_while_one_was_not_beside_that_parent() -> None:
    middle = attempt("r1-c4", 1.2, times_us=(50.0, 260.0))
    shared = KERNEL.replace("BODY", "__shared__ int t[9];")
    tried = attempt("r1-c5", None, parent="r1-c2", second="r1-c1")
    first = searched(SMALL, LARGE, middle, incumbent="r1-c2", r1_c4=shared)
    again = searched(SMALL, LARGE, middle, tried, incumbent="r1-c2", r1_c4=shared)
    seconds = [replace(OFF, pairs=True).write_briefs(one)[3].second for one in (first, again)]
    assert seconds == ["r1-c1", "r1-c4"]


def test_no_second_kernel_is_shown_where_none_is_faster_anywhere_or_a_playbook_wrote_it() -> None:
    by_playbook = replace(SMALL, written_by="playbook")
    for small in (by_playbook, replace(SMALL, times_us=(60.5, 250.0))):
        where = searched(small, LARGE, BETWEEN, incumbent="r1-c2")
        assert {one.second for one in Fsr().write_briefs(where)} == {None}


def test_the_change_of_a_critique_is_an_order_unless_switched_off() -> None:
    hint = Hint(
        round=1, about="r1-c2", code="latency", text="Do so.", change="Do so.", by="critique"
    )
    where = replace(SPLIT, performance_hints=(hint,))
    assert OFF.write_briefs(where)[0].direction == "Do so."
    off = replace(OFF, critique=False).write_briefs(where)
    assert "Do so." not in {one.direction for one in off}
    assert off[0].performance_hints[0].text == "Do so."


def test_a_strategy_is_named_with_its_switches() -> None:
    found = find_strategy("fsr+no-pairs+no-critique")
    assert isinstance(found, Fsr)
    assert found == replace(Fsr(), name="fsr+no-pairs+no-critique", pairs=False, critique=False)
    with pytest.raises(UsageError, match="unknown switch 'elite'; fsr has composition, pairs, "):
        find_strategy("fsr+elite")
    with pytest.raises(UsageError, match="best-of-n has none"):
        find_strategy("best-of-n+pairs")
