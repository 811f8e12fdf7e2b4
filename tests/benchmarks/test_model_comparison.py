"""What two strategies reached with one model: from the recorded prompts and replies alone."""

import json
import math
from itertools import pairwise

import pytest
from model_comparison import ARMS, CRITIQUE, FOLDER, Line, read_lines, summarise_all, summarise_arm

RECORDED = json.loads((FOLDER.parent / "model_comparison.json").read_text())
FILES = sorted(FOLDER.glob("*.jsonl"))


def line(round_: int, name: str, speedup: float | None, *, prompt: str = "asked") -> Line:
    code = "" if name == CRITIQUE else "PASSED" if speedup else "WRONG_RESULT"
    return Line(
        id=name,
        round=round_,
        prompt=prompt,
        reply=prompt,
        direction="",
        code=code,
        speedup=speedup,
        times_us=(),
    )


def test_the_figures_follow_from_the_recorded_files() -> None:
    figures = json.loads(json.dumps(summarise_all(FOLDER)))
    assert {name: RECORDED[name] for name in figures} == figures


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_call_is_kept_with_its_prompt_and_its_reply(path: object) -> None:
    lines = read_lines(path)  # type: ignore[arg-type]
    calls = [one for one in lines if one.is_call]
    assert all(one.reply for one in calls)
    # Not one reply stands for two candidates.
    kernels = [one.reply for one in calls if one.code]
    assert len(set(kernels)) == len(kernels) >= 8


def test_both_strategies_begin_with_the_same_prompts() -> None:
    """Round one knows of nothing yet: what differs later comes of feedback."""
    for task in RECORDED["at_equal_calls"]:
        first = {
            arm: [
                (one.prompt, one.reply)
                for one in read_lines(FOLDER / f"{task}_{arm}.jsonl")
                if one.round == 1 and one.is_call and one.code
            ]
            for arm in ARMS
        }
        assert first["fsr"] == first["best-of-n"]


def test_a_critique_is_a_call_and_trials_count_with_the_last_kernel_of_their_round() -> None:
    lines = [
        line(1, "r1-c1", 2.0),
        line(1, "r1-c2", None),
        line(1, "r1-t1", 3.0, prompt=""),
        line(1, CRITIQUE, None),
        line(2, "r2-c1", 8.0),
    ]
    found = summarise_arm(lines)
    assert found["best_after_call"] == [2.0, 3.0, 3.0, 8.0]
    first, last = found["rounds"]
    assert (first["calls"], first["kernels"], first["passed"]) == (3, 2, 1)
    assert (first["best"], first["mean"], first["best_of_all"]) == (2.0, 2.0, 3.0)
    assert math.isclose(found["last_over_first"]["best_of_all"], 8 / 3)
    assert last["calls"] == 1


def test_the_best_after_each_call_never_falls() -> None:
    for arms in RECORDED["tasks"].values():
        for arm in arms.values():
            known = [one for one in arm["best_after_call"] if one is not None]
            assert all(one <= other for one, other in pairwise(known))
