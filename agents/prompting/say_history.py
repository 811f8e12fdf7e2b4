"""What was tried and what came of it, an attempt in one or two lines."""

from cuda_llm.agents.bottlenecks import words_for
from cuda_llm.agents.prompting.hide import hide
from cuda_llm.agents.prompting.say_profile import say_us
from cuda_llm.agents.prompting.trim import Passage
from cuda_llm.agents.quote import one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.search import Attempt, Components

BEST = 3
"""So many of the fastest are kept before any failure is."""


def say_history(situation: Situation, ids: tuple[str, ...], components: Components) -> Passage:
    """Oldest first; when short of room the best stay, then failures, newest first."""
    attempts = [situation.attempt(name) for name in ids]
    entries = tuple(say_attempt(situation, one, components) for one in attempts)
    return Passage(entries=entries, keep=_by_importance(attempts), noun="attempts")


def say_attempt(situation: Situation, attempt: Attempt, components: Components) -> str:
    """`r1-c2: WRONG_RESULT: ...`, and below it its direction and its idea."""
    came_from = f", {attempt.kind.value} of {attempt.parent}" if attempt.parent else ""
    first = f"{attempt.id}{came_from}: {_outcome(situation, attempt, components)}"
    direction = one_line(attempt.direction) if components.diversity else ""
    tunables = ", ".join(f"{name} = {value}" for name, value in attempt.tunables.items())
    second = "; ".join(
        f"{label}: {text}"
        for label, text in (
            ("told", direction),
            ("idea", one_line(attempt.idea, 120)),
            ("tunables", one_line(tunables)),
        )
        if text
    )
    entry = f"{first}\n    {second}" if second else first
    return hide(entry, situation.hardware, situation.plan.hardware_context)


def _outcome(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Its time and what limits it; of a failure the verdict in one line.

    A failed playbook kernel gives its code alone: a summary may quote its source.
    """
    if not attempt.passed:
        summary = "" if attempt.written_by == "playbook" else one_line(attempt.summary, 240)
        summary = summary.removeprefix(attempt.code).lstrip(": ")
        return f"{attempt.code}: {summary}" if summary else attempt.code
    parts = ["correct"]
    if attempt.times_us:
        parts.append(f"{say_us(attempt.times_us[-1])} at the largest timed size")
    if components.baseline and attempt.speedup is not None:
        parts.append(f"{attempt.speedup:.2f}x the baseline")
    if components.profile and attempt.limited_by:
        parts.append(f"limited by {words_for(attempt.limited_by).name}")
    return ", ".join(parts)


def _by_importance(attempts: list[Attempt]) -> tuple[int, ...]:
    """Indices: the fastest few, then failures from the newest on, then the rest by speed."""
    indices = range(len(attempts))
    passed = sorted(
        (index for index in indices if attempts[index].passed),
        key=lambda index: (-_speed(attempts[index]), index),
    )
    failed = [index for index in reversed(indices) if not attempts[index].passed]
    return (*passed[:BEST], *failed, *passed[BEST:])


def _speed(attempt: Attempt) -> float:
    return attempt.speedup or (1.0 / attempt.times_us[-1] if attempt.times_us else 0.0)
