"""A model's critique checked against profile, source, hints, hardware and attempts."""

import asyncio
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_situations import RECORDED, recorded_rounds
from reflection_scenes import ScriptedAsk

from cuda_llm.agents.limits import BOTTLENECK_TEXTS, NEGLIGIBLE, possible_saving
from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.reflection.check_critique import (
    Avoided,
    Critique,
    check,
    read_brings,
)
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr, last_round
from cuda_llm.agents.techniques.directions import find_directions
from cuda_llm.agents.techniques.objections import (
    BRINGS,
    aims_ruled_out,
    changes_between,
    profile_of,
)
from cuda_llm.agents.techniques.technique import AIMS
from cuda_llm.conversation import Reply
from cuda_llm.critique import CheckedCritique, Objection
from cuda_llm.search import Attempt, Hint, Kind

CHANGE = "Give each thread a larger part of the output"


def last(task: str) -> tuple[Situation, Attempt]:
    """The last recorded situation of a task, and its kernel to beat."""
    situation = recorded_rounds(task)[-1]
    assert situation.incumbent
    return situation, situation.incumbent


def checked(task: str, **said: Any) -> CheckedCritique:
    situation, about = last(task)
    return check(situation, about, Critique(**{"change": CHANGE, **said}))


def reasons(found: CheckedCritique) -> list[tuple[str, Objection]]:
    return [(one.part, one.why) for one in found.corrections]


def test_a_bottleneck_is_known_by_its_code_and_by_its_name() -> None:
    for name in ("shared_bandwidth", "shared-memory bandwidth", "Shared memory bandwidth"):
        found = checked("matrix_multiplication", bottleneck=name, gain_percent=20)
        assert (found.bottleneck, found.gain) == ("shared_bandwidth", 0.2)
        assert reasons(found) == []


def test_a_bottleneck_that_nobody_knows_becomes_the_first_of_the_profile() -> None:
    found = checked("matrix_multiplication", bottleneck="bad luck")
    assert found.bottleneck == "shared_bandwidth"
    assert reasons(found) == [("bottleneck", Objection.UNKNOWN)]
    assert found.passed_on


@pytest.mark.parametrize("named", ["fp32", "dram_bandwidth", "bank_conflicts", "tail"])
def test_a_bottleneck_that_the_terms_put_at_next_to_nothing_drops_the_critique(named: str) -> None:
    found = checked("matrix_multiplication", bottleneck=named)
    assert reasons(found) == [("bottleneck", Objection.NEXT_TO_NOTHING)]
    assert not found.passed_on
    assert found.corrections[0].most < NEGLIGIBLE


def test_a_gain_beyond_what_taking_the_term_away_saves_becomes_that() -> None:
    situation, about = last("matrix_multiplication")
    profile = profile_of(situation, about)
    assert profile
    most = possible_saving(profile, "shared_bandwidth")
    assert most
    assert 0.25 < most < 0.4
    found = checked("matrix_multiplication", bottleneck="shared_bandwidth", gain_percent=70)
    assert reasons(found) == [("gain", Objection.BEYOND_TERM)]
    assert found.gain == most
    assert found.corrections[0].said == "70"


def test_a_gain_beyond_the_attainable_time_becomes_what_is_left() -> None:
    found = checked("matrix_transpose", bottleneck="dram_bandwidth", gain_percent=60)
    assert ("gain", Objection.BEYOND_TERM) in reasons(found)
    assert 0 < found.gain < 0.6
    hidden, about = last("matrix_transpose")
    hidden = replace(hidden, config=hidden.config.changed(hardware_context="none"))
    said = Critique(change=CHANGE, bottleneck="dram_bandwidth", gain_percent=60)
    corrected = [one.why for one in check(hidden, about, said).corrections]
    assert Objection.BEYOND_ROOFLINE not in corrected


