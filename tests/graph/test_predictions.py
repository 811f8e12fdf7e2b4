"""Which bottleneck of its parent an order is against."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from graph_runs import context_in, run_graph
from reflection_scenes import ScriptedAsk

from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.conversation import Reply
from cuda_llm.critique import Objection
from cuda_llm.graph.attempts import find_aim, find_critique
from cuda_llm.graph.view import attempts_of
from cuda_llm.profile import Bottleneck
from cuda_llm.search import Brief, Hint, Kind
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AgentDecided


def bottleneck(code: str, saved_us: float) -> Bottleneck:
    return Bottleneck(code=code, share=0.3, explanation=code, saved_us=saved_us, time_us=100.0)


LISTED = (
    bottleneck("uncoalesced_global", 30),
    bottleneck("bank_conflicts", 20),
    bottleneck("dram_bandwidth", 0),
)


def test_an_order_is_against_the_bottleneck_that_it_names() -> None:
    aim = find_aim("bank_conflicts", LISTED)
    assert aim is not None
    assert aim.code == "bank_conflicts"


def test_an_order_that_names_none_is_against_the_headline() -> None:
    aim = find_aim("", LISTED)
    assert aim is not None
    assert aim.code == "uncoalesced_global"


def test_without_a_known_mend_nothing_is_predicted() -> None:
    assert find_aim("", LISTED[2:]) is None
    assert find_aim("dram_bandwidth", LISTED) is None
    assert find_aim("bank_conflicts", LISTED[:1]) is None


def test_the_change_of_a_critique_is_predicted_as_the_critique_did() -> None:
    asked = Hint(
        round=1, about="r1-c1", code="latency", text="x", change="x", gain=0.2, by="critique"
    )
    order = Brief(
        id="r2-c1",
        round=2,
        index=1,
        kind=Kind.IMPROVE,
        parent="r1-c1",
        direction="x",
        performance_hints=(asked,),
    )
    assert find_critique(order) == asked
    assert find_critique(replace(order, direction="y")) is None
    assert find_critique(replace(order, performance_hints=(replace(asked, gain=0),))) is None


def test_a_run_keeps_what_a_critique_expected_and_what_was_had(tmp_path: Path) -> None:
    said = {"bottleneck": "latency", "change": "Load two at once.", "gain_percent": 20}
    silly = {"bottleneck": "tail", "change": "Think again.", "avoid": ["floats"]}
    ask = ScriptedAsk([Reply(text=json.dumps(one)) for one in (said, silly)])
    context = context_in(tmp_path, rounds=3, reflector=Reflection(ask))
    state = asyncio.run(run_graph(context))

    events = [one.event for one in read_events(context.folder.events)]
    decided = [one for one in events if isinstance(one, AgentDecided) and one.critique]
    first, second = (one.critique for one in decided)
    assert first
    assert (first.bottleneck, first.gain, first.corrections) == ("latency", 0.2, ())
    assert second
    assert not second.passed_on
    assert {one.why for one in second.corrections} == {
        Objection.NEXT_TO_NOTHING,
        Objection.NO_EVIDENCE,
    }

    attempts = attempts_of(state, context)
    (asked,) = (one for one in attempts if one.direction == "Load two at once")
    assert asked.predicted
    parent = context.folder.attempt(asked.parent or "")
    assert parent
    assert (asked.predicted.by, asked.predicted.code) == ("critique", "latency")
    assert asked.predicted.saved_us == pytest.approx(0.2 * parent.times_us[-1])
    if asked.passed:
        assert asked.predicted.had_us == parent.times_us[-1] - asked.times_us[-1]
    assert not any("Think again" in one.direction for one in attempts)
