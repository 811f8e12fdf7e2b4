"""Where waits limit a kernel, a prompt says what the longest path through a block waits for."""

from dataclasses import replace

import pytest
from prompt_cases import Kept
from recorded_situations import recorded_rounds

from cuda_llm.agents.limits import deciding_profile
from cuda_llm.agents.prompting.describe_kernel import describe_profile, phases_shown
from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Phase, Profile
from cuda_llm.search import Attempt
from cuda_llm.source_file import SourceSpot

ARRIVAL = "last = atomicAdd(&finished, 1) == gridDim.x - 1;"
PHASES = (
    Phase(
        kind="load", clk=940.0, spot=SourceSpot(file="solve.cu", line=30, text="sum += input[i];")
    ),
    Phase(kind="merge", clk=300.0, spot=SourceSpot(file="solve.cu", line=36, text=ARRIVAL)),
    Phase(kind="compute", clk=90.0),
    Phase(kind="store", clk=20.0, spot=SourceSpot(file="solve.cu", line=34)),
)


def with_phases() -> tuple[Situation, Attempt, Profile]:
    situation = recorded_rounds("reduction")[-1]
    parent = situation.incumbent
    assert parent is not None
    verdict = situation.archive.verdict(parent.id)
    assert isinstance(verdict, Passed)
    assert verdict.profile is not None
    profile = replace(
        verdict.profile,
        launches=tuple(replace(one, phases=PHASES) for one in verdict.profile.launches),
        smaller=tuple(
            replace(size, launches=tuple(replace(one, phases=PHASES) for one in size.launches))
            for size in verdict.profile.smaller
        ),
    )
    kept = {one.id: situation.archive.verdict(one.id) for one in situation.attempts}
    archive = Kept(
        sources={name: situation.archive.source(name) for name in kept},
        verdicts={**kept, parent.id: replace(verdict, profile=profile)},
    )
    return replace(situation, archive=archive), parent, profile


def test_the_phases_stand_with_their_lines_in_place_of_the_one_line_of_the_wait() -> None:
    situation, parent, profile = with_phases()
    chosen, _ = deciding_profile(situation, parent, profile)
    assert chosen.bottlenecks[0].code == "latency"
    first, *others = describe_profile(situation, parent, profile)
    said = "clocks of an average block's path: load 940 (line 30), merge 300 (line 36), compute 90"
    assert said in others
    assert " at line " not in first


def test_the_clocks_of_a_block_with_a_longer_path_are_said() -> None:
    situation, parent, profile = with_phases()
    chosen, _ = deciding_profile(situation, parent, profile)
    longest = max(chosen.launches, key=lambda one: one.time_us)
    unlike = replace(longest, figures={**longest.figures, "longest_path_clk": 1887.4})
    lines = "\n".join(describe_profile(situation, parent, replace(profile, launches=(unlike,))))
    assert "; the longest block's path: 1,887" in lines


def test_lines_of_the_path_are_numbered_in_the_source() -> None:
    situation, parent, _ = with_phases()
    brief = Fsr().write_briefs(situation)[0]
    assert brief.parent == parent.id
    text = render_prompt(brief, situation, open_templates())[1].text
    assert "sum += input[i];  //:30" in text
    assert f"{ARRIVAL}  //:36" in text


@pytest.mark.parametrize("hidden", ["name", "none"])
def test_a_hidden_gpu_leaves_no_clocks(hidden: str) -> None:
    situation, parent, profile = with_phases()
    config = situation.config.changed(hardware_context=hidden)
    said = describe_profile(replace(situation, config=config), parent, profile)
    assert not any("clocks" in line for line in said)


def test_a_playbook_kernel_keeps_its_lines_to_itself() -> None:
    situation, parent, profile = with_phases()
    said = "\n".join(describe_profile(situation, replace(parent, written_by="playbook"), profile))
    assert "load 940, merge 300" in said


def test_where_waits_do_not_limit_no_path_is_shown() -> None:
    *_, profile = with_phases()
    busy = tuple(replace(one, code="dram_bandwidth") for one in profile.bottlenecks)
    assert phases_shown(profile)
    assert not phases_shown(replace(profile, bottlenecks=busy))
