"""What a direction gains of the score: weighed over the sizes, less what it costs, and never
promised again where attempts refuted it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cuda_llm.agents.limits import BOTTLENECK_TEXTS
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.techniques.catalogue import CATALOGUE, CHANGES
from cuda_llm.agents.techniques.directions import VARIATIONS, find_directions
from cuda_llm.agents.techniques.gains import gain_expected, gain_of, savings_of
from cuda_llm.agents.techniques.objections import sensible_techniques
from cuda_llm.agents.techniques.refuted import withdrawals
from cuda_llm.agents.techniques.technique import Technique
from cuda_llm.capabilities import Capabilities
from cuda_llm.components import HardwareContext
from cuda_llm.figure_wording import describe_withdrawal
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode, Passed, Verdict
from cuda_llm.predictions import Prediction, Refutation
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile, SizeProfile
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Hint, Kind
from cuda_llm.tasks.loader import load_task

TIMES_US = (20.0, 30.0, 50.0, 100.0, 200.0)
PLAIN = "__global__ void f(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }"


class Kernels:
    """An archive of sources and verdicts."""

    def __init__(self, sources: Mapping[str, str], verdicts: Mapping[str, Verdict]) -> None:
        self.sources, self.verdicts = sources, verdicts

    def source(self, attempt: str) -> str:
        return self.sources.get(attempt, "")

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts.get(attempt, NoCode(message="none"))


def launch(**figures: float) -> LaunchProfile:
    return LaunchProfile(
        kernel="f",
        grid=(16, 1, 1),
        block=(256, 1, 1),
        shared_bytes=0,
        occupancy=0.5,
        time_us=10.0,
        terms_us={"latency": 10.0},
        figures={"blocks_per_sm": 8.0, **figures},
    )


def slow(code: str, share: float) -> Bottleneck:
    return Bottleneck(code=code, share=share, explanation="it is slow", saved_us=share, time_us=1.0)


def passed(name: str = "r1-c1", *, faster: float = 1.0, **changes: object) -> Attempt:
    plain = Attempt(
        id=name,
        round=1,
        index=1,
        kind=Kind.FIRST,
        written_by="model",
        code="PASSED",
        speedup=4.0 * faster,
        times_us=tuple(one / faster for one in TIMES_US),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def profile(*at_sizes: Mapping[str, float], figures: Mapping[str, float] | None = None) -> Profile:
    """A modelled profile with those bottlenecks at each size, the largest last."""
    launches = (launch(**(figures or {})),)
    found = [tuple(slow(*pair) for pair in one.items()) for one in at_sizes]
    return Profile(
        device="d",
        hardware="h",
        source="modelled",
        launches=launches,
        bottlenecks=found[-1],
        smaller=tuple(
            SizeProfile(size=at, launches=launches, bottlenecks=one)
            for at, one in enumerate(found[:-1])
        ),
    )


def situation(
    *attempts: tuple[Attempt, Profile], context: HardwareContext = "name", task: str = "reduction"
) -> Situation:
    loaded = load_task(task)
    kernels = Kernels(
        {one.id: PLAIN for one, _ in attempts},
        {one.id: Passed(profile=found) for one, found in attempts},
    )
    return Situation(
        task=loaded,
        hardware=find_hardware("rtx_3090_ti"),
        device="a device",
        capabilities=Capabilities(full_isa=False),
        config=RunConfig(hardware_context=context),
        round=2,
        attempts=tuple(one for one, _ in attempts),
        incumbent=attempts[0][0],
        sizes=tuple(loaded.sizes.bench),
        baseline_us=tuple(4.0 * one for one in TIMES_US),
        archive=kernels,
    )


def technique(text: str) -> Technique:
    return next(one for one in CHANGES if one.text.startswith(text))


FILLS = technique("smaller blocks")
SPLITS = technique("split the longest dimension")


def test_a_bottleneck_of_one_size_gains_what_that_size_weighs_in_the_score() -> None:
    at = situation((passed(), profile({"tail": 0.5}, {}, {}, {}, {})))
    gain = gain_of(at, passed(), FILLS, savings_of(at, passed()))
    assert gain.code == "tail"
    assert gain.sizes == (0,)
    assert gain.share == pytest.approx(1 - 0.5 ** (1 / 5))


def test_one_more_launch_is_taken_off_at_every_size_and_a_loss_counts_as_no_gain() -> None:
    at = situation((passed(), profile(*[{"tail": 0.2}] * 5)))
    savings = savings_of(at, passed())
    whole, net = (gain_of(at, passed(), one, savings) for one in (FILLS, SPLITS))
    launch_us = at.hardware.model.launch_us
    assert launch_us / TIMES_US[0] > 0.04
    assert whole.share == pytest.approx(0.2)
    assert 0 < net.share < whole.share
    costly = replace(at.hardware, model=replace(at.hardware.model, launch_us=1000.0))
    assert gain_of(replace(at, hardware=costly), passed(), SPLITS, savings).share == 0.0


def test_a_hidden_gpu_costs_nothing() -> None:
    at = situation((passed(), profile(*[{"tail": 0.2}] * 5)), context="none")
    assert gain_of(at, passed(), SPLITS, savings_of(at, passed())).share == pytest.approx(0.2)


def test_no_size_saves_more_than_is_left_until_the_attainable_time() -> None:
    near = passed(times_us=(1e-3,) * 5)
    at = situation((near, profile(*[{"tail": 0.9}] * 5)), context="full")
    far = situation((passed(), profile(*[{"tail": 0.9}] * 5)), context="full")
    assert savings_of(at, near)["tail"] == pytest.approx((0.9,) * 5)  # it works from the cache
    assert max(savings_of(far, passed())["tail"]) <= 0.9
    tight = passed(times_us=(4.0,) * 5)
    held = situation((tight, profile(*[{"tail": 0.9}] * 5)), context="full")
    assert max(savings_of(held, tight)["tail"]) < 0.9


def test_what_gains_next_to_nothing_is_not_offered_beside_what_gains() -> None:
    both = profile(*[{"latency": 0.4, "tail": 0.0}] * 4, {"latency": 0.4, "issue": 0.1})
    at = situation((passed(), both))
    found = find_directions(at, Kind.IMPROVE, 4)
    assert {one.against for one in found if one.share} == {"latency"}
    assert all(one.share >= 0.05 for one in found if one.share)


def test_a_critique_gains_at_other_sizes_no_more_than_its_bottleneck_costs_there() -> None:
    sizes = profile({}, {}, {}, {"latency": 0.1}, {"latency": 0.5})
    at = situation((passed(), sizes))
    gain = gain_expected(at, passed(), "latency", 0.3, savings_of(at, passed()))
    assert gain.sizes == (3, 4)
    assert gain.share == pytest.approx(1 - (0.9 * 0.7) ** (1 / 5))


def ordered(name: str, code: str, faster: float) -> Attempt:
    """A kernel made from r1-c1 by an order against a bottleneck."""
    asked = Prediction(code=code, time_us=200.0, saved_us=100.0, had_us=0.0)
    return passed(name, faster=faster, kind=Kind.IMPROVE, parent="r1-c1", predicted=asked)


IDLE = profile(*[{"tail": 0.6, "latency": 0.1}] * 5)
FULL = profile(*[{"latency": 0.1}] * 5)


def test_a_bottleneck_that_is_gone_in_vain_is_promised_no_more() -> None:
    at = situation((passed(), IDLE), (ordered("r2-c1", "tail", 0.98), FULL))
    (one,) = withdrawals(at, passed())
    assert (one.code, one.why, one.attempt) == ("tail", Refutation.GONE_IN_VAIN, "r2-c1")
    assert one.promised == pytest.approx(0.6)
    assert "r2-c1 is rid of it, 60% promised" in describe_withdrawal(one)
    assert "tail" not in {one.against for one in find_directions(at, Kind.IMPROVE, 5)}


def test_one_order_in_vain_that_left_the_bottleneck_there_withdraws_nothing_two_do() -> None:
    once = situation((passed(), IDLE), (ordered("r2-c1", "tail", 1.0), IDLE))
    assert withdrawals(once, passed()) == ()
    twice = situation(
        *((passed(), IDLE), (ordered("r2-c1", "tail", 1.0), IDLE)),
        (ordered("r2-c2", "tail", 1.01), IDLE),
    )
    assert [one.why for one in withdrawals(twice, passed())] == [Refutation.TRIED_TWICE]


def test_what_came_true_or_was_tried_on_another_structure_is_promised_again() -> None:
    true = situation((passed(), IDLE), (ordered("r2-c1", "tail", 2.0), FULL))
    assert withdrawals(true, passed()) == ()
    other = passed("r1-c2")
    at = situation((passed(), IDLE), (ordered("r2-c1", "tail", 0.98), FULL), (other, IDLE))
    assert [one.code for one in withdrawals(at, other)] == ["tail"]
    shuffled = PLAIN.replace("in[threadIdx.x];", "__shfl_xor_sync(~0u, in[threadIdx.x], 1);")
    kernels = Kernels(
        {"r1-c1": PLAIN, "r2-c1": PLAIN, "r1-c2": shuffled},
        {one.id: at.archive.verdict(one.id) for one in at.attempts},
    )
    assert withdrawals(replace(at, archive=kernels), other) == ()


def test_a_technique_that_came_to_nothing_is_not_ordered_of_kernels_of_that_structure() -> None:
    other = passed("r1-c2")
    tried = replace(ordered("r2-c1", "tail", 1.0), direction=FILLS.text)
    at = situation((passed(), IDLE), (tried, IDLE), (other, IDLE))
    found = find_directions(at, Kind.IMPROVE, 6, parent=other)
    assert FILLS.text not in {one.text for one in found}
    helped = replace(tried, speedup=8.0)
    again = replace(at, attempts=(passed(), helped, other))
    assert FILLS.text in {one.text for one in find_directions(again, Kind.IMPROVE, 6, parent=other)}


def test_a_kernel_at_the_limit_gets_no_order_again_that_made_it_no_faster() -> None:
    at_the_limit = profile(*[{}] * 5)
    tried = replace(ordered("r2-c1", "tail", 1.0), direction=FILLS.text, predicted=None)
    at = situation((passed(), at_the_limit), (tried, at_the_limit))
    assert FILLS.text not in {one.text for one in find_directions(at, Kind.IMPROVE, 40)}
    fresh = replace(at, attempts=(passed(),))
    assert FILLS.text in {one.text for one in find_directions(fresh, Kind.IMPROVE, 40)}


PAIRS = {
    "more_blocks": ("smaller blocks", "split the longest dimension"),
    "fewer_blocks": ("more work a thread and a smaller grid", "more elements a thread"),
    "occupancy": ("another block size",),
    "wide_accesses": ("make every global access a 16-byte vector",),
    "coalescing": ("let neighbouring threads touch neighbouring addresses",),
    "padding": ("pad the shared tile", "swizzle the shared tile"),
    "less_divergence": ("let whole warps take one branch",),
    "more_in_flight": ("several independent loads a thread",),
}
"""Techniques that a hint speaks against which rules out an aim."""


@pytest.mark.parametrize("aim", PAIRS)
def test_a_hint_and_a_direction_of_one_prompt_agree(aim: str) -> None:
    at = situation((passed(), profile(*[{"latency": 0.4}] * 5)))
    hint = Hint(round=1, about="r1-c1", code="latency", text="No.", rules_out=(aim,))
    for start in PAIRS[aim]:
        assert aim in technique(start).aims
        assert technique(start) not in sensible_techniques(at, Kind.IMPROVE, passed(), (hint,))
    assert any(aim in one.aims for one in CATALOGUE)
    aims = {one.text: one.aims for one in CATALOGUE} | {one.text: one.aims for one in VARIATIONS}
    for one in find_directions(at, Kind.IMPROVE, 40, hints=(hint,)):
        assert not [text for text in aims if text in one.text and aim in aims[text]]


def test_every_bottleneck_that_speaks_against_something_names_what_for_techniques() -> None:
    silent = {code for code, text in BOTTLENECK_TEXTS.items() if text.no_use and not text.refuses}
    assert silent == {"local_memory"}


SEEN = {
    "padding": {"worst_bank_ways": 1.0},
    "coalescing": {"useful_byte_share": 1.0},
    "wide_accesses": {"useful_byte_share": 1.0, "ideal_sectors_per_request": 16.0},
    "less_divergence": {"simd_efficiency": 1.0},
}
"""Figures of a launch by the aim that they say is reached."""


@pytest.mark.parametrize("aim", SEEN)
def test_what_the_accesses_of_a_launch_show_is_not_offered(aim: str) -> None:
    without, seen = (
        situation((passed(), profile({}, {}, {}, {}, {"latency": 0.4}, figures=figures)))
        for figures in ({}, SEEN[aim])
    )
    wanted = [one for one in CHANGES if aim in one.aims and not one.needs_shared]
    offered = sensible_techniques(without, Kind.IMPROVE, passed(), ())
    assert [one for one in wanted if one in offered] == wanted
    assert not set(wanted) & set(sensible_techniques(seen, Kind.IMPROVE, passed(), ()))


def test_a_kernel_that_moves_each_byte_once_is_not_asked_to_keep_what_it_reads_again() -> None:
    keeps = technique("what a second pass reads again")
    task = load_task("softmax")
    least = 8.0 * task.sizes.bench[-1]["rows"] * task.sizes.bench[-1]["cols"]
    twice, once = (
        situation(
            (passed(), profile(*[{"dram_bandwidth": 0.4}] * 5, figures={"l2_bytes": moved})),
            task="softmax",
        )
        for moved in (1.5 * least, 1.05 * least)
    )
    assert keeps in sensible_techniques(twice, Kind.IMPROVE, passed(), ())
    assert keeps not in sensible_techniques(once, Kind.IMPROVE, passed(), ())
