"""What limits a kernel, what helps on this hardware, and what cannot."""

from dataclasses import replace

from reflection_scenes import BANK_CONFLICTS, DRAM, UNPADDED, judged, passed
from searches import attempt

from cuda_llm.agents.reflection.slow_kernels import find_limits
from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Bottleneck, KernelResources
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.loader import load_task

SLOW_US = (4.0, 41.0)


def hints_of(situation: Situation) -> tuple[Hint, ...]:
    return tuple(find_limits(situation, situation.attempts))


def one_kernel(verdict: Passed, source: str = UNPADDED, **fields: str) -> Situation:
    winner = attempt("r1-c1", 1.5, times_us=SLOW_US, **fields)
    return judged((winner, source, verdict), incumbent="r1-c1")


def test_the_dominating_bottleneck_comes_with_its_line_and_its_share() -> None:
    (hint,) = hints_of(one_kernel(passed(BANK_CONFLICTS, DRAM)))
    assert hint.code == "bank_conflicts"
    assert hint.evidence == (
        "40% of the time at rows = cols = 1,024; "
        "line 24: `output[i] = tile[threadIdx.x][threadIdx.y];`; "
        "shared-memory bank conflicts: 32-way; next in line: DRAM bandwidth (68%)"
    )
    assert "Best first: pad the shared tile" in hint.text


def test_a_technique_the_source_uses_already_is_not_advised() -> None:
    padded = UNPADDED.replace("[TILE][TILE]", "[TILE][TILE + 1]")
    assert padded != UNPADDED
    (hint,) = hints_of(one_kernel(passed(BANK_CONFLICTS), padded))
    assert "pad the shared tile" not in hint.text
    assert "swizzle" in hint.text


def test_figures_rule_out_what_cannot_help() -> None:
    (hint,) = hints_of(one_kernel(passed(DRAM)))
    assert any("more occupancy" in one for one in hint.avoid)
    assert not any("full" in one for one in hint.avoid), "occupancy is a fact of the hardware"
    assert "coalescing further: every byte fetched is used" in hint.avoid
    assert "padding shared memory: bank conflicts take no time" in hint.avoid


def test_padding_is_not_ruled_out_where_bank_conflicts_take_time() -> None:
    (hint,) = hints_of(one_kernel(passed(DRAM, BANK_CONFLICTS)))
    assert not any("bank conflicts" in one for one in hint.avoid)


def test_a_kernel_that_changed_several_things_at_once_condemns_none_of_them() -> None:
    winner = attempt("r1-c1", 2.0)
    slower = {"parent": "r1-c1", "kind": Kind.IMPROVE}
    one = attempt("r2-c1", 1.0, direction="pad the tile", **slower)
    several = attempt("r2-c2", 1.0, direction="use streaming stores", **slower)
    padded = UNPADDED.replace("[TILE][TILE]", "[TILE][TILE + 1]")
    streamed = padded.replace("= tile[", "= __ldg(&input[0]) + tile[").replace(
        "for (int i = 0; i < TILE; i += ROWS) {", "#pragma unroll\n    for (int i = 0; i < TILE;) {"
    )
    found = judged(
        (winner, UNPADDED, passed(DRAM)),
        (one, padded, passed()),
        (several, streamed, passed()),
        incumbent="r1-c1",
    )
    hint = hints_of(found)[0]
    assert any("pad the tile" in avoided for avoided in hint.avoid)
    assert not any("streaming stores" in avoided for avoided in hint.avoid)


def test_a_grid_that_does_not_fill_the_chip_leaves_occupancy_to_gain() -> None:
    small = passed(DRAM)
    assert small.profile
    launch = replace(
        small.profile.launches[0],
        grid=(84, 1, 1),
        figures={**small.profile.launches[0].figures, "blocks_per_sm": 6.0},
    )
    (hint,) = hints_of(
        one_kernel(replace(small, profile=replace(small.profile, launches=(launch,))))
    )
    assert not any("occupancy" in one for one in hint.avoid)
    assert "fewer_blocks" in hint.rules_out