def test_a_tag_that_the_text_shows_is_dropped_and_the_change_stays_an_order() -> None:
    had = ("register_blocking", "unrolling")
    found = checked("matrix_multiplication", bottleneck="shared_bandwidth", brings=had)
    assert reasons(found) == [("brings", Objection.HAS_ALREADY)] * 2
    assert (found.passed_on, found.brings) == (True, ())
    free = ("fewer dependent round trips",)
    found = checked("matrix_multiplication", bottleneck="shared_bandwidth", brings=free)
    assert (found.passed_on, reasons(found)) == (True, [])
    new = (*had, "shared_vectors")
    found = checked("matrix_multiplication", bottleneck="issue", brings=new)
    assert (found.passed_on, found.brings) == (True, ("shared_vectors",))


def test_a_sentence_without_names_is_read_where_it_leaves_no_doubt() -> None:
    assert read_brings("Unroll the inner loop by four") == ("unrolling",)
    assert read_brings("Replace the padding by a swizzle") == ()
    assert read_brings("Drop the unrolling") == ()
    found = checked("matrix_multiplication", bottleneck="issue", change="Unroll the inner loop.")
    assert reasons(found) == [("brings", Objection.HAS_ALREADY)]
    assert found.passed_on


def hint(code: str, *aims: str) -> Hint:
    return Hint(round=1, about="", code=code, text="no use", rules_out=aims)


@pytest.mark.parametrize("brings", [("larger_tiles",), ("fewer_instructions", "fewer_blocks")])
def test_a_hint_s_rule_of_thumb_refuses_no_change_of_a_critique(brings: tuple[str, ...]) -> None:
    """The critique has read the hint, and looks at this kernel."""
    found = checked("matrix_multiplication", bottleneck="shared_bandwidth", brings=brings)
    assert (found.passed_on, reasons(found)) == (True, [])


def test_what_the_gpu_has_not_is_not_asked_for() -> None:
    found = checked("matrix_multiplication", brings=("bulk_copy",))
    assert ("change", Objection.AGAINST_HARDWARE) in reasons(found)
    found = checked("reduction", brings=("second_launch",))
    assert ("change", Objection.AGAINST_HARDWARE) in reasons(found)


def test_a_change_that_was_ordered_before_is_not_asked_for_again() -> None:
    situation, _ = last("matrix_multiplication")
    ordered = next(one.direction for one in situation.attempts if one.kind is Kind.IMPROVE)
    found = checked("matrix_multiplication", change=f"{ordered}.")
    assert ("change", Objection.ORDERED_BEFORE) in reasons(found)


def test_what_to_avoid_needs_an_attempt_that_changed_that_alone_and_gained_nothing() -> None:
    def said(changed: str, attempt: str) -> CheckedCritique:
        one = Avoided(changed=changed, attempt=attempt)
        return checked("matrix_multiplication", bottleneck="shared_bandwidth", avoid=(one,))

    shown = said("threads", "r2-c3")
    assert shown.avoid == ("256 -> 512 threads (r2-c3: 31% slower than r1-c2)",)
    assert reasons(shown) == []
    for changed, name in (("padding", "r2-c3"), ("threads", "r9-c9"), ("padding", "")):
        assert reasons(said(changed, name)) == [("avoid", Objection.NO_EVIDENCE)]
    assert said("padding", "r2-c2").avoid == ()


def test_a_change_among_several_is_not_condemned() -> None:
    situation, about = last("matrix_multiplication")
    slow = replace(situation.attempt("r2-c2"), speedup=0.5)
    attempts = tuple(slow if one.id == slow.id else one for one in situation.attempts)
    one = Avoided(changed="+padding", attempt="r2-c2")
    said = Critique(change=CHANGE, bottleneck="shared_bandwidth", avoid=(one,))
    found = check(replace(situation, attempts=attempts), about, said)
    assert reasons(found) == [("avoid", Objection.CONFOUNDED)]


