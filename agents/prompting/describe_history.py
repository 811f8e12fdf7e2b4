"""What a run has tried and learned, in words: hints, and an attempt in one or two lines."""

from collections.abc import Iterator

from cuda_llm.agents.limits import BOTTLENECK_TEXTS, bottleneck_text
from cuda_llm.agents.prompting.describe_kernel import describe_within_context, format_us
from cuda_llm.agents.prompting.quote import hide, one_line
from cuda_llm.agents.prompting.token_budget import Passage
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import Passed
from cuda_llm.search import Attempt, Brief, Components, Hint

USER = "USER"
MOST_TEXT = 1200


def describe_hints(situation: Situation, brief: Brief, components: Components) -> Passage:
    """Describe the user's hints, those of errors, those of performance; the newest stay longest.

    Without hints among the components the user's own are left: they were not learned. Evidence
    from a playbook kernel is left out, for it may quote its source; that from a profile, where
    prompts hold no profiles, and where this one holds that very profile.
    """
    given = (*brief.error_hints, *brief.performance_hints)
    hints = [one for one in given if components.hints or one.code == USER]
    learned = {hint.text for hint in hints}
    from_user = [_hint_of_user(text) for text in situation.plan.user_hints if text not in learned]
    ordered = [*from_user, *sorted(hints, key=lambda hint: hint.code != USER)]
    by_playbook = {one.id for one in situation.attempts if one.written_by == "playbook"}
    profiled = _codes_of_profile(situation, brief)

    def hides_evidence(hint: Hint) -> bool:
        if hint.about in by_playbook:
            return True
        if not components.profile:
            return hint.code in BOTTLENECK_TEXTS
        return hint.about == brief.parent and hint.code in profiled

    entries = tuple(
        "\n".join(_describe(situation, hint, hide_evidence=hides_evidence(hint)))
        for hint in ordered
    )
    newest_first = sorted(
        range(len(ordered)), key=lambda index: (ordered[index].code != USER, -ordered[index].round)
    )
    return Passage(entries=entries, keep=tuple(newest_first), noun="hints")


def _codes_of_profile(situation: Situation, brief: Brief) -> set[str]:
    """Return the codes of what limits the brief's parent."""
    verdict = situation.archive.verdict(brief.parent) if brief.parent else None
    profile = verdict.profile if isinstance(verdict, Passed) else None
    return {one.code for one in profile.bottlenecks} if profile else set()


def _describe(situation: Situation, hint: Hint, *, hide_evidence: bool) -> Iterator[str]:
    hardware, context = situation.hardware, situation.plan.hardware_context
    text = one_line(hint.text, MOST_TEXT)
    # A diagnosis is ours and names no hardware; what it quotes, and others' hints, may.
    if hint.by != "diagnosis":
        text = hide(text, hardware, context)
    source = " (from the user)" if hint.code == USER else ""
    about = f" ({hint.about}, {hint.code})" if hint.about else source
    yield f"- {text}{about}"
    if hint.hardware_text and context == "full":
        yield f"  {one_line(hint.hardware_text, MOST_TEXT)}"
    if hint.evidence and not hide_evidence:
        yield f"  seen: `{hide(one_line(hint.evidence), hardware, context)}`"
    if hint.avoid:
        avoid = "; ".join(one_line(text) for text in hint.avoid)
        yield f"  not worth trying: {hide(avoid, hardware, context)}"


def _hint_of_user(text: str) -> Hint:
    return Hint(round=0, about="", code=USER, text=text, by="user")


BEST = 3
"""So many of the fastest are kept before any failure is."""


def describe_history(situation: Situation, ids: tuple[str, ...], components: Components) -> Passage:
    """Describe the attempts, oldest first; short of room, keep the best, then newest failures."""
    attempts = [situation.attempt(name) for name in ids]
    entries = tuple(describe_attempt(situation, one, components) for one in attempts)
    return Passage(entries=entries, keep=_by_importance(attempts), noun="attempts")


def describe_attempt(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Render `r1-c2: WRONG_RESULT: ...`, and below it its direction and its idea."""
    came_from = f", {attempt.kind.value} of {attempt.parent}" if attempt.parent else ""
    first = f"{attempt.id}{came_from}: {_outcome(situation, attempt, components)}"
    direction = one_line(attempt.direction) if components.diversity else ""
    idea = hide(one_line(attempt.idea, 120), situation.hardware, situation.plan.hardware_context)
    tunables = ", ".join(f"{name} = {value}" for name, value in attempt.tunables.items())
    second = "; ".join(
        f"{label}: {text}"
        for label, text in (
            ("told", direction),
            ("idea", idea),
            ("tunables", one_line(tunables)),
        )
        if text
    )
    return f"{first}\n    {second}" if second else first


def _outcome(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Render the time and what limits it; of a failure the verdict in one line.

    A failed playbook kernel gives its code alone: a description may quote its source.
    """
    if not attempt.passed:
        found = "" if attempt.written_by == "playbook" else _finding(situation, attempt)
        return f"{attempt.code}: {found}" if found else attempt.code
    parts = ["correct"]
    if attempt.times_us:
        parts.append(f"{format_us(attempt.times_us[-1])} at the largest timed size")
    if components.baseline and attempt.speedup is not None:
        parts.append(f"{attempt.speedup:.2f}x the baseline")
    if components.profile and attempt.limited_by:
        parts.append(f"limited by {bottleneck_text(attempt.limited_by).name}")
    return ", ".join(parts)


def _finding(situation: Situation, attempt: Attempt) -> str:
    """Return the first line of what its verdict says."""
    lines = describe_within_context(situation, situation.archive.verdict(attempt.id))
    return one_line(next(iter(lines), ""), 240)


def _by_importance(attempts: list[Attempt]) -> tuple[int, ...]:
    """Return indices: the fastest few, then failures from the newest on, then by speed."""
    indices = range(len(attempts))
    passed = sorted(
        (index for index in indices if attempts[index].passed),
        key=lambda index: (-_speed(attempts[index]), index),
    )
    failed = [index for index in reversed(indices) if not attempts[index].passed]
    return (*passed[:BEST], *failed, *passed[BEST:])


def _speed(attempt: Attempt) -> float:
    return attempt.speedup or (1.0 / attempt.times_us[-1] if attempt.times_us else 0.0)
