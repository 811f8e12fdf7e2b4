"""A run in words: every decision is shown once, and no text controls the terminal."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from recorded_run import ATTEMPTS, FIRST, HINT, OTHERS, REMEDY, beginning, ending, write_run

from cuda_llm.conversation import Call, Reply
from cuda_llm.errors import UsageError
from cuda_llm.predictions import Refutation, Withdrawal
from cuda_llm.search import Kind
from cuda_llm.traces.candidate_text import describe_candidate
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.events import (
    AttemptJudged,
    BaselineJudged,
    Event,
    HintGiven,
    IncumbentChosen,
    ModelCalled,
    RoundBegan,
    RunFinished,
    RunResumed,
    RunStarted,
    StageEntered,
)
from cuda_llm.traces.run_text import describe_run
from cuda_llm.traces.summary import summarise
from cuda_llm.traces.text import WIDTH

DEPART = dataclasses.replace(REMEDY, kind=Kind.DEPART)
NASTY = "\x1b[2J\x1b]0;title\x07 \u202ereversed \x9b31m"
Shown = Callable[..., str]


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    """The text of a run that recorded these events."""

    def text_of(*events: Event) -> str:
        return "\n".join(describe_run(write_run(tmp_path / "a-run", *events)))

    return text_of


def in_order(text: str, *parts: str) -> bool:
    """Whether the parts stand in the text one after another."""
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
    return True


def flat(text: str) -> str:
    """Without line ends and indents."""
    return " ".join(text.split())


def test_a_run_on_a_gpu_shows_the_isolation_of_its_runners(shown: Shown) -> None:
    judged = BaselineJudged(sizes=(), times_us=(), isolation="no namespaces; seccomp")
    assert "isolation no namespaces; seccomp" in flat(shown(beginning()[0], judged))


def test_a_finished_run_is_shown_from_the_request_to_the_reason_of_the_winner(shown: Shown) -> None:
    text = flat(shown(*beginning(), *ending()))
    assert in_order(
        text,
        "run a-run",
        "matrix_transpose",
        "emulated RTX 3090 Ti (times are modelled)",
        "2 rounds of 3 candidates by llm asking a-model; strategy fsr, seed 7",
        "A note for the user.",
        "rows = 512, cols = 512: 10.0 us",
        "hardware_research - Two tiles fit.",
        "mine failed: ValueError: no luck",
        "round 1 · to beat: the baseline",
        "r1-c1 to write a kernel: one thread an element",
        "PASSED 1.25x the baseline's speed over all sizes, limited by uncoalesced global accesses",
        'COMPILE_FAILED identifier "tile" is undefined',
        "cut off at compile: the minutes of the run were over",
        "try 1 failed, rate_limited; waited 2.0 s",
        "candidates/r1-c3: server_error after 4 tries: 500 four times",
        "learned speed, uncoalesced_global from r1-c1 (by diagnosis): Let neighbouring",
        "seen: out[x * rows + y]: 32 sectors a request",
        "the baseline -> r1-c1: the first kernel that passed",
        "round 2 · to beat: r1-c1",
        "to fix r1-c2: keep the tiles",
        "tuned r2-c1: tried r2-t1; no gain",
        "r1-c1 -> r2-c1: 3.50x is more than 1.25x",
        "r1-c1: slower",
        "the run ended: its rounds were done",
        "2 calls, 1.2k tokens in, 300 out, $0.01, 1 of them in vain",
        "r2-c1 (a short name), written by model: 3.40x the baseline's speed over all sizes",
        "once more, in a fresh process on new inputs: PASSED, 3.40x over all sizes",
        "candidates/r2-c1/source.cu",
    ), text


def test_a_choice_tells_who_stays_and_why(tmp_path: Path) -> None:
    why = "nothing of this round passed"
    chosen = IncumbentChosen(round=2, before="r1-c1", incumbent="r1-c1", reason=why)
    run = write_run(tmp_path / "a-run", *beginning(), *ending()[:4], chosen)
    text = flat("\n".join(describe_run(run)))
    assert "to beat r1-c1 stays: nothing of this round passed" in text


def test_briefs_of_a_playbook_are_described_as_its_own_picks(tmp_path: Path) -> None:
    picked = [dataclasses.replace(one, direction="") for one in (FIRST, DEPART)]
    judged = dataclasses.replace(ATTEMPTS[0], direction="", written_by="playbook", idea="TILE 32")
    began = RoundBegan(round=1, incumbent=None, briefs=tuple(picked))
    started = beginning()[0]
    assert isinstance(started, RunStarted)
    started = dataclasses.replace(started, generator="playbook", model="")
    run = write_run(tmp_path / "a-run", started, began, AttemptJudged(attempt=judged))
    text = flat("\n".join(describe_run(run)))
    assert in_order(
        text,
        "r1-c1 picked from the playbook",
        "point: TILE 32",
        "r2-c1 picked from the playbook, to beat r1-c2 with another structure",
    ), text
    assert "to write" not in text


@pytest.mark.parametrize(
    ("speedup", "words"),
    [(0.5, "slower than the baseline"), (1.0, "a tie"), (3.4, "")],
)
def test_a_winner_that_is_no_faster_than_the_baseline_is_called_so(
    speedup: float, words: str, shown: Shown
) -> None:
    *before, end = ending()
    assert isinstance(end, RunFinished)
    text = shown(*beginning(), *before, dataclasses.replace(end, speedup=speedup))
    said = [one for one in ("slower than the baseline", "a tie") if one in text]
    assert said == [words] * bool(words)
    assert ("more --rounds" in text) == bool(words)


def test_lines_fit_a_hundred_columns(shown: Shown) -> None:
    long = dataclasses.replace(HINT, text="Say it again. " * 40, evidence="a_name_" * 60)
    text = shown(*beginning(), HintGiven(channel="error_hints", hint=long), *ending())
    own = [one for one in text.splitlines() if not one.endswith(".cu") and "cuda-llm" not in one]
    assert max(map(len, own)) <= WIDTH


def test_no_text_of_a_kernel_or_a_model_controls_the_terminal(shown: Shown) -> None:
    hint = dataclasses.replace(HINT, text=NASTY, evidence=NASTY + "\nnext line")
    judged = dataclasses.replace(ATTEMPTS[1], summary=NASTY, idea=NASTY, direction=NASTY)
    text = shown(
        *beginning(),
        HintGiven(channel="error_hints", hint=hint),
        AttemptJudged(attempt=judged),
        StageEntered(candidate=NASTY, stage=NASTY),
    )
    assert "reversed" in text
    assert all(line.isprintable() for line in text.splitlines())


def test_a_run_under_way_shows_the_stage_of_each_candidate(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning()[:6])
    record = Recorder(run.events)
    text = flat("\n".join(describe_run(run)))
    record.close()
    assert in_order(text, "r1-c1", "at generate now", "r1-c2", "waiting now", "is under way")
    killed = flat("\n".join(describe_run(run)))
    assert in_order(
        killed, "was at generate at the end", "was killed", f"cuda-llm resume {run.path}"
    )


def test_an_interrupted_run_shows_why_and_how_to_go_on(shown: Shown, tmp_path: Path) -> None:
    text = flat(shown(*beginning(), OTHERS[2]))
    assert in_order(text, "round 2: interrupted", f"cuda-llm resume {tmp_path}/a-run")
    assert "best so far r1-c1" in text


def test_what_a_resumed_run_records_again_counts_once(shown: Shown) -> None:
    again = beginning()[4:]
    text = shown(*beginning(), OTHERS[2], RunResumed(round=1), *again, *ending())
    assert text.count("round 1 ·") == 1
    assert text.count("to write a kernel: one thread an element") == 1
    assert text.count("Let neighbouring threads") == 1
    assert "resumed" in text
    assert "the run stopped" not in text


def test_a_forked_run_names_its_origin(shown: Shown) -> None:
    text = shown(beginning()[0], OTHERS[0])
    assert "from another-run after round 1, with edited hints" in text


def test_a_run_without_a_winner_says_so(shown: Shown) -> None:
    end = RunFinished(reason="rounds", best=None)
    text = shown(*beginning()[:5], end)
    assert "no candidate passed; the baseline stands" in text


def test_a_run_that_has_not_begun_says_so(shown: Shown) -> None:
    assert "nothing has happened yet" in shown()


def test_skipped_lines_are_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    with run.events.open("a") as file:
        file.write('{"v": 1, "seq"\n')
        file.write('{"v": 9, "seq": 3, "at": "", "kind": "run_resumed"}\n')
    text = "\n".join(describe_run(run))
    assert "1 line of the trace cut off or damaged" in text
    assert "1 line of the trace written by a newer cuda-llm" in text


@pytest.mark.parametrize(
    ("events", "state", "best", "speedup"),
    [
        ((*beginning(), *ending()), "finished", "r2-c1", 3.4),
        (beginning(), "killed", "r1-c1", 1.25),
        ((*beginning(), OTHERS[2]), "interrupted", "r1-c1", 1.25),
        ((), "empty", None, None),
    ],
)
def test_a_summary_holds_the_state_of_a_run(
    tmp_path: Path,
    events: tuple[Event, ...],
    state: str,
    best: str | None,
    speedup: float | None,
) -> None:
    summary = summarise(write_run(tmp_path / "a-run", *events))
    assert (summary.state, summary.best, summary.speedup) == (state, best, speedup)


def test_spend_is_unknown_where_any_price_is(tmp_path: Path) -> None:
    dear = ModelCalled(
        call="x", agent="x", model="x", outcome="ok", input_tokens=1200, output_tokens=300
    )
    known = summarise(write_run(tmp_path / "a", *beginning())).spend
    unknown = summarise(write_run(tmp_path / "b", *beginning(), dear)).spend
    assert (known.calls, known.input_tokens, known.usd) == (2, 1200, 0.01)
    assert (unknown.calls, unknown.input_tokens, unknown.usd) == (3, 2400, None)


def test_what_each_agent_spent_is_shown(shown: Shown) -> None:
    other = ModelCalled(
        call="rounds/1/x/ask-1", agent="x", model="m", outcome="ok", input_tokens=70, usd=0.5
    )
    text = shown(*beginning(), other)
    assert "generator: 2 calls" in text
    assert "x: 1 call, 70 tokens in" in text


def test_a_candidate_is_shown_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    text = flat("\n".join(describe_candidate(run, "r2-c1")))
    assert in_order(
        text,
        "round 2, to fix r1-c2: keep the tiles",
        "COMPILE_FAILED, from r1-c2: Declare every name.",
        "written by model",
        "PASSED",
        "rows = 512, cols = 512: 2.86 us, baseline 10.0 us, 3.50x",
        "32 sectors a request; 70% of the time",
        "__global__ void transpose",
    ), text
    asked = flat("\n".join(describe_candidate(run, "r1-c1")))
    assert in_order(asked, "prompt.md", "a-model, 300 tokens in 3.2 s, $0.01", "reply.md")
    refused = flat("\n".join(describe_candidate(run, "r1-c3")))
    assert "no kernel (truncated): cut off at its limit" in refused
    failed = flat("\n".join(describe_candidate(run, "r1-c2")))
    assert 'COMPILE_FAILED identifier "tile" is undefined' in failed


def test_what_a_generator_of_ones_own_asked_is_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path, *beginning())
    call = Call(id="candidates/r1-c1/ask-1", agent="own", messages=())
    run.write_prompt(call)
    open_ = "\n".join(describe_candidate(run, "r1-c1"))
    run.write_reply(call.id, Reply(text="done"))
    answered = "\n".join(describe_candidate(run, "r1-c1"))
    assert "without an answer" in open_
    assert "ask-1/prompt.md" in open_
    assert "ask-1/reply.md" in answered


def test_an_unknown_candidate_is_refused_with_a_list_of_the_known(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    with pytest.raises(UsageError, match="it has r1-c1, r1-c2, r1-c3, r2-c1"):
        list(describe_candidate(run, "r9-c9"))


def test_a_candidate_whose_call_never_ended_says_so(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    (run.candidate("r1-c1") / "reply.json").unlink()
    text = "\n".join(describe_candidate(run, "r1-c1"))
    assert "the call never ended" in text


def test_a_withdrawn_promise_stands_with_its_reason_beside_the_brief(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning())
    refuted = Withdrawal(
        code="tail", why=Refutation.GONE_IN_VAIN, attempt="r1-c3", promised=0.68, had=-0.02
    )
    run.write_brief(dataclasses.replace(REMEDY, withdrawn=(refuted,)))
    text = flat("\n".join(describe_candidate(run, "r2-c1")))
    assert "uneven last wave: r1-c3 is rid of it, 68% promised, -2% had" in text
