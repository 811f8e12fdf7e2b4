"""What came true in runs of other tasks on this GPU, in one paragraph of a prompt."""

import textwrap

from cuda_llm.agents.limits import deciding_limiter
from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.agents.situation import Situation
from cuda_llm.components import Components
from cuda_llm.figure_wording import name_bottleneck
from cuda_llm.lessons import Lesson
from cuda_llm.search import Brief, Kind

MOST_TOKENS = 120
"""Most tokens of the paragraph."""
LEAST_TRIED = 2
"""Number of orders from which on an outcome is a lesson."""
MOST_NAME = 44
"""Most characters of a technique."""
MOST_TASKS = 2
"""Most tasks that are named."""


def describe_lessons(situation: Situation, brief: Brief, components: Components) -> str:
    """Describe the techniques of such an order, against what limits the parent, that paid most and
    least in other tasks; empty where too little is known, or the hardware may not be shown.

    What paid alternates with what did not, as far as the tokens reach.
    """
    fitting = _fitting(situation, brief, components)
    if not fitting:
        return ""
    against = fitting[0].against
    limit = f", against {name_bottleneck(against)}" if against else ""
    lines = [f"- In other tasks on this GPU{limit} (medians of time saved)"]
    for lesson in _alternating(fitting):
        longer = [*lines, _describe(lesson)]
        if count_tokens(_join(longer)) <= MOST_TOKENS:
            lines = longer
    return _join(lines) if len(lines) > 1 else ""


def _join(parts: list[str]) -> str:
    return f"{parts[0]}: {'; '.join(parts[1:])}."


def _fitting(situation: Situation, brief: Brief, components: Components) -> list[Lesson]:
    """Return the lessons about such an order, what paid most first."""
    if situation.config.hardware_context != "full" or not components.hints:
        return []
    limit = ""
    if brief.kind == Kind.IMPROVE and brief.parent:
        if not components.profile:
            return []
        limit, _ = deciding_limiter(situation, situation.attempt(brief.parent))
        if not limit:
            return []
    fitting = [
        one
        for one in situation.lessons
        if one.kind == brief.kind
        and one.tried >= LEAST_TRIED
        and (one.against == limit or brief.kind != Kind.IMPROVE)
    ]
    return sorted(fitting, key=lambda one: (-one.gained / one.tried, -one.had, -one.tried))


def _alternating(lessons: list[Lesson]) -> list[Lesson]:
    """Return the lessons from both ends in turn: the first, the last, the second ..."""
    ordered, left = list[Lesson](), list(lessons)
    while left:
        ordered.append(left.pop(-1 if len(ordered) % 2 else 0))
    return ordered


def _describe(lesson: Lesson) -> str:
    whole = lesson.technique or "what critiques asked for"
    name = textwrap.shorten(whole, MOST_NAME, placeholder=" ...")
    more = len(lesson.tasks) - MOST_TASKS
    tasks = ", ".join((*lesson.tasks[:MOST_TASKS], *((f"{more} more",) if more > 0 else ())))
    outcome = f"{lesson.gained} of {lesson.tried} faster"
    if lesson.gained:
        outcome += f", {lesson.had:.0%}"
        outcome += f" of {lesson.promised:.0%} promised" if lesson.promised else ""
    return f"{name}: {outcome} ({tasks})"
