"""Prompts of recorded situations, which have several timed sizes: what decides is told."""

import re
from dataclasses import replace
from typing import Any

import pytest
from prompt_cases import Kept
from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Bottleneck, Objective, SizeProfile


def prompt(situation: Situation) -> str:
    brief = Fsr().write_briefs(situation)[0]
    return "\n".join(one.text for one in render_prompt(brief, situation, open_templates()))


def last_round(task: str, **options: Any) -> Situation:
    situation = recorded_rounds(task)[-1]
    return replace(situation, config=situation.config.changed(**options))


def test_tunables_are_spoken_of_only_where_something_tunes_them() -> None:
    assert "// tunable" in prompt(last_round("histogram"))
    assert "tunable" not in prompt(last_round("histogram", tune=0))


def test_sizes_are_told_with_how_they_make_one_score() -> None:
    situation = last_round("matrix_transpose")
    text = prompt(situation)
    assert "geometric mean of the speed-ups, in which every size counts alike" in text
    assert "Timed at rows = cols = 1,024; rows = cols = 2,048;" in text
    assert "C++17" in text
    task = replace(situation.task, weights=(1.0, 1.0, 2.0, 4.0, 4.0))
    assert "sizes count 1 : 1 : 2 : 4 : 4" in prompt(replace(situation, task=task))


def test_every_line_of_the_history_has_each_size() -> None:
    situation = last_round("reduction")
    text = prompt(situation).partition("# What was tried")[2].partition("# Hints")[0]
    figure = r"[\d.,]+ [um]s [\d.]+x \d+%"
    told = [line for line in text.splitlines() if re.match(r"r\d-c\d", line)]
    passed = [one.id for one in situation.attempts if one.passed and one != situation.incumbent]
    for name in passed:
        (line,) = (one for one in told if re.match(f"{name}\\b", one))
        assert len(re.findall(figure, line)) == len(situation.sizes)


def test_the_profile_shown_is_that_of_the_size_where_most_is_to_be_gained() -> None:
    situation = last_round("matrix_transpose")
    parent = situation.incumbent
    assert parent is not None
    verdict = situation.archive.verdict(parent.id)
    assert isinstance(verdict, Passed)
    assert verdict.profile
    tail = Bottleneck(code="tail", share=0.5, explanation="planted tail")
    profile = replace(verdict.profile, smaller=(SizeProfile(size=1, bottlenecks=(tail,)),))
    slow = replace(parent, times_us=(parent.times_us[0], 1e6, *parent.times_us[2:]))
    attempts = tuple(slow if one.id == slow.id else one for one in situation.attempts)
    kept = {one.id: situation.archive.verdict(one.id) for one in attempts}
    archive = Kept(
        sources={one.id: situation.archive.source(one.id) for one in attempts},
        verdicts={**kept, slow.id: replace(verdict, profile=profile)},
    )
    text = prompt(replace(situation, attempts=attempts, incumbent=slow, archive=archive))
    assert re.search(r"\nrows = cols = 2,048: .* an uneven last wave\n", text)
    assert "limited by planted tail, 50% of the time" in text
    assert "## Where its time goes at rows = cols = 2,048\n" in text


def test_prompts_that_ask_for_one_fix_differ_in_their_last_section_alone() -> None:
    situation = last_round("matrix_multiplication")
    failed = tuple(one for one in situation.attempts if not one.passed)
    situation = replace(situation, attempts=failed, incumbent=None, performance_hints=())
    rendered = [
        render_prompt(one, situation, open_templates())[1].text.partition("# Your turn")
        for one in Fsr().write_briefs(situation)
    ]
    assert len({before for before, _, _ in rendered}) == 1
    assert len({after for _, _, after in rendered}) == len(rendered)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("budget", [PROMPT_TOKENS, 4_000])
def test_prompts_of_one_round_about_one_kernel_differ_in_their_last_section_alone(
    name: str, budget: int
) -> None:
    situation = recorded_rounds(name)[-1]
    one, *others = Fsr(pairs=False).write_briefs(situation)
    (system, first), *rest = (
        render_prompt(each, situation, open_templates(), budget) for each in (one, *others)
    )
    shared, heading, tail = first.text.partition("# Your turn")
    assert heading
    assert tail
    for each in rest:
        assert each[0] == system
        assert each[1].text.partition("# Your turn")[0] == shared


def test_a_hidden_gpu_leaves_no_part_of_what_is_attainable() -> None:
    text = prompt(last_round("matrix_transpose", hardware_context="none"))
    assert "attainable" not in text
    assert re.search(r"rows = cols = 1,024: [\d.]+ us [\d.]+x shared-memory bank conflicts\n", text)


def first_prompt(**options: Any) -> str:
    situation = recorded_rounds("matrix_multiplication")[0]
    return prompt(replace(situation, config=situation.config.changed(**options)))


def test_a_first_kernel_is_told_what_the_baseline_leaves() -> None:
    assert "Open above the baseline: 9.1x." in first_prompt()
    assert "Open above" not in first_prompt(hardware_context="none")
    assert "Open above" not in first_prompt(without=["baseline"])


def test_a_fix_is_told_what_the_baseline_leaves() -> None:
    situation = last_round("matrix_multiplication")
    failed = tuple(one for one in situation.attempts if not one.passed)
    text = prompt(replace(situation, attempts=failed, incumbent=None, performance_hints=()))
    assert "# The kernel that failed, r1-c3" in text
    assert "Open above the baseline: 9.1x." in text


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ("largest", "Their one score is the speed-up at the largest size, "),
        ("worst", "Their one score is the smallest of the speed-ups: only the worst size counts."),
    ],
)
def test_prompts_tell_the_objective_as_it_is(objective: Objective, told: str) -> None:
    situation = last_round("reduction")
    asked = replace(situation, task=replace(situation.task, objective=objective))
    assert told in prompt(asked)
