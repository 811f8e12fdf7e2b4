"""A run as the graph would leave it: every kind of event, written by the real recorder."""

from dataclasses import replace
from pathlib import Path

from cuda_llm.conversation import Call, Message, Reply, Usage
from cuda_llm.outcomes import CompileFailed, NoCode, Passed
from cuda_llm.profile import Bottleneck, Profile, SizeTime
from cuda_llm.search import Attempt, Brief, Draft, Hint, Kind
from cuda_llm.traces.event_log import Recorder
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    Event,
    GeneratorFailed,
    HintGiven,
    HintsTried,
    IncumbentChosen,
    KernelInspected,
    ModelCalled,
    ModelRetried,
    ReviewChange,
    RoundBegan,
    RoundReviewed,
    Routed,
    RunFinished,
    RunForked,
    RunInterrupted,
    RunResumed,
    RunStarted,
    StageEntered,
    StageLeft,
    StopCause,
    TunerSearched,
    WinnerRemeasured,
)
from cuda_llm.traces.run_folder import RunFolder

SOURCE = """\
__global__ void transpose(const float* in, float* out, int rows, int cols)
{
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];
}

extern "C" void solve(const float* input, float* output, int rows, int cols)
{
    dim3 grid((cols + 31) / 32, (rows + 7) / 8);
    transpose<<<grid, dim3(32, 8)>>>(input, output, rows, cols);
}
"""
SIZES = ({"rows": 512, "cols": 512}, {"rows": 1024, "cols": 1024})
BASELINE_US = (10.0, 41.5)
HINT = Hint(
    round=1,
    about="r1-c1",
    code="uncoalesced_global",
    text="Let neighbouring threads store to neighbouring addresses: go through shared memory.",
    evidence="out[x * rows + y]: 32 sectors a request",
    hardware_text="A sector is 32 bytes.",
    avoid=("a larger block: the stores stay scattered",),
)
ERROR_HINT = Hint(
    round=1, about="r1-c2", code="COMPILE_FAILED", text="Declare every name.", evidence="undefined"
)
FIRST = Brief(id="r1-c1", round=1, index=1, kind=Kind.FIRST, direction="one thread an element")
SECOND = Brief(id="r1-c2", round=1, index=2, kind=Kind.FIRST, direction="tiles in shared memory")
THIRD = Brief(id="r1-c3", round=1, index=3, kind=Kind.FIRST, direction="vector loads")
REMEDY = Brief(
    id="r2-c1",
    round=2,
    index=1,
    kind=Kind.FIX,
    parent="r1-c2",
    direction="keep the tiles",
    error_hints=(ERROR_HINT,),
    history=("r1-c1", "r1-c2"),
)
TOLD = (FIRST, SECOND, THIRD, REMEDY)


def attempt(brief: Brief, code: str, speedup: float | None = None, summary: str = "") -> Attempt:
    """What became of a brief."""
    times = () if speedup is None else tuple(us / speedup for us in BASELINE_US)
    return Attempt(
        id=brief.id,
        round=brief.round,
        index=brief.index,
        kind=brief.kind,
        parent=brief.parent,
        direction=brief.direction,
        written_by="model",
        idea="a short name",
        code=code,
        summary=summary,
        speedup=speedup,
        times_us=times,
        limited_by="uncoalesced_global" if speedup else "",
        seconds={"generate": 3.25, "compile": 1.5},
    )


ATTEMPTS = (
    attempt(FIRST, "PASSED", 1.25),
    attempt(SECOND, "COMPILE_FAILED", summary='identifier "tile" is undefined'),
    attempt(THIRD, "NO_CODE", summary="the reply was cut off at its limit"),
    attempt(REMEDY, "PASSED", 3.5),
)


def beginning() -> tuple[Event, ...]:
    """A run up to its second round."""
    return (
        RunStarted(
            run_id="a-run",
            task="matrix_transpose",
            device="emulated RTX 3090 Ti",
            hardware="RTX 3090 Ti",
            time_source="modelled",
            generator="llm",
            model="a-model",
            strategy="fsr",
            candidates=3,
            rounds=2,
            seed=7,
            versions={"cuda-llm": "0.1.0"},
            note="A note for the user.",
        ),
        AgentDecided(
            agent="hardware_research", round=0, decisions=("Two tiles fit.",), note="48 KiB"
        ),
        AgentFailed(agent="mine", round=0, error="ValueError: no luck"),
        BaselineJudged(sizes=SIZES, times_us=BASELINE_US, seconds=0.5),
        RoundBegan(round=1, incumbent=None, briefs=(FIRST, SECOND, THIRD)),
        StageEntered(candidate="r1-c1", stage="generate"),
        ModelRetried(call="candidates/r1-c1", attempt=1, reason="rate_limited", wait_s=2.0),
        ModelCalled(
            call="candidates/r1-c1",
            agent="generator",
            model="a-model",
            outcome="ok",
            tries=2,
            input_tokens=1200,
            output_tokens=300,
            usd=0.01,
            seconds=3.25,
        ),
        StageLeft(candidate="r1-c1", stage="generate", outcome="ok", seconds=3.25),
        ModelCalled(
            call="candidates/r1-c3",
            agent="generator",
            model="a-model",
            outcome="server_error",
            detail="500 four times",
            tries=4,
            usd=0.0,
        ),
        StageEntered(candidate="r1-c3", stage="compile"),
        CandidateLate(candidate="r1-c3", stage="compile"),
        AttemptJudged(attempt=ATTEMPTS[0]),
        AttemptJudged(attempt=ATTEMPTS[1]),
        HintGiven(channel="performance_hints", hint=HINT),
        HintGiven(channel="error_hints", hint=ERROR_HINT),
        IncumbentChosen(
            round=1,
            before=None,
            incumbent="r1-c1",
            reason="the first kernel that passed",
            verdicts={"r1-c1": "won"},
        ),
    )