def test_figures_of_the_hardware_stand_apart() -> None:
    (hint,) = hints_of(one_kernel(passed(DRAM)))
    assert "80% of 1,008 GB/s" in hint.hardware_evidence
    assert "33.6 MB" in hint.hardware_evidence
    shown = hint.text + hint.evidence + "".join(hint.avoid)
    assert "1,008" not in shown
    assert "37.0 us" not in shown


def test_a_technique_is_offered_only_where_the_gpu_has_it() -> None:
    latency = Bottleneck(code="latency", share=0.6, explanation="warps wait 9.0 us")
    found = one_kernel(passed(latency), "")
    task = load_task("matrix_multiplication")
    found = replace(found, task=task, sizes=task.sizes.emulated[:2])
    (on_ampere,) = hints_of(found)
    (on_turing,) = hints_of(replace(found, hardware=find_hardware("GTX 1660 SUPER")))
    assert "asynchronous copies" in on_ampere.hardware_text
    assert "asynchronous copies" not in on_ampere.text
    assert "asynchronous copies" not in on_turing.hardware_text


def test_what_was_tried_in_vain_is_listed_and_what_gained_is_not() -> None:
    winner = attempt("r1-c1", 2.0)
    tries = [
        attempt("r2-c1", 2.0, parent="r1-c1", kind=Kind.IMPROVE, direction="unroll the loop"),
        attempt("r2-c2", 1.0, parent="r1-c1", kind=Kind.IMPROVE, direction="use larger tiles"),
        attempt("r2-c3", 2.9, parent="r1-c1", kind=Kind.IMPROVE, direction="pad the tile"),
    ]
    kept: list[tuple[Attempt, str, Passed]] = [(winner, "", passed(DRAM))]
    kept += [(one, "", passed()) for one in tries]
    hint = hints_of(judged(*kept, incumbent="r1-c1"))[0]
    assert hint.about == "r1-c1"
    assert "use larger tiles (tried: 50% slower)" in hint.avoid
    assert "unroll the loop (tried: no faster)" in hint.avoid
    assert not any("pad the tile" in one for one in hint.avoid)


def test_a_kernel_at_the_hardware_limit_gets_that_hint_instead() -> None:
    winner = attempt("r1-c1", 30.0, times_us=(3.6, 10.7))
    (hint,) = hints_of(judged((winner, UNPADDED, passed(BANK_CONFLICTS)), incumbent="r1-c1"))
    assert hint.code == "hardware_limit"
    assert "bytes of the task need" in hint.text
    assert "99%" in hint.hardware_text
    assert "%" not in hint.text


def test_only_the_incumbent_gets_the_hint_of_the_hardware_limit() -> None:
    near = [attempt(f"r1-c{n}", 30.0, times_us=(3.4, 10.4)) for n in (1, 2)]
    found = judged(*((one, "", passed(DRAM)) for one in near), incumbent="r1-c1")
    assert [hint.about for hint in hints_of(found)] == ["r1-c1"]


def test_spilled_registers_get_a_hint_of_their_own() -> None:
    spilled = KernelResources(
        kernel="transpose", symbol="t", registers=255, shared_bytes=0, spill_store_bytes=64
    )
    hints = hints_of(one_kernel(passed(DRAM, resources=(spilled,))))
    assert [hint.code for hint in hints] == ["dram_bandwidth", "register_spills"]
    assert "255" in hints[1].hardware_text


def test_no_line_of_a_playbook_is_quoted() -> None:
    (hint,) = hints_of(one_kernel(passed(BANK_CONFLICTS), written_by="playbook"))
    assert "tile[" not in hint.evidence
    assert "line 24" in hint.evidence


def test_a_bottleneck_of_another_profiler_is_described_by_its_own_words() -> None:
    other = Bottleneck(code="texture_cache", share=0.5, explanation="", advice="use fewer textures")
    (hint,) = hints_of(one_kernel(passed(other)))
    assert hint.text == "Limited by texture cache. Best first: use fewer textures."


def test_the_incumbent_comes_first_and_few_others_follow() -> None:
    kept = [(attempt(f"r1-c{n}", float(n)), "", passed(DRAM)) for n in range(1, 7)]
    hints = hints_of(judged(*kept, incumbent="r1-c4"))
    assert [hint.about for hint in hints] == ["r1-c4", "r1-c6", "r1-c5"]
