"""Whatever says what limits a kernel names the same thing: the limiter of the call."""

import re
from dataclasses import replace

from prompt_cases import Kept
from recorded_situations import recorded_rounds

from cuda_llm.agents.prompting.render import render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.reflection.slow_kernels import find_limits
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.cli.evaluate_output import bottleneck_rows
from cuda_llm.graph.attempts import profile_fields
from cuda_llm.graph.toolbox import describe_speed
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Bottleneck, limiter

DRAM = Bottleneck(
    code="dram_bandwidth", share=0.7, explanation="the bytes", time_us=100.0, dominates=True
)
CONFLICTS = Bottleneck(
    code="bank_conflicts", share=0.08, explanation="32-way", saved_us=8.0, time_us=100.0
)


def test_every_place_names_the_limiter_though_another_cause_is_to_be_removed_first() -> None:
    situation = recorded_rounds("matrix_transpose")[-1]
    parent = situation.incumbent
    assert parent is not None
    verdict = situation.archive.verdict(parent.id)
    assert isinstance(verdict, Passed)
    assert verdict.profile is not None
    profile = replace(verdict.profile, bottlenecks=(DRAM, CONFLICTS), smaller=())
    assert limiter(profile.bottlenecks) == DRAM
    planted = replace(verdict, profile=profile)
    fields = profile_fields(planted)
    slow = replace(parent, times_us=tuple(10 * us for us in parent.times_us))
    attempts = tuple(slow if one.id == slow.id else one for one in situation.attempts)
    kept = {one.id: situation.archive.verdict(one.id) for one in attempts}
    archive = Kept(
        sources={one.id: situation.archive.source(one.id) for one in attempts},
        verdicts={**kept, slow.id: planted},
    )
    situation = replace(situation, attempts=attempts, incumbent=slow, archive=archive)
    brief = Fsr().write_briefs(situation)[0]
    prompt = "\n".join(one.text for one in render_prompt(brief, situation, open_templates()))
    label, told = next(bottleneck_rows(profile))
    hint = next(iter(find_limits(situation, (slow,))))

    assert fields["limited_by"] == "dram_bandwidth"
    assert (label, told) == ("limited by", "the bytes; 70% of the time")
    assert describe_speed(profile).endswith("limited by DRAM bandwidth")
    assert re.search(r"\nrows = cols = 16,384: .* DRAM bandwidth\n", prompt)
    assert "limited by the bytes, 70% of the time" in prompt
    assert hint.text.startswith(
        "Limited by DRAM bandwidth. Most is to be gained from shared-memory bank conflicts"
    )
