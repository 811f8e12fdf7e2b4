from collections.abc import Mapping, Sequence
from dataclasses import replace

from playbook_runs import PLAYBOOK, bowl
from searches import EmptyArchive, attempt, situation

from cuda_llm.agents.playbook.tuner import TunableTuner
from cuda_llm.agents.protocols import Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import LaunchProfile, Profile, SizeProfile, TimeSource
from cuda_llm.search import Attempt, Kind
from cuda_llm.source_tokens import normal_sha

OTHER = "#define N 1  // tunable: 1 2 3\nint n = N;\n"


class Sources(EmptyArchive):
    """Sources by attempt."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.sources = sources

    def source(self, attempt: str) -> str:
        return self.sources.get(attempt, "")


def after(
    attempts: Sequence[Attempt], sources: Mapping[str, str], incumbent: str | None = None
) -> Situation:
    return situation(*attempts, incumbent=incumbent, archive=Sources(sources), round=1)


def judged(trials: Sequence[Trial], round: int) -> list[Attempt]:
    """The trials as attempts, at the bowl's times."""
    return [
        attempt(
            f"r{round}-t{index}",
            bowl(trial.draft.tunables),
            kind=Kind.TUNE,
            parent=trial.parent,
            index=index + 5,
            tunables=trial.draft.tunables,
        )
        for index, trial in enumerate(trials, 1)
    ]


def test_the_best_kernels_that_declare_tunables_are_tried_in_turns() -> None:
    attempts = [attempt("r1-c1", 3.0), attempt("r1-c2", 2.0), attempt("r1-c3", 1.0)]
    where = after(attempts, {"r1-c1": "int x;", "r1-c2": OTHER, "r1-c3": PLAYBOOK})
    trials = TunableTuner().propose(where, attempts, 6)
    assert [one.parent for one in trials] == ["r1-c2", "r1-c3"] * 2 + ["r1-c3"] * 2
    assert sorted(one.draft.tunables["N"] for one in trials if one.parent == "r1-c2") == [2, 3]
    assert len({one.draft.source for one in trials}) == 6


def test_a_trial_can_be_tuned_again() -> None:
    attempts = [attempt("r1-c1", 3.0)]
    (trial,) = TunableTuner().propose(after(attempts, {"r1-c1": PLAYBOOK}), attempts, 1)
    space = read_space(trial.draft.source)
    assert isinstance(space, Space)
    assert space.defaults == trial.draft.tunables
    assert trial.draft.idea.startswith("VARIANT ")


def test_the_same_situation_gives_the_same_trials_and_another_round_others() -> None:
    attempts = [attempt("r1-c1", 3.0)]
    where = after(attempts, {"r1-c1": PLAYBOOK})
    assert TunableTuner().propose(where, attempts, 8) == TunableTuner().propose(where, attempts, 8)
    later = replace(where, round=2)
    assert TunableTuner().propose(later, attempts, 8) != TunableTuner().propose(where, attempts, 8)


def test_the_family_of_the_incumbent_is_searched_on_in_later_rounds() -> None:
    """Three rounds of trials, none of them twice, come near the bottom of the bowl."""
    root = attempt("r1-c1", bowl({"VARIANT": 0, "TILE": 8, "ITEMS": 1, "WIDTH": 1}))
    attempts, sources = [root], {"r1-c1": PLAYBOOK}
    for round in (1, 2, 3):
        best = max(attempts, key=lambda one: one.speedup or 0)
        where = replace(after(attempts, sources, incumbent=best.id), round=round)
        trials = TunableTuner().propose(where, [root] if round == 1 else [], 8)
        assert {one.parent for one in trials} == {"r1-c1"}
        attempts += judged(trials, round)
    points = [tuple(one.tunables.values()) for one in attempts[1:]]
    assert len(set(points)) == len(points) == 24
    assert max(one.speedup or 0 for one in attempts) > 5


def test_kernels_of_the_playbook_that_failed_or_that_declare_badly_are_left_alone() -> None:
    attempts = [
        attempt("r1-c1", 3.0, written_by="playbook"),
        attempt("r1-c2"),
        attempt("r1-c3", 2.0),
        attempt("r1-c4", 1.0),
    ]
    bad = "#define A 3  // tunable: 1 2\n"
    sources = {"r1-c1": PLAYBOOK, "r1-c2": PLAYBOOK, "r1-c3": bad, "r1-c4": "int x;"}
    assert TunableTuner().propose(after(attempts, sources), attempts, 8) == ()


THREE = """\
#define MODE 1   // tunable: 1 2
#define SIDE 1   // tunable: 1 2 3
#define SMALL 1  // tunable: 1 2 3
int n = MODE * SIDE, m = SMALL;
"""


class Launched(Sources):
    """Kernels whose launches at the timed sizes do not depend on SMALL."""

    def __init__(self, attempts: Sequence[Attempt], source: TimeSource = "modelled") -> None:
        super().__init__({"r1-c1": THREE})
        self.points = {one.id: one.tunables for one in attempts}
        self.time_source = source

    def verdict(self, attempt: str) -> Verdict:
        point = self.points[attempt]
        launch = LaunchProfile(
            kernel="go",
            grid=(point.get("MODE", 1), point.get("SIDE", 1), 1),
            block=(32, 1, 1),
            shared_bytes=0,
            occupancy=1.0,
            time_us=1.0,
        )
        profile = Profile(
            device="any",
            hardware="any",
            source=self.time_source,
            launches=(launch,),
            smaller=(SizeProfile(size=0, launches=(launch,)),),
        )
        return Passed(profile=profile)


