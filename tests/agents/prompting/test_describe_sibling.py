"""Which kernel a critique sees beside the one it is about, and what of the two is told."""

from dataclasses import replace

import pytest
from prompt_cases import Kept
from recorded_situations import RECORDED, recorded_rounds

from cuda_llm.agents.prompting.describe_sibling import describe_sibling, find_sibling
from cuda_llm.agents.prompting.render import render_critique_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.situation import Situation
from cuda_llm.components import Components
from cuda_llm.search import Attempt


def last(task: str) -> tuple[Situation, Attempt]:
    situation = recorded_rounds(task)[-1]
    assert situation.incumbent
    return situation, situation.incumbent


def test_who_is_faster_at_a_size_stands_beside_the_kernel_to_beat() -> None:
    situation, about = last("reduction")
    found = find_sibling(situation, about)
    assert found
    assert found.attempt.id == "r2-c1"
    assert [situation.sizes[one]["n"] for one in found.faster_at] == [262144]
    first, changed, counted = describe_sibling(situation, about, Components())
    assert first == "r2-c1 is faster at n = 262,144"
    assert changed.startswith("its difference: -cache hints")
    assert "1 -> 2 launches" in changed
    assert counted.startswith("r2-c2 / r2-c1 at the largest: latency 3.32 us / 1.88 us")
    assert "its warp instructions 1.3x" in counted


def test_else_who_spends_less_on_what_limits_it() -> None:
    situation = recorded_rounds("histogram")[1]
    task = replace(situation.task, weights=(4.0, 1.0, 1.0, 1.0, 1.0))
    situation = replace(situation, task=task)
    assert situation.incumbent
    found = find_sibling(situation, situation.incumbent)
    assert found
    assert (found.attempt.id, found.less_of) == ("r1-c3", "atomic_contention")


def test_else_its_parent_whose_changes_the_history_tells() -> None:
    situation, about = last("matrix_multiplication")
    found = find_sibling(situation, about)
    assert found
    assert found.attempt.id == about.parent
    lines = describe_sibling(situation, about, Components())
    assert lines[0] == "r1-c2, its parent"
    assert not any("from" in line for line in lines)


def test_a_difference_within_the_noise_is_no_win() -> None:
    situation, about = last("reduction")
    noisy = replace(about, spread=0.2)
    assert not getattr(find_sibling(situation, noisy), "faster_at", ())


def test_alone_nothing_stands_beside_it() -> None:
    situation, about = last("reduction")
    alone = replace(situation, attempts=(about,))
    assert describe_sibling(alone, replace(about, parent=None), Components()) == ()
    assert find_sibling(situation, situation.attempt("r1-c3")) is None


def test_what_is_switched_off_is_not_told() -> None:
    situation, about = last("reduction")
    assert describe_sibling(situation, about, Components(history=False)) == ()
    assert len(describe_sibling(situation, about, Components(profile=False))) == 1


def test_a_hidden_gpu_leaves_no_times_by_cause() -> None:
    situation, about = last("reduction")
    hidden = replace(situation, config=situation.config.changed(hardware_context="none"))
    counted = describe_sibling(hidden, about, Components())[-1]
    assert "latency" not in counted
    assert "its warp instructions 1.3x" in counted


def test_of_a_playbook_kernel_its_text_stays_out() -> None:
    situation, about = last("reduction")
    attempts = tuple(replace(one, written_by="playbook") for one in situation.attempts)
    archive = Kept(
        sources={one.id: "" for one in attempts},
        verdicts={one.id: situation.archive.verdict(one.id) for one in attempts},
    )
    hidden = replace(situation, attempts=attempts, archive=archive)
    lines = "\n".join(describe_sibling(hidden, replace(about, written_by="playbook"), Components()))
    assert "1 -> 2 launches" in lines
    assert "last block" not in lines


@pytest.mark.parametrize("task", RECORDED)
def test_the_critique_is_told_what_each_bottleneck_can_save(task: str) -> None:
    for situation in recorded_rounds(task):
        about = situation.incumbent
        if about is None:
            continue
        asked = render_critique_prompt(situation, about, (), open_templates())
        system, user = (message.text for message in asked)
        assert "Saved there at most without: " in user
        assert "by its code" in system
        assert '"brings": [what it adds, in your words or of: ' in system
        sibling = describe_sibling(situation, about, Components())
        assert ("## Beside it" in user) == bool(sibling)