def test_an_order_stands_whatever_hints_come_later() -> None:
    situation, about = last("matrix_multiplication")
    asked = Hint(
        round=3,
        about=about.id,
        code="issue",
        text=CHANGE,
        change=CHANGE,
        brings=("fewer_bytes",),
        by="critique",
    )
    for hints in ((asked,), (asked, hint("latency", "fewer_bytes"))):
        found = find_directions(situation, Kind.IMPROVE, 3, parent=about, hints=hints)
        assert found[0].text == CHANGE
    refused = replace(asked, refused="the hardware has it not")
    found = find_directions(situation, Kind.IMPROVE, 3, parent=about, hints=(refused,))
    assert all(one.text != CHANGE for one in found)


@cache
def bare(name: str, round_: int, incumbent: str) -> Situation:
    """A recorded situation with that kernel to beat, and rounds to come."""
    seen = recorded_rounds(name)[round_]
    config = seen.config.changed(rounds=9, candidates=4)
    return replace(
        seen, config=config, incumbent=seen.attempt(incumbent), error_hints=(), performance_hints=()
    )


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    played = [one for one in RECORDED if len(recorded_rounds(one)) > 1]
    name = draw(st.sampled_from(played))
    round_ = draw(st.integers(1, len(recorded_rounds(name)) - 1))
    passed = [one.id for one in recorded_rounds(name)[round_].attempts if one.passed]
    return bare(name, round_, draw(st.sampled_from(passed)))


ids = st.sampled_from(["r1-c1", "r1-c2", "r2-c1", "r2-c2", "r2-c3", "r9-c1", ""])
critiques = st.fixed_dictionaries(
    {
        "bottleneck": st.sampled_from([*BOTTLENECK_TEXTS, "no idea"]),
        "change": st.sampled_from([CHANGE, "Pad the tile.", "Unroll the loop", "Raise occupancy"]),
        "brings": st.lists(st.sampled_from([*sorted(BRINGS), "luck"]), max_size=4),
        "gain_percent": st.integers(0, 120),
        "avoid": st.lists(
            st.one_of(
                st.just("larger tiles"),
                st.fixed_dictionaries(
                    {"changed": st.sampled_from(["padding", "threads"]), "attempt": ids}
                ),
            ),
            max_size=3,
        ),
    }
)


@settings(max_examples=examples(50))
@given(at=situations(), said=critiques)
def test_nothing_reaches_a_brief_that_the_check_should_have_dropped(
    at: Situation, said: dict[str, Any]
) -> None:
    found = answered(at, said)
    about = at.incumbent
    assert about
    if found.critique is None:
        assert not any(one.by == "critique" for one in found.performance_hints)
        return
    after = replace(at, round=at.round + 1, performance_hints=found.performance_hints)
    change = said["change"].rstrip(".")
    briefs = Fsr().write_briefs(after)
    ordered = [one for one in briefs if one.direction == change]
    hinted = [one for one in found.performance_hints if one.by == "critique"]
    assert len(ordered) == int(found.critique.passed_on)
    assert [bool(one.refused) for one in hinted] == [not found.critique.passed_on]
    assert not any(one.refused for brief in briefs for one in brief.performance_hints)
    profile = profile_of(at, about)
    assert profile
    for brief in ordered:
        most = possible_saving(profile, brief.against)
        listed = {one.code for one in profile.bottlenecks}
        assert most is None or most >= NEGLIGIBLE or brief.against in listed
        if said["gain_percent"] and most is not None:
            assert brief.share <= most + 0.006
        refused = aims_ruled_out(at, profile)
        for one in brief.performance_hints:
            refused |= set(one.rules_out) - {"larger_tiles"}
        assert not refused & AIMS & set(said["brings"])
    for avoided in (text for one in hinted for text in one.avoid):
        name = avoided.partition("(")[2].partition(":")[0]
        tried = at.attempt(name)
        changes = changes_between(at, at.attempt(tried.parent or ""), tried)
        assert len([one for one in changes if one.is_choice]) == 1


def answered(at: Situation, said: dict[str, Any]) -> Contribution:
    ask = ScriptedAsk([Reply(text=json.dumps(said))])
    return asyncio.run(Reflection(ask).reflect(at, last_round(at)))
