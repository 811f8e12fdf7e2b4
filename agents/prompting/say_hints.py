"""What was learned, a hint in a few lines: what to do, what was seen, what not to try."""

from collections.abc import Iterator

from cuda_llm.agents.bottlenecks import WORDS
from cuda_llm.agents.prompting.hide import hide
from cuda_llm.agents.prompting.trim import Passage
from cuda_llm.agents.quote import one_line
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import Passed
from cuda_llm.search import Brief, Components, Hint

USER = "USER"
MOST_TEXT = 1200


def say_hints(situation: Situation, brief: Brief, components: Components) -> Passage:
    """The user's own first, then those of errors, then those of performance, newest kept longest.

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
            return hint.code in WORDS
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
    """Of what limits the brief's parent."""
    verdict = situation.archive.verdict(brief.parent) if brief.parent else None
    profile = verdict.profile if isinstance(verdict, Passed) else None
    return {one.code for one in profile.bottlenecks} if profile else set()


def _describe(situation: Situation, hint: Hint, *, hide_evidence: bool) -> Iterator[str]:
    context, hardware = situation.plan.hardware_context, situation.hardware
    source = " (from the user)" if hint.code == USER else ""
    about = f" ({hint.about}, {hint.code})" if hint.about else source
    yield f"- {hide(one_line(hint.text, MOST_TEXT), hardware, context)}{about}"
    if hint.hardware_text and context == "full":
        yield f"  {one_line(hint.hardware_text, MOST_TEXT)}"
    if hint.evidence and not hide_evidence:
        yield f"  seen: `{hide(one_line(hint.evidence), hardware, context)}`"
    if hint.avoid:
        avoid = "; ".join(one_line(text) for text in hint.avoid)
        yield f"  not worth trying: {hide(avoid, hardware, context)}"


def _hint_of_user(text: str) -> Hint:
    return Hint(round=0, about="", code=USER, text=text, by="user")
