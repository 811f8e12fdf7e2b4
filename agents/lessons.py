"""Which orders of a run become lessons for other tasks, and which lessons fit a task."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from cuda_llm.agents.limits import BOTTLENECK_TEXTS
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import is_faster
from cuda_llm.agents.techniques.catalogue import CATALOGUE
from cuda_llm.agents.techniques.task_kind import kind_of
from cuda_llm.lessons import Lesson, TriedOrder, tally_lessons
from cuda_llm.predictions import Predictor
from cuda_llm.search import Attempt, Brief, Kind

ORDERED = frozenset({Kind.FIRST, Kind.IMPROVE, Kind.DEPART})
"""Kinds of orders that are to make a kernel faster."""


def tried_orders(
    situation: Situation, briefs: Mapping[str, Brief], run: str, nvcc: str = ""
) -> tuple[TriedOrder, ...]:
    """Return the orders of a run that name a technique of the catalogue or a bottleneck.

    A playbook follows no order, and an answer without a kernel says nothing about an order.
    """
    return tuple(
        order
        for attempt in situation.attempts
        if attempt.id in briefs
        for order in _orders(situation, attempt, briefs[attempt.id], run, nvcc)
    )


def _orders(
    situation: Situation, attempt: Attempt, brief: Brief, run: str, nvcc: str
) -> Iterator[TriedOrder]:
    followed = attempt.written_by == "model" and brief.direction and attempt.source_sha
    if not followed or attempt.kind not in ORDERED or attempt.second:
        return
    technique = technique_of(brief.direction)
    if not attempt.is_about_its_kernel or not (technique or brief.against):
        return
    had, gained = _outcome(situation, attempt)
    by: Predictor = "critique" if _is_of_critique(brief) else "diagnosis"
    yield TriedOrder(
        run=run,
        candidate=attempt.id,
        gpu=situation.hardware.name,
        time_source=situation.capabilities.time_source,
        task=situation.task.name,
        task_kind=kind_of(situation.task),
        kind=attempt.kind,
        technique=technique,
        against=brief.against,
        by=by,
        promised=round(brief.share, 4),
        had=had if had is None else round(had, 4),
        gained=gained,
        nvcc=nvcc,
    )


def technique_of(direction: str) -> str:
    """Return the text of the technique that a direction orders, with a twist or without; empty for
    other words."""
    found = (one.text for one in CATALOGUE if direction.startswith(one.text))
    return max(found, key=len, default="")


def _is_of_critique(brief: Brief) -> bool:
    return any(one.change and one.change == brief.direction for one in brief.performance_hints)


def _outcome(situation: Situation, attempt: Attempt) -> tuple[float | None, bool]:
    """Return the saving over the parent's score, or the baseline's, and whether that is no tie."""
    if not attempt.passed or not attempt.speedup:
        return None, False
    baseline = replace(attempt, id="", speedup=1.0, spread=0.0)
    parent = situation.attempt(attempt.parent) if attempt.parent else baseline
    if not parent.speedup:
        return None, False
    gained = is_faster(situation, attempt, parent)
    return 1.0 - parent.speedup / attempt.speedup, gained


def lessons_for(situation: Situation, orders: Iterable[TriedOrder]) -> tuple[Lesson, ...]:
    """Return what orders of other tasks, on this GPU and by times of this source, teach about
    techniques that fit this kind of task.

    The task's own runs never count: a lesson is about what carries over. Words that are neither of
    the catalogue nor names of bottlenecks are dropped, so that a prompt holds none of the store's.
    """
    kind = kind_of(situation.task)
    texts = {one.text for one in CATALOGUE if kind in one.tasks}
    return tally_lessons(
        one
        for one in orders
        if one.gpu == situation.hardware.name
        and one.time_source == situation.capabilities.time_source
        and one.task != situation.task.name
        and one.task.isidentifier()
        and (one.technique in texts or (not one.technique and one.by == "critique"))
        and (not one.against or one.against in BOTTLENECK_TEXTS)
    )