def tried_at(mode: int, side: int, small: int) -> Attempt:
    return attempt(
        f"r1-t{mode}{side}{small}",
        1.0 + mode,
        kind=Kind.TUNE,
        parent="r1-c1",
        index=100 * mode + 10 * side + small,
        tunables={"MODE": mode, "SIDE": side, "SMALL": small},
    )


def test_a_tunable_that_changes_no_launch_of_a_timed_size_is_left_alone() -> None:
    root, trial = attempt("r1-c1", 2.0), tried_at(1, 1, 2)

    def points(*judged: Attempt, source: TimeSource = "modelled") -> set[tuple[int, ...]]:
        where = situation(root, *judged, archive=Launched((root, *judged), source), round=1)
        trials = TunableTuner().propose(where, [root], 20)
        return {tuple(one.draft.tunables.values()) for one in trials}

    left = {(1, 2, 1), (1, 3, 1), (2, 1, 1), (2, 2, 1), (2, 3, 1)}
    assert points(trial) == left
    # What was tried with another value of it is not tried again with the first.
    assert points(trial, tried_at(1, 2, 3)) == left - {(1, 2, 1)}
    # Once the best has another structure it may be in use.
    assert len(points(trial, tried_at(2, 1, 1))) == 15
    # A trial that changed two shows nothing of either, and measured launches show no counts.
    assert len(points(tried_at(1, 2, 2))) == 16
    assert len(points(trial, source="measured")) == 16


def test_what_another_kernel_of_the_run_is_already_is_no_trial() -> None:
    again = OTHER.replace("N 1", "N 2  ").replace("int n", "// The same.\nint n")
    written = attempt("r1-c2", 1.0, normal_sha=normal_sha(again))
    attempts = [attempt("r1-c1", 3.0), written]
    (trial,) = TunableTuner().propose(after(attempts, {"r1-c1": OTHER}), attempts, 8)
    assert trial.draft.tunables == {"N": 3}


def test_a_space_that_is_used_up_gives_fewer_trials() -> None:
    attempts = [attempt("r1-c1", 3.0)]
    assert len(TunableTuner().propose(after(attempts, {"r1-c1": OTHER}), attempts, 8)) == 2
    assert TunableTuner().propose(after(attempts, {"r1-c1": OTHER}), attempts, 0) == ()


PLAIN = """
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
extern "C" void solve(const float* x, float* y, int n) { k<<<(n + 63) / 64, 64>>>(x, y, n); }
"""


def test_a_kernel_without_tunables_is_rewritten_only_where_that_is_asked() -> None:
    attempts = [attempt("r1-c1", 1.0)]
    where = after(attempts, {"r1-c1": PLAIN})
    assert TunableTuner().propose(where, attempts, 8) == ()
    trials = TunableTuner(rewrites=True).propose(where, attempts, 8)
    assert len({one.draft.source for one in trials}) == 8
    assert all(one.parent == "r1-c1" and one.draft.idea for one in trials)


def test_the_best_rewrite_is_rewritten_further() -> None:
    """Packs of four elements are twice as fast: most trials after the opening have them."""
    attempts, sources = [attempt("r1-c1", 1.0)], {"r1-c1": PLAIN}
    for round in (1, 2):
        best = max(attempts, key=lambda one: one.speedup or 0)
        where = replace(after(attempts, sources, incumbent=best.id), round=round)
        trials = TunableTuner(rewrites=True).propose(where, attempts[:1], 8)
        packs = [one.draft.tunables["vector_width"] == 4 for one in trials]
        attempts += [
            attempt(
                f"r{round}-t{index}",
                2.0 if pack else 1.0,
                kind=Kind.TUNE,
                parent="r1-c1",
                index=index + 5,
                round=round,
                tunables=trial.draft.tunables,
            )
            for index, (trial, pack) in enumerate(zip(trials, packs, strict=True))
        ]
    further = [one for one, pack in zip(trials, packs, strict=True) if pack]
    assert len(further) >= 5
    assert all("; " in one.draft.idea and "Pack<float, 4>" in one.draft.source for one in further)


def test_a_value_that_failed_three_times_in_one_way_is_tried_no_more() -> None:
    source = "#define WIDTH 1  // tunable: 1 2 4\n#define SIDE 1  // tunable: 1 2 3 4 5 6\nint n;\n"
    source += "int w = WIDTH, s = SIDE;\n"

    def tried(width: int, side: int, failure: str = "") -> Attempt:
        speedup = None if failure else 1.0
        one = attempt(f"r1-t{width}{side}", speedup, kind=Kind.TUNE, parent="r1-c1")
        code = "WRONG_RESULT" if failure else "PASSED"
        point = {"WIDTH": width, "SIDE": side}
        return replace(one, code=code, failure=failure, tunables=point)

    start = attempt("r1-c1", 1.0)
    same = [tried(4, side, "misaligned") for side in (1, 2, 3)]
    unlike = [tried(4, side, f"failure {side}") for side in (1, 2, 3)]
    for failed, widths in ((same, {1, 2}), (unlike, {1, 2, 4}), (same[:2], {1, 2, 4})):
        where = after([start, *failed, tried(1, 2)], {"r1-c1": source})
        trials = TunableTuner().propose(where, [start], 20)
        assert {one.draft.tunables["WIDTH"] for one in trials} == widths
