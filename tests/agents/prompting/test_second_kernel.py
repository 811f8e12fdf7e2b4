"""An order that shows two kernels: side by side, the second shortened, within the budget."""

from dataclasses import replace

import pytest
from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.prompting.describe_kernel import keep_differences
from cuda_llm.agents.prompting.describe_run import describe_history
from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import passed_by_speed
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.components import Components
from cuda_llm.search import Brief

OURS = open_templates()
TWO_PASSED = [
    name for name in RECORDED if len(passed_by_speed(recorded_rounds(name)[-1].attempts)) > 1
]
OFF = Fsr(composition=False, pairs=False)


def prompt(situation: Situation, brief: Brief, budget: int = PROMPT_TOKENS) -> str:
    return "\n".join(one.text for one in render_prompt(brief, situation, OURS, budget))


def two_kernels(name: str) -> tuple[Situation, Brief]:
    """The last round of a recorded run, and an order on its incumbent and the next best kernel."""
    situation = recorded_rounds(name)[-1]
    brief = OFF.write_briefs(situation)[0]
    second = next(one for one in passed_by_speed(situation.attempts) if one.id != brief.parent)
    return situation, replace(brief, second=second.id, direction="graft the one into the other")


@pytest.mark.parametrize("name", TWO_PASSED)
def test_both_kernels_stand_side_by_side_at_each_size(name: str) -> None:
    situation, brief = two_kernels(name)
    text = prompt(situation, brief)
    assert f"# A second kernel, {brief.second}\n" in text
    section = text.partition("# A second kernel")[2].partition("\n# ")[0]
    assert section.count(f", {brief.second} ") == len(situation.sizes)
    assert "Beside the one above it has: " in section
    assert count_tokens(text) <= PROMPT_TOKENS


@pytest.mark.parametrize("name", TWO_PASSED)
def test_all_that_other_orders_on_the_parent_show_stands_before_the_second_kernel(
    name: str,
) -> None:
    situation, brief = two_kernels(name)
    before = prompt(situation, brief).partition("# A second kernel")[0].rstrip()
    assert prompt(situation, replace(brief, second=None)).startswith(f"{before}\n\n# Your turn")


@pytest.mark.parametrize("name", TWO_PASSED)
def test_a_short_budget_shortens_the_second_kernel_and_not_the_first(name: str) -> None:
    situation, brief = two_kernels(name)
    least = count_tokens(prompt(situation, replace(brief, second=None), budget=0))
    text = prompt(situation, brief, budget=least + 320)
    assert count_tokens(text) <= least + 320
    assert situation.archive.source(brief.parent or "").strip().splitlines()[-3] in text


@pytest.mark.parametrize("name", TWO_PASSED)
def test_without_a_second_kernel_nothing_of_it_is_said(name: str) -> None:
    situation, brief = two_kernels(name)
    for one in (replace(brief, second=None), replace(brief, components=Components(history=False))):
        assert "second kernel" not in prompt(situation, one)


def test_the_history_says_who_is_faster_at_a_size_by_its_idea_before_its_changes() -> None:
    situation = recorded_rounds("reduction")[-1]
    brief = OFF.write_briefs(situation)[0]
    assert brief.parent == "r2-c2"
    history = prompt(situation, brief).partition("# What was tried")[2].partition("# Hints")[0]
    assert history.count("fastest at") == 1
    (entry,) = (line for line in history.splitlines() if "fastest at" in line)
    assert entry.strip().startswith("fastest at: n = 262,144; idea: Partial sums in scratch memory")
    assert "; changed: +unrolling, 1 -> 2 launches" in entry
    assert describe_history(situation, brief.history, Components(), brief.parent).ranking[0] == 3
    tied = replace(situation.attempt("r2-c1"), spread=0.2)
    attempts = tuple(tied if one.id == tied.id else one for one in situation.attempts)
    assert "fastest at" not in prompt(replace(situation, attempts=attempts), brief)


def test_nearly_all_recorded_runs_have_two_kernels() -> None:
    assert len(TWO_PASSED) >= 5


def test_what_two_kernels_share_is_left_out_of_the_second() -> None:
    first = "\n".join(f"line {number};" for number in range(40))
    second = first.replace("line 20;", "another line 20;").replace("line 39;", "the end;")
    assert keep_differences(first, second, "r1-c1").splitlines() == [
        "// ... 19 lines as in r1-c1",
        "line 19;",
        "another line 20;",
        "line 21;",
        "// ... 16 lines as in r1-c1",
        "line 38;",
        "the end;",
    ]
    assert keep_differences("a\nb", "c\nd", "r1-c1") == "c\nd"
    assert keep_differences(first, first, "r1-c1").count("\n") == 0
