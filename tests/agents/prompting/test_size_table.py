"""The table of the timed sizes: what each takes, what it can add to the score, what limits it."""

import math
from dataclasses import replace

import pytest
from prompt_cases import Kept
from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.limits import (
    deciding_profile,
    left_to_gain,
    limiters,
    score_gain,
    shares_of_limit,
    whole_profile,
)
from cuda_llm.agents.prompting.describe_kernel import describe_profile, tabulate_sizes
from cuda_llm.agents.prompting.describe_run import describe_attempt
from cuda_llm.agents.situation import Situation
from cuda_llm.components import Components
from cuda_llm.figure_wording import name_bottleneck, name_sizes
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Bottleneck, KernelResources, Objective
from cuda_llm.search import Attempt
from cuda_llm.tasks.objective import scoring_of

EVERY_PART = Components()


def last(task: str) -> tuple[Situation, Attempt]:
    situation = recorded_rounds(task)[-1]
    assert situation.incumbent is not None
    return situation, situation.incumbent


def with_verdict(situation: Situation, attempt: Attempt, verdict: Passed) -> Situation:
    kept = {one.id: situation.archive.verdict(one.id) for one in situation.attempts}
    sources = {name: situation.archive.source(name) for name in kept}
    return replace(situation, archive=Kept(sources=sources, verdicts={**kept, attempt.id: verdict}))


def verdict_of(situation: Situation, attempt: Attempt) -> Passed:
    verdict = situation.archive.verdict(attempt.id)
    assert isinstance(verdict, Passed)
    return verdict


@pytest.mark.parametrize("task", [one for one in RECORDED if one != "vector_add"])
def test_each_size_has_a_line_and_each_limiter_is_named_where_it_changes(task: str) -> None:
    situation, parent = last(task)
    profile = whole_profile(situation, parent)
    assert profile is not None
    headings, *lines = tabulate_sizes(situation, parent, EVERY_PART)
    assert headings.startswith("Size: time")
    assert len(lines) == len(situation.sizes)
    above = ""
    named = zip(name_sizes(situation.sizes), lines, limiters(situation, profile), strict=True)
    for name, line, code in named:
        assert line.startswith(f"{name}: ")
        assert line.endswith(name_bottleneck(code) if code != above else "%")
        above = code


def test_a_size_without_a_profile_has_no_limiter() -> None:
    situation, parent = last("reduction")
    verdict = verdict_of(situation, parent)
    assert verdict.profile is not None
    alone = replace(verdict, profile=replace(verdict.profile, smaller=()))
    _, *lines = tabulate_sizes(with_verdict(situation, parent, alone), parent, EVERY_PART)
    assert [one.endswith(" -") for one in lines] == [True, False, False, False, False]
    assert lines[-1].endswith(name_bottleneck(verdict.profile.bottlenecks[0].code))


@pytest.mark.parametrize("objective", ["geomean", "largest", "worst"])
def test_what_a_size_adds_to_the_score_is_the_score_with_its_attainable_time(
    objective: Objective,
) -> None:
    situation, parent = last("histogram")
    situation = replace(situation, task=replace(situation.task, objective=objective))
    scoring = scoring_of(situation.task, situation.sizes)
    pairs = list(zip(situation.baseline_us, parent.times_us, strict=True))
    speedups = [baseline_us / time_us for baseline_us, time_us in pairs]
    for size, share in enumerate(shares_of_limit(situation, parent)):
        reached = [one / share if at == size else one for at, one in enumerate(speedups)]
        gain = score_gain(situation, parent, size, 1.0 - share)
        assert gain == pytest.approx(scoring.score(reached) / scoring.score(speedups) - 1.0)
        line = tabulate_sizes(situation, parent, EVERY_PART)[size + 1]
        assert f" {gain:+.0%}" in line


def test_a_fifth_of_one_of_five_sizes_is_a_twentieth_of_the_score() -> None:
    situation, parent = last("reduction")
    assert len(situation.sizes) == 5
    assert score_gain(situation, parent, 2, 0.2) == pytest.approx(0.8**-0.2 - 1.0)
    assert score_gain(situation, parent, 2, 0.0) == 0.0


def test_a_saving_is_told_no_larger_than_what_is_left_and_with_its_part_of_the_score() -> None:
    situation, parent = last("reduction")
    verdict = verdict_of(situation, parent)
    assert verdict.profile is not None
    _, size = deciding_profile(situation, parent, verdict.profile)
    left = left_to_gain(situation, parent, size)
    assert left is not None
    assert left < 0.9
    tail = Bottleneck(code="tail", share=0.9, explanation="tail", saved_us=9.0, time_us=10.0)
    planted = tuple(replace(one, bottlenecks=(tail,)) for one in verdict.profile.smaller)
    profile = replace(verdict.profile, bottlenecks=(tail,), smaller=planted)
    first = describe_profile(situation, parent, profile)[0]
    gain = score_gain(situation, parent, size, left)
    assert f"without it: 10.0 -> {10 * (1 - left):.1f} us, {left:.0%} less, score +" in first
    assert first.partition("; ")[0].endswith(f"score {gain:+.0%}")
    assert math.expm1(-0.2 * math.log1p(-left)) == pytest.approx(gain)


def test_kernels_that_the_size_does_not_launch_are_not_described() -> None:
    situation, parent = last("reduction")
    profile = verdict_of(situation, parent).profile
    assert profile is not None
    spare = KernelResources(kernel="fallback", symbol="_Z8fallback", registers=99, shared_bytes=0)
    more = replace(profile, resources=(*profile.resources, spare))
    said = "\n".join(describe_profile(situation, parent, more))
    assert "fallback" not in said
    assert said == "\n".join(describe_profile(situation, parent, profile))


def test_the_history_names_the_limiter_of_the_size_with_most_to_gain() -> None:
    situation, parent = last("histogram")
    profile = whole_profile(situation, parent)
    assert profile is not None
    chosen, size = deciding_profile(situation, parent, profile)
    code = chosen.bottlenecks[0].code
    assert len(set(limiters(situation, profile))) > 1
    assert size == 0
    line = describe_attempt(situation, parent, EVERY_PART)
    assert f"limited by {name_bottleneck(code)} at the smallest: " in line
    for other in situation.attempts:
        whole = whole_profile(situation, other) if other.passed else None
        if whole and len(set(limiters(situation, whole))) == 1:
            assert " at the " not in describe_attempt(situation, other, EVERY_PART).split(": ")[1]
