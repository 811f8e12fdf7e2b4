"""Count the tokens of each section of the prompts of recorded situations.

A count is the mean over the briefs that `fsr` writes in the situation. Sections count as they are
before they are cut; `whole` is both messages as a model gets them, `shared` the beginning that all
prompts of the round have in common. `critique` is the whole question
about the kernel that matters most, and `sibling` the part of the question about another kernel.
"""

import asyncio
from itertools import takewhile
from statistics import fmean

from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.prompting.describe_sibling import describe_sibling
from cuda_llm.agents.prompting.render import _passages, render_critique_prompt, render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.agents.reflection.critique import subject
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr, last_round
from cuda_llm.components import Components
from cuda_llm.search import Brief


def sections(situation: Situation, brief: Brief) -> dict[str, int]:
    """Count one prompt."""
    parent = situation.attempt(brief.parent) if brief.parent else None
    passages = _passages(situation, brief, parent, brief.components)
    counted = {name: count_tokens(one.text) for name, one in passages.items()}
    system, user = render_prompt(brief, situation, open_templates())
    counted["system"] = count_tokens(system.text)
    counted["whole"] = counted["system"] + count_tokens(user.text)
    return counted


def shared(situation: Situation) -> int:
    """Count the beginning that the prompts of one round share."""
    briefs = Fsr().write_briefs(situation)
    rendered = (render_prompt(one, situation, open_templates()) for one in briefs)
    side_by_side = zip(*("".join(one.text for one in each) for each in rendered), strict=False)
    alike = takewhile(lambda letters: len(set(letters)) == 1, side_by_side)
    return count_tokens("".join(letters[0] for letters in alike))


def critique(situation: Situation) -> dict[str, float]:
    """Count the question that asks for a critique; 0 where there is nothing to ask."""
    judged = last_round(situation)
    about = subject(situation, judged)
    if about is None:
        return {"critique": 0, "sibling": 0}
    found = asyncio.run(Reflection().reflect(situation, judged))
    asked = render_critique_prompt(situation, about, found.performance_hints, open_templates())
    lines = describe_sibling(situation, about, Components())
    told = "\n".join(("## Beside it", *(f"- {line}" for line in lines))) if lines else ""
    return {
        "critique": sum(count_tokens(message.text) for message in asked),
        "sibling": count_tokens(told),
    }


def measure() -> dict[str, dict[str, float]]:
    """Return the mean of each section by situation: `reduction 2` is its second round."""
    found = {}
    for name in RECORDED:
        for situation in recorded_rounds(name):
            rows = [sections(situation, brief) for brief in Fsr().write_briefs(situation)]
            found[f"{name} {situation.round}"] = {
                key: round(fmean(row.get(key, 0) for row in rows), 1) for key in rows[0]
            } | {"shared": shared(situation), **critique(situation)}
    return found
