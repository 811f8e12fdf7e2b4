"""The paragraph about runs of other tasks."""

from dataclasses import replace
from typing import Any

import pytest
from recorded_situations import recorded_rounds
from tried_orders import LOADS_FIRST, VECTORS, order

from cuda_llm.agents.limits import deciding_limiter
from cuda_llm.agents.prompting.describe_lessons import MOST_TOKENS, describe_lessons
from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.components import EVERYTHING
from cuda_llm.figure_wording import name_bottleneck
from cuda_llm.lessons import TriedOrder, tally_lessons
from cuda_llm.search import Brief, Kind

LEAD = "In other tasks on this GPU"


def last_round(*orders: TriedOrder, **options: Any) -> Situation:
    """A round of reduction in which a kernel that passed is to be improved."""
    found = recorded_rounds("reduction")[-1]
    config = found.config.changed(**options)
    return replace(found, config=config, lessons=tally_lessons(orders))


def improvement(situation: Situation) -> Brief:
    return next(one for one in Fsr().write_briefs(situation) if one.kind == Kind.IMPROVE)


def limit_of_parent() -> str:
    situation = last_round()
    assert situation.incumbent
    return deciding_limiter(situation, situation.incumbent)[0]


LIMIT = limit_of_parent()
GAINS = tuple(
    order(task, had, against=LIMIT)
    for task, had in (("mse", 0.1), ("dot", 0.12), ("row_sum", None))
)
IN_VAIN = tuple(order(task, -0.1, against=LIMIT, technique=LOADS_FIRST) for task in ("mse", "dot"))


def paragraph(situation: Situation) -> str:
    return describe_lessons(situation, improvement(situation), EVERYTHING)


def prompt(situation: Situation) -> str:
    brief = improvement(situation)
    return "\n".join(one.text for one in render_prompt(brief, situation, open_templates()))


def test_gains_and_what_came_to_nothing_are_told_with_their_counts() -> None:
    text = paragraph(last_round(*GAINS, *IN_VAIN))
    assert text.startswith(
        f"- {LEAD}, against {name_bottleneck(LIMIT)} (medians of time saved): make"
    )
    assert "2 of 3 faster, 11% of 20% promised (dot, mse, 1 more)" in text
    assert "0 of 2 faster (dot, mse)" in text


def test_a_prompt_holds_the_paragraph_as_its_last_hint() -> None:
    situation = last_round(*GAINS)
    hints = prompt(situation).partition("# Hints")[2].partition("# Your turn")[0]
    assert paragraph(situation) in hints
    assert LEAD not in prompt(last_round())


def test_many_lessons_stay_within_the_tokens() -> None:
    texts = [one.text for one in CATALOGUE if Kind.IMPROVE in one.kinds]
    many = [
        order(task, had, against=LIMIT, technique=text)
        for text, had in zip(texts, (0.3, -0.1) * len(texts), strict=False)
        for task in ("mse", "dot", "row_sum", "col_sum")
    ]
    text = paragraph(last_round(*many))
    assert count_tokens(text) <= MOST_TOKENS
    assert "4 of 4 faster" in text
    assert "0 of 4 faster" in text


@pytest.mark.parametrize(
    "orders",
    [
        (GAINS[0],),
        tuple(replace(one, against="sfu") for one in GAINS),
        tuple(replace(one, kind=Kind.DEPART) for one in GAINS),
    ],
)
def test_one_order_another_limit_or_another_kind_of_order_is_no_lesson(
    orders: tuple[TriedOrder, ...],
) -> None:
    assert paragraph(last_round(*orders)) == ""


@pytest.mark.parametrize(
    "options",
    [
        {"hardware_context": "name"},
        {"hardware_context": "none"},
        {"without": ("hints",)},
        {"without": ("profile",)},
    ],
)
def test_nothing_is_told_where_the_gpu_what_was_learned_or_the_limit_is_hidden(
    options: dict[str, Any],
) -> None:
    assert LEAD in prompt(last_round(*GAINS))
    assert LEAD not in prompt(last_round(*GAINS, **options))


def test_a_first_kernel_is_told_of_structures_and_a_repair_of_nothing() -> None:
    firsts = [replace(one, kind=Kind.FIRST, against="", technique=VECTORS) for one in GAINS]
    situation = last_round(*firsts)
    first = Brief(id="r3-c1", round=3, index=1, kind=Kind.FIRST)
    assert describe_lessons(situation, first, EVERYTHING).startswith(
        f"- {LEAD} (medians of time saved): make every"
    )
    repair = replace(first, kind=Kind.FIX, parent="r1-c3")
    assert describe_lessons(situation, repair, EVERYTHING) == ""
