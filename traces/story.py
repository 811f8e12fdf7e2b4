"""A run told as a story: what was asked, what each round tried and learned, and who won why."""

from collections.abc import Iterator

from cuda_llm.traces.chapter_text import tell_chapter
from cuda_llm.traces.chapters import Story
from cuda_llm.traces.figures import clock, plural, say_end, say_spend, say_times, say_times_of
from cuda_llm.traces.page import labelled, verbatim, wrapped
from cuda_llm.traces.read import Trace
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import RunState, final_speedup, read_story, spend_of, state_of
from cuda_llm.traces.verify import SOLUTION


def tell(run: RunFolder) -> Iterator[str]:
    """The lines of the story, for a terminal or a pipe."""
    story, trace = read_story(run)
    state = state_of(run, story)
    yield f"run {run.name}"
    yield from _beginning(story)
    for chapter in story.chapters.values():
        yield from tell_chapter(chapter, story, alive=state == "running")
    yield ""
    yield from _end(run, story, state)
    yield from _skipped(trace)


def _beginning(story: Story) -> Iterator[str]:
    started = story.started
    if started is None:
        yield "  nothing has happened yet"
        return
    yield from labelled("task", started.task)
    worth = say_times_of(started.time_source, started.l2)
    yield from labelled("device", f"{started.device} ({worth})")
    if started.hardware not in started.device:
        yield from labelled("", f"judged as {started.hardware}")
    author = started.generator + (f" asking {started.model}" if started.model else "")
    rounds = f"{plural(started.rounds, 'round')} of {plural(started.candidates, 'candidate')}"
    yield from labelled(
        "search", f"{rounds} by {author}; strategy {started.strategy}, seed {started.seed}"
    )
    if started.note:
        yield from labelled("note", started.note)
    version = started.versions.get("cuda-llm", "")
    by = f" with cuda-llm {version}" if version else ""
    yield from labelled("began", f"{clock(story.began_at)} UTC{by}")
    if story.forked is not None:
        edited = ", with edited hints" if story.forked.edited_hints else ""
        text = f"from {story.forked.of} after round {story.forked.round}{edited}"
        yield from labelled("forked", text)
    if story.baseline is not None:
        sizes, times = story.baseline.sizes, story.baseline.times_us
        yield from labelled("baseline", say_times(sizes, times))
        if story.baseline.isolation:
            yield from labelled("isolation", story.baseline.isolation)


def _end(run: RunFolder, story: Story, state: RunState) -> Iterator[str]:
    match state:
        case "running":
            yield f"the run is under way; last heard of at {clock(story.ended_at)} UTC"
        case "killed":
            yield f"the run was killed after {clock(story.ended_at)} UTC"
        case "interrupted" if story.interrupted is not None:
            why = f"the run stopped in round {story.interrupted.round}: "
            yield from wrapped(story.interrupted.reason, first=why)
        case "finished" if story.finished is not None:
            yield from wrapped(say_end(story.finished.reason), first="the run ended: ")
        case _:
            pass
    if state in ("killed", "interrupted"):
        yield from labelled("go on", f"cuda-llm resume {run.name}")
    if story.resumed:
        yield from labelled("resumed", plural(story.resumed, "time"))
    if story.calls:
        failed = sum(call.outcome != "ok" for call in story.calls)
        bad = f", {failed} of them in vain" if failed else ""
        yield from labelled("models", f"{say_spend(spend_of(story.calls))}{bad}")
    yield from _winner(run, story, state)


def _winner(run: RunFolder, story: Story, state: RunState) -> Iterator[str]:
    best = story.attempts.get(story.incumbent or "")
    if best is None:
        if state == "finished":
            yield from labelled("result", "no candidate passed; the baseline stands")
        return
    speedup = final_speedup(story)
    modelled = " (modelled)" if story.started and story.started.time_source == "modelled" else ""
    faster = f": {speedup:.2f}x the baseline's speed{modelled}" if speedup else ""
    idea = f" ({best.idea})" if best.idea else ""
    label = "winner" if state == "finished" else "best so far"
    yield from labelled(label, f"{best.id}{idea}, written by {best.written_by}{faster}")
    if speedup and speedup < 1:
        yield from labelled("", "slower than the baseline, which stays the answer")
    choice = [one.choice for one in story.chapters.values() if one.choice is not None][-1]
    yield from labelled("because", choice.reason)
    if story.remeasured is not None:
        again = story.remeasured
        how = f", {again.speedup:.2f}x" if again.speedup else ""
        detail = f"; {again.detail}" if again.detail else ""
        yield from labelled(
            "measured", f"once more, in a fresh process on new inputs: {again.code}{how}{detail}"
        )
    if story.baseline is not None:
        times = story.remeasured.times_us if story.remeasured else best.times_us
        compared = say_times(story.baseline.sizes, times, story.baseline.times_us)
        yield from labelled("times", compared)
    solution = run.best / SOLUTION
    lies = solution if solution.exists() else run.candidate(best.id) / "source.cu"
    yield from labelled("source", "")
    yield from verbatim(str(lies))
    if state == "finished":
        yield from labelled("use it", f"cuda-llm export {run.name} --to cu|cupy|torch")


def _skipped(trace: Trace) -> Iterator[str]:
    if trace.torn:
        yield f"({plural(trace.torn, 'line')} of the trace cut off or damaged, and skipped)"
    if trace.unknown:
        yield f"({plural(trace.unknown, 'line')} of the trace written by a newer cuda-llm, skipped)"
