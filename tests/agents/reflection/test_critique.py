"""One question to a model a round: what it is shown, and what is made of its answer."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from reflection_scenes import BANK_CONFLICTS, DRAM, UNPADDED, ScriptedAsk, failed, judged, passed
from searches import attempt

from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.reflection.check_critique import Avoided, Critique
from cuda_llm.agents.reflection.critique import MOST_CHANGE, Unreadable, read_critique
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.components import Component
from cuda_llm.conversation import CallFailed, Reply
from cuda_llm.critique import Objection
from cuda_llm.outcomes import InputMutated, LateWrite
from cuda_llm.run_config import RunConfig

GOOD = {
    "bottleneck": "bank conflicts",
    "change": "Pad the tile by one column.",
    "brings": ["padding"],
    "avoid": ["larger tiles"],
    "reason": "32-way conflicts at line 24",
    "gain_percent": 25,
}
SECRETS = ("3090", "RTX", "Ampere", "1,008", "GB/s", "sm_86", "8.6", "84 SMs", "KiB")


def search(**fields: object) -> Situation:
    return judged(
        (attempt("r1-c1", 1.5, times_us=(4.0, 41.0)), UNPADDED, passed(BANK_CONFLICTS, DRAM)),
        incumbent="r1-c1",
        **fields,
    )


def reflect(situation: Situation, *answers: Reply | CallFailed) -> Contribution:
    return ask(situation, *answers)[0]


def ask(
    situation: Situation, *answers: Reply | CallFailed, prompts: Path | None = None
) -> tuple[Contribution, ScriptedAsk]:
    scripted = ScriptedAsk(list(answers))
    reflection = Reflection(scripted, open_templates(prompts))
    return asyncio.run(reflection.reflect(situation, situation.attempts)), scripted


def prompt(situation: Situation) -> str:
    _, scripted = ask(situation, Reply(text="no"))
    return "\n".join(message.text for message in scripted.calls[0].messages)


def test_a_critique_becomes_the_first_hint_of_its_channel() -> None:
    found = reflect(search(), Reply(text=json.dumps(GOOD)))
    first, second = found.performance_hints
    assert (first.by, second.by) == ("critique", "diagnosis")
    assert first.text == "Pad the tile by one column. (32-way conflicts at line 24)"
    assert (first.code, first.brings, first.avoid) == ("bank_conflicts", ("padding",), ())
    assert (first.change, first.gain) == ("Pad the tile by one column", 0.25)
    checked = found.critique
    assert checked is not None
    assert (checked.about, checked.bottleneck, checked.gain) == ("r1-c1", "bank_conflicts", 0.25)
    assert checked.passed_on


def test_what_to_avoid_vetoes_nothing_without_an_attempt_that_shows_it() -> None:
    found = reflect(search(), Reply(text=json.dumps(GOOD)))
    assert found.critique is not None
    (correction,) = found.critique.corrections
    assert (correction.part, correction.why) == ("avoid", Objection.NO_EVIDENCE)
    assert correction.said == "larger tiles"
    assert not any("larger tiles" in hint.avoid for hint in found.performance_hints[:1])


def test_a_change_whose_tags_the_text_has_already_is_an_order_all_the_same() -> None:
    winner = attempt("r1-c1", 1.5, times_us=(4.0, 41.0))
    padded = UNPADDED.replace("[32][32]", "[32][32 + 1]").replace(
        "[TILE][TILE]", "[TILE][TILE + 1]"
    )
    assert padded != UNPADDED
    situation = judged((winner, padded, passed(BANK_CONFLICTS, DRAM)), incumbent="r1-c1")
    found = reflect(situation, Reply(text=json.dumps(GOOD)))
    assert [hint.by for hint in found.performance_hints] == ["critique", "diagnosis"]
    assert found.critique is not None
    assert found.critique.passed_on
    assert Objection.HAS_ALREADY in {one.why for one in found.critique.corrections}


def test_a_refused_change_reaches_the_next_critique_with_its_reason_and_no_writer() -> None:
    asked = {**GOOD, "change": "Load the tile by bulk copies.", "brings": ["bulk_copy"]}
    found = reflect(search(), Reply(text=json.dumps(asked)))
    first, *_ = found.performance_hints
    assert first.refused == "the hardware has it not, or cannot gain by it"
    later = search(performance_hints=found.performance_hints, round=2)
    assert f"- {first.change} ({first.refused})" in prompt(later)
    briefs = Fsr().write_briefs(later)
    assert briefs
    assert not any(first.change in str(brief) for brief in briefs)


def test_where_nothing_of_a_round_passed_the_way_out_of_each_failure_reaches_every_writer() -> None:
    first, second = InputMutated(buffer="input"), LateWrite(buffer="output")
    best = attempt("r1-c1", 1.5, times_us=(4.0, 41.0))
    failures = (
        (failed("r2-c1", first), UNPADDED, first),
        (failed("r2-c2", second), UNPADDED, second),
    )
    situation = judged(
        (best, UNPADDED, passed(BANK_CONFLICTS, DRAM)), *failures, incumbent="r1-c1", round=2
    )
    fixes = [
        {"attempt": "r2-c2", "fix": "Wait for the second kernel before solve returns."},
        {"attempt": "r9-c9", "fix": "Nobody asked."},
    ]
    scripted = ScriptedAsk([Reply(text=json.dumps({**GOOD, "fixes": fixes}))])
    of_round = tuple(one for one in situation.attempts if one.round == 2)
    found = asyncio.run(Reflection(scripted, open_templates()).reflect(situation, of_round))
    system = scripted.calls[0].messages[0].text
    assert '"attempt": "one of r2-c2, r2-c1"' in system
    fixed = [one for one in found.error_hints if one.by == "critique"]
    assert [(one.about, one.code) for one in fixed] == [("", "LATE_WRITE")]
    assert fixed[0].text == "r2-c2 was refused: Wait for the second kernel before solve returns."
    later = replace(situation, round=3, error_hints=found.error_hints)
    assert all(fixed[0] in brief.error_hints for brief in Fsr().write_briefs(later))
    assert '"fixes"' not in prompt(search())


@pytest.mark.parametrize("gain", ["25%", None, float("nan"), -3, True, {}])
def test_an_expected_gain_that_is_no_percentage_costs_no_critique(gain: object) -> None:
    read = read_critique(Reply(text=json.dumps({**GOOD, "gain_percent": gain})))
    assert isinstance(read, Critique)
    assert 0.0 <= read.gain_percent <= 99.0


def test_one_call_a_round_under_a_name_of_its_own() -> None:
    _, scripted = ask(search(), Reply(text=json.dumps(GOOD)))
    (call,) = scripted.calls
    assert (call.id, call.agent, call.as_json) == ("rounds/1/critique", "reflection", True)


def test_while_nothing_passes_the_failure_is_criticised() -> None:
    verdict = InputMutated(buffer="input")
    situation = judged((failed("r1-c1", verdict), UNPADDED, verdict))
    found, scripted = ask(situation, Reply(text=json.dumps(GOOD)))
    assert [hint.by for hint in found.error_hints] == ["critique", "diagnosis"]
    assert "INPUT_MUTATED" in scripted.calls[0].messages[1].text


@pytest.mark.parametrize(
    ("text", "finish", "why"),
    [
        ("", "stop", "the answer was empty"),
        ("Use shared memory.", "stop", "the answer holds no JSON object"),
        ('{"change": "pad', "length", "the answer was cut off at the length limit"),
        ('{"change": ""}', "stop", "its JSON is not what was asked for"),
        ('{"change": 7}', "stop", "its JSON is not what was asked for"),
        ("[[[[{", "stop", "its JSON is not what was asked for"),
    ],
)
def test_an_answer_without_a_critique_is_recorded_and_costs_no_hint(
    text: str, finish: str, why: str
) -> None:
    found = reflect(search(), Reply(text=text, finish=finish))
    assert [hint.by for hint in found.performance_hints] == ["diagnosis"]
    assert found.decisions[-1] == f"no critique of r1-c1: {why}"


def test_no_answer_leaves_the_diagnosis() -> None:
    found = reflect(search(), CallFailed(kind="timed_out", detail="after 60 s"))
    assert [hint.by for hint in found.performance_hints] == ["diagnosis"]
    assert found.decisions[-1] == "no critique of r1-c1: timed_out: after 60 s"


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Here it is:\n\n{}\n\nGood luck!",
        "<think>maybe {{braces}} help</think>{}",
        'First {{"x": 1}} then {}',
        '{{"critique": {}}}',
    ],
)
def test_json_is_found_wherever_it_stands(around: str) -> None:
    text = around.format(json.dumps(GOOD))
    assert read_critique(Reply(text=text)) == Critique(
        change="Pad the tile by one column.",
        bottleneck="bank conflicts",
        brings=("padding",),
        avoid=(Avoided(changed="larger tiles"),),
        reason="32-way conflicts at line 24",
        gain_percent=25.0,
    )


def test_an_answer_of_odd_shape_is_made_to_fit() -> None:
    odd = {"change": "a\x1b[2Jb" + "c" * 9000, "avoid": "d", "reason": None, "extra": [1]}
    read = read_critique(Reply(text=json.dumps(odd)))
    assert isinstance(read, Critique)
    assert read.avoid == (Avoided(changed="d"),)
    assert read.change.isprintable()
    assert len(read.change) <= MOST_CHANGE


def test_two_long_sentences_are_ordered_whole() -> None:
    change = "Load the next tile row by row, right after the sums of a row. " * 15
    read = read_critique(Reply(text=json.dumps({**GOOD, "change": change})))
    assert isinstance(read, Critique)
    assert read.change == change.strip()


def test_a_refusal_is_no_critique() -> None:
    assert read_critique(Reply(text="{}", refusal="no")) == Unreadable("the model declined")


def test_the_prompt_shows_the_kernel_its_limit_and_what_is_known() -> None:
    text = prompt(search())
    assert "tile[threadIdx.y + i][threadIdx.x] = input" in text
    assert "bank conflicts" in text
    assert "Best first: pad the shared tile" in text
    assert '{"bottleneck"' in text
    assert "1,008 GB/s" in text


@pytest.mark.parametrize("context", ["name", "none"])
def test_hardware_facts_stay_out_of_the_prompt(context: str) -> None:
    config = RunConfig(hardware_context=context)  # type: ignore[arg-type]
    notes = {"hardware_research": Note(text="84 SMs, 48 KiB", about_hardware=True)}
    text = prompt(replace(search(), config=config, notes=notes))
    kept_back = [one for one in SECRETS if context == "none" or one not in ("RTX", "3090")]
    assert [one for one in kept_back if one in text] == []


@pytest.mark.parametrize(
    ("component", "marker"),
    [("profile", "## Where its time goes"), ("history", "# What was tried")],
)
def test_what_is_switched_off_is_not_shown(component: Component, marker: str) -> None:
    assert marker in prompt(search())
    config = RunConfig(without=(component,))
    assert marker not in prompt(replace(search(), config=config))


def test_at_the_hardware_limit_nobody_is_asked() -> None:
    winner = attempt("r1-c1", 30.0, times_us=(3.4, 10.4))
    found, scripted = ask(judged((winner, UNPADDED, passed(DRAM)), incumbent="r1-c1"))
    assert scripted.calls == []
    assert found.decisions[-1].startswith("no critique asked for")


def test_without_hints_nobody_is_asked() -> None:
    config = RunConfig(without=("hints",))
    _, scripted = ask(replace(search(), config=config))
    assert scripted.calls == []


def test_behind_the_last_round_nobody_is_asked() -> None:
    situation = search()
    _, scripted = ask(replace(situation, config=RunConfig(rounds=situation.round)))
    assert scripted.calls == []


def test_playbook_source_is_never_shown() -> None:
    by_playbook = attempt("r1-c1", 1.5, times_us=(4.0, 41.0), written_by="playbook")
    situation = judged((by_playbook, UNPADDED, passed(BANK_CONFLICTS)), incumbent="r1-c1")
    text = prompt(situation)
    assert "is not shown" in text
    assert "tile[" not in text


def test_a_template_of_the_users_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "critique_system.j2").write_text("Be brief.")
    (tmp_path / "critique.j2").write_text("{{ title }}")
    _, scripted = ask(search(), Reply(text="{}"), prompts=tmp_path)
    texts = [message.text.strip() for message in scripted.calls[0].messages]
    assert texts == ["Be brief.", "Matrix transpose"]
