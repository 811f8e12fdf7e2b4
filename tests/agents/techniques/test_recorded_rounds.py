"""Directions in situations of real runs: distinct, and sensible for the kernel they change."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.kernel_facts import SourceFacts, signs_of
from cuda_llm.agents.limits import BOTTLENECK_TEXTS
from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.agents.techniques.catalogue import CATALOGUE, CHANGES
from cuda_llm.agents.techniques.directions import OPPOSITE
from cuda_llm.agents.techniques.technique import AIMS, Technique
from cuda_llm.search import Attempt, Brief, Hint, Kind

CRITIQUE = "Give each thread a larger part of the output and keep it in registers"


@cache
def reflected(name: str, round_: int, incumbent: str | None) -> Situation:
    """A recorded situation with another incumbent, and what today's reflection says of it."""
    seen = recorded_rounds(name)[round_]
    chosen = seen.attempt(incumbent) if incumbent else None
    bare = replace(seen, incumbent=chosen, error_hints=(), performance_hints=())
    learned = asyncio.run(Reflection().reflect(bare, seen.attempts))
    return replace(
        bare, error_hints=learned.error_hints, performance_hints=learned.performance_hints
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    name = draw(st.sampled_from(RECORDED))
    round_ = draw(st.integers(0, len(recorded_rounds(name)) - 1))
    passed = [one.id for one in recorded_rounds(name)[round_].attempts if one.passed]
    incumbent = draw(st.sampled_from(passed)) if passed else None
    found = reflected(name, round_, incumbent)
    if incumbent and draw(st.booleans()):
        critique = Hint(
            round=found.round - 1,
            about=incumbent,
            code=found.attempt(incumbent).limited_by,
            text=CRITIQUE,
            change=CRITIQUE,
            gain=0.25,
            by="critique",
        )
        found = replace(found, performance_hints=(critique, *found.performance_hints))
    config = found.config.changed(
        candidates=draw(st.integers(1, 10)),
        seed=draw(st.integers(0, 99)),
        patience=draw(st.integers(1, 3)),
    )
    return replace(found, config=config)


def technique_of(brief: Brief) -> Technique | None:
    return next((one for one in CATALOGUE if brief.direction.startswith(one.text)), None)


def parent_of(at: Situation, brief: Brief) -> Attempt | None:
    return at.attempt(brief.parent) if brief.parent else None


def told(at: Situation) -> Iterator[tuple[Brief, Technique, Attempt]]:
    """Each brief to change a kernel that passed, with the technique it names."""
    for brief in Fsr().write_briefs(at):
        technique, parent = technique_of(brief), parent_of(at, brief)
        if technique is not None and parent is not None and brief.kind is not Kind.FIX:
            yield brief, technique, parent


@settings(max_examples=examples(150))
@given(at=situations())
def test_no_direction_contradicts_a_hint_of_its_own_prompt(at: Situation) -> None:
    for brief, technique, _ in told(at):
        refused = {aim for hint in brief.performance_hints for aim in hint.rules_out}
        assert not technique.aims & refused, (brief.direction, refused)


@settings(max_examples=examples(150))
@given(at=situations())
def test_no_direction_repeats_what_the_parents_text_has(at: Situation) -> None:
    for brief, technique, parent in told(at):
        facts = SourceFacts(at.archive.source(parent.id))
        assert technique.shown_by not in signs_of(facts), brief.direction
        assert not technique.needs_shared or facts.shared_arrays, brief.direction


@settings(max_examples=examples(150))
@given(at=situations())
def test_the_directions_of_a_round_are_distinct_and_say_where_they_oppose(at: Situation) -> None:
    briefs = Fsr().write_briefs(at)
    texts = [brief.direction for brief in briefs]
    assert len(set(texts)) == len(texts)
    assert all(texts)
    signs = {one.work_per_thread for one in map(technique_of, briefs) if one}
    assert any(OPPOSITE in text for text in texts) == ({1, -1} <= signs)


@settings(max_examples=examples(100))
@given(at=situations())
def test_the_change_that_a_critique_asks_for_is_an_order_of_one_brief(at: Situation) -> None:
    briefs = Fsr().write_briefs(at)
    asked = any(hint.change for hint in at.performance_hints)
    ordered = [one for one in briefs if one.direction.startswith(CRITIQUE)]
    assert len(ordered) == int(asked and any(one.kind is Kind.IMPROVE for one in briefs))
    for brief in ordered:
        text = render_prompt(brief, at, open_templates())[1].text
        assert text.count(CRITIQUE) == 1
        assert 0.0 < brief.share <= 0.25 + 1e-9
        assert f"Worth at most {1 / (1 - brief.share) - 1:.0%} of the score" in text


@settings(max_examples=examples(100))
@given(at=situations())
def test_no_hint_recommends_what_it_calls_of_no_use(at: Situation) -> None:
    for hint in at.performance_hints:
        for technique in CHANGES:
            if technique.text in hint.text:
                assert not technique.aims & set(hint.rules_out), hint.text


@pytest.mark.parametrize("name", RECORDED)
def test_an_order_to_improve_says_what_it_can_gain_at_most(name: str) -> None:
    for at in recorded_rounds(name)[1:]:
        for brief in Fsr().write_briefs(at):
            if brief.kind is Kind.IMPROVE and brief.share:
                text = render_prompt(brief, at, open_templates())[1].text
                assert f"Worth at most {1 / (1 - brief.share) - 1:.0%} of the score" in text


def test_what_a_structure_cannot_reach_is_not_ordered() -> None:
    at = replace(recorded_rounds("matrix_multiplication")[0], incumbent=None, attempts=())
    briefs = Fsr().write_briefs(replace(at, config=at.config.changed(candidates=10)))
    assert not any("one output a thread" in brief.direction for brief in briefs)


def test_a_second_launch_is_not_ordered_where_sizes_are_small() -> None:
    at = recorded_rounds("reduction")[0]
    briefs = Fsr().write_briefs(replace(at, config=at.config.changed(candidates=10)))
    assert not any(one.launches > 1 for one in map(technique_of, briefs) if one)


def test_no_technique_aims_at_what_the_bottleneck_it_relieves_speaks_against() -> None:
    for technique in CHANGES:
        for code in technique.against:
            refused = BOTTLENECK_TEXTS[code].refuses.split()
            assert not technique.aims & set(refused), (code, technique.text)


def test_aims_have_names_that_techniques_know() -> None:
    named = {aim for text in BOTTLENECK_TEXTS.values() for aim in text.refuses.split()}
    assert named | {aim for one in CATALOGUE for aim in one.aims} <= AIMS