def ending() -> tuple[Event, ...]:
    """Its second round and its end."""
    return (
        RoundBegan(round=2, incumbent="r1-c1", briefs=(REMEDY,)),
        AttemptJudged(attempt=ATTEMPTS[2]),
        AttemptJudged(attempt=ATTEMPTS[3]),
        TunerSearched(round=2, parent="r2-c1", tried=("r2-t1",), best=None, reason="no gain"),
        IncumbentChosen(
            round=2,
            before="r1-c1",
            incumbent="r2-c1",
            reason="3.50x is more than 1.25x",
            verdicts={"r2-c1": "won", "r1-c1": "slower"},
        ),
        WinnerRemeasured(attempt="r2-c1", code="PASSED", speedup=3.4, times_us=(2.9, 12.1)),
        RunFinished(
            reason="rounds",
            best="r2-c1",
            speedup=3.4,
            written_by="model",
            seconds=12.0,
            usage={"model_calls": 2},
        ),
    )


OTHERS: tuple[Event, ...] = (
    RunForked(of="another-run", round=1, edited_hints=True),
    RunResumed(round=2),
    RunInterrupted(cause=StopCause.CANCELLED, round=2, best="r1-c1"),
    ContestHeld(
        round=2,
        contender="r2-c1",
        incumbent="r1-c1",
        outcome="faster",
        speedup=2.8,
        speedup_low=2.79,
        speedup_high=2.81,
        seconds=1.5,
    ),
    KernelInspected(round=2, attempt="r2-c1", code="", notes=("memcheck: nothing found",)),
    AttemptRepeated(attempt=ATTEMPTS[1]),
    GeneratorFailed(
        candidate="r1-c2",
        error="KeyError: 'tile'",
        traceback="Traceback (most recent call last):\n  ...\nKeyError: 'tile'\n",
    ),
    HintsTried(candidate="r2-c1", parent="r1-c1", predicted={"r1-h1": 0.25}, gained=0.64),
    RoundReviewed(
        round=2,
        by="ada",
        accepted=("r2-c1",),
        changes=(ReviewChange(id="r1-h1", part="text", before="Pad it.", after="Swizzle it."),),
    ),
    Routed(round=1, to="strategy", reason="1 round left"),
)
"""Kinds that an undisturbed run does not tell."""


def write_run(path: Path, *recorded: Event) -> RunFolder:
    """The folder of a run, with all its candidates and these events."""
    run = RunFolder(path)
    about = {"request": {"task": "matrix_transpose"}, "device_spec": "emulated:rtx_3090_ti"}
    run.write_run({"run_id": path.name, **about})
    for brief, judged in zip(TOLD, ATTEMPTS, strict=True):
        run.write_brief(brief)
        run.write_attempt(judged)
    prompt = (Message(role="system", text="Write CUDA."), Message(role="user", text="Transpose."))
    run.write_prompt(Call(id="candidates/r1-c1", agent="generator", messages=prompt))
    usage = Usage(input_tokens=1200, output_tokens=300, usd=0.01)
    reply = Reply(text=f"```cuda\n{SOURCE}```", model="a-model", usage=usage, seconds=3.25)
    run.write_reply("candidates/r1-c1", reply)
    for name in ("r1-c1", "r2-c1"):
        run.write_draft(name, Draft(source=SOURCE, idea="one thread an element"))
        run.write_verdict(name, passed(1.25 if name == "r1-c1" else 3.5))
    run.write_draft("r1-c3", NoCode(message="cut off at its limit", kind="truncated"))
    run.write_verdict("r1-c2", CompileFailed(compiler_output='identifier "tile" is undefined'))
    record = Recorder(run.events)
    for event in recorded:
        record(kept(run, event))
    record.close()
    return run


def kept(run: RunFolder, event: Event) -> Event:
    """The event, once what it names lies in the run's folder."""
    match event:
        case HintGiven(hint=hint):
            return replace(event, hint=run.keep_hints([hint])[0])
        case AttemptJudged(attempt=judged) | AttemptRepeated(attempt=judged):
            run.write_attempt(judged)
        case RoundBegan(briefs=briefs):
            for brief in briefs:
                run.write_brief(brief)
        case _:
            pass
    return event


def passed(speedup: float) -> Passed:
    """A verdict with a profile."""
    sizes = tuple(
        SizeTime(dims=dims, time_us=us / speedup, baseline_us=us, source="modelled")
        for dims, us in zip(SIZES, BASELINE_US, strict=True)
    )
    found = Bottleneck(
        code="uncoalesced_global", share=0.7, explanation="32 sectors a request", advice="tile it"
    )
    profile = Profile(
        device="emulated RTX 3090 Ti",
        hardware="RTX 3090 Ti",
        source="modelled",
        sizes=sizes,
        bottlenecks=(found,),
        speedup=speedup,
        checked={"sizes": 12, "hidden": 4},
    )
    return Passed(profile=profile)
