"""The reflection agent: hints from verdicts and profiles, one hint a cause however often the cause
is seen, and a critique where there is a model.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.prompting.templates import Templates, open_templates
from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.reflection.critique import criticise
from cuda_llm.agents.reflection.failure_hints import hint_from
from cuda_llm.agents.reflection.kernel_context import context_of
from cuda_llm.agents.reflection.slow_kernels import HARDWARE_LIMIT, find_limits
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import is_fixable
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import InvalidDeclaration
from cuda_llm.conversation import Ask
from cuda_llm.outcomes import Duplicate
from cuda_llm.search import Attempt, Hint

NOTHING_TO_CRITICISE = "no critique asked for: the kernel to beat is at the hardware's limit"
MOST_HINTS = 5
"""Largest number of hints of a round in one channel."""


@dataclass(frozen=True)
class Reflection:
    """A reflector that learns from verdicts, profiles and sources, and asks a model once a round
    where there is a model."""

    ask: Ask | None = None
    templates: Templates | None = None
    """Templates of the critique's prompt; None for the templates that ship."""
    name: str = "reflection"

    async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
        """Return hints about what failed in this round and what limits its fastest kernels."""
        errors = merge(find_failures(situation, judged), situation.error_hints)
        untuned = tuple(find_misdeclared(situation, judged))
        declared = merge(untuned, situation.error_hints)
        slow = tuple(find_limits(situation, judged))
        decisions = (
            *_decisions(situation, judged, errors, slow),
            *(f"{one.id} cannot be tuned: {found.evidence}" for one, found in untuned),
        )
        found = Contribution(
            error_hints=(*errors, *declared), performance_hints=slow, decisions=decisions
        )
        if self.ask is None:
            return found
        if any(one.code == HARDWARE_LIMIT for one in slow):
            return replace(found, decisions=(*decisions, NOTHING_TO_CRITICISE))
        templates = self.templates or open_templates()
        critique = await criticise(self.ask, situation, judged, found, templates)
        return found if critique is None else put_first(critique, found)


def put_first(critique: Contribution, found: Contribution) -> Contribution:
    """Return both contributions as one: the hint of the critique stands first in its channel."""
    return replace(
        critique,
        error_hints=(*critique.error_hints, *found.error_hints),
        performance_hints=(*critique.performance_hints, *found.performance_hints),
        decisions=(*found.decisions, *critique.decisions),
    )


def _decisions(
    situation: Situation, judged: Sequence[Attempt], errors: Sequence[Hint], slow: Sequence[Hint]
) -> Iterator[str]:
    failed = [one for one in judged if not one.passed]
    if failed:
        causes = "; ".join(
            f"{hint.code} ({hint.cause}) {f'{hint.times} times' if hint.times > 1 else 'once'}"
            for hint in errors
        )
        yield f"{len(failed)} of {len(judged)} failed: {causes or 'nothing to learn from it'}"
    for hint in slow:
        if situation.incumbent and hint.about == situation.incumbent.id:
            what = hint.code.replace("_", " ")
            yield f"{hint.about}, the kernel to beat: {join_parts(what, hint.evidence)}"
    ours = [one.id for one in judged if one.infra_failed]
    if ours:
        yield f"{', '.join(ours)}: a part of cuda-llm failed, which says nothing about the kernel"


def merge(found: Iterable[tuple[Attempt, Hint]], earlier: Sequence[Hint]) -> tuple[Hint, ...]:
    """Return a hint for each (code, cause), those seen most often first, at most `MOST_HINTS`.

    A hint that several attempts share is about none of them, and so is a hint about a reply without
    code or a repeat, which leave no kernel to fix. Any other is about its attempt.
    """
    groups: dict[tuple[str, str], list[tuple[Attempt, Hint]]] = {}
    for attempt, hint in found:
        groups.setdefault((hint.code, hint.cause), []).append((attempt, hint))
    hints = [_share(group, _times_before(earlier, key)) for key, group in groups.items()]
    return tuple(sorted(hints, key=lambda hint: -hint.times)[:MOST_HINTS])


def _times_before(earlier: Sequence[Hint], key: tuple[str, str]) -> int:
    return max((hint.times for hint in earlier if (hint.code, hint.cause) == key), default=0)


def _share(group: Sequence[tuple[Attempt, Hint]], before: int) -> Hint:
    """Return the hint of a group of attempts that failed for one cause, `before` times earlier."""
    attempt, first = group[0]
    times = before + len(group)
    if times == 1:
        return first if is_fixable(attempt) else replace(first, about="")
    names = ", ".join(one.id for one, _ in group[:4])
    again = f"Seen {times} times so far ({'lately ' if before else ''}{names}). "
    return replace(first, about="", times=times, text=again + first.text)


def find_failures(
    situation: Situation, judged: Sequence[Attempt]
) -> Iterator[tuple[Attempt, Hint]]:
    """Yield each failed attempt that has something to teach, with its hint."""
    for attempt in judged:
        if not attempt.passed:
            verdict = situation.archive.verdict(attempt.id)
            hint = hint_from(verdict, context_of(situation, attempt))
            if hint is not None:
                yield attempt, hint


def find_misdeclared(
    situation: Situation, judged: Sequence[Attempt]
) -> Iterator[tuple[Attempt, Hint]]:
    """Yield models' kernels whose tunables cannot be used, with a hint; repeats are left out."""
    for attempt in judged:
        if attempt.written_by == "model" and attempt.code != Duplicate.code:
            space = read_space(situation.archive.source(attempt.id))
            if isinstance(space, InvalidDeclaration):
                yield attempt, _misdeclared(situation.round, attempt.id, space)


def _misdeclared(round: int, about: str, declaration: InvalidDeclaration) -> Hint:
    return Hint(
        round=round,
        about=about,
        code="TUNABLES",
        cause="misdeclared",
        text=(
            "Its tunables could not be read, so nothing was tuned: put `// tunable: 8 16 32` "
            "behind `#define NAME 8` on one line, outside of #if blocks, the default among the "
            "values, each name defined once; or declare none."
        ),
        evidence=one_line(str(declaration)),
    )
