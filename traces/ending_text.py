"""How a run ended, in words: why, what it cost, the winner and its last check, what to do next."""

from collections.abc import Iterator

from cuda_llm.figure_wording import advise_next, describe_no_gain, describe_over
from cuda_llm.redaction import printable
from cuda_llm.traces.best import SOLUTION
from cuda_llm.traces.event_log import Trace
from cuda_llm.traces.events import WinnerRemeasured
from cuda_llm.traces.find import spell_run
from cuda_llm.traces.history import RunHistory
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import RunState, final_speedup, total_calls
from cuda_llm.traces.text import (
    LABEL,
    clock,
    describe_call_totals,
    describe_end,
    describe_stop,
    describe_times,
    labelled,
    plural,
    verbatim,
    wrapped,
)

CHECK = "in a fresh process on new inputs"


def describe_ending(run: RunFolder, history: RunHistory, state: RunState) -> Iterator[str]:
    """Yield how the run stands or ended, its winner and why, and commands to go on with."""
    match state:
        case "running":
            yield f"the run is under way; last heard of at {clock(history.ended_at)} UTC"
        case "killed":
            yield f"the run was killed after {clock(history.ended_at)} UTC"
        case "interrupted" if history.interrupted is not None:
            why = f"the run stopped in round {history.interrupted.round}: "
            yield from wrapped(describe_stop(history.interrupted), first=why)
        case "finished" if history.finished is not None:
            yield from wrapped(describe_end(history.finished.reason), first="the run ended: ")
        case _:
            pass
    if state in ("killed", "interrupted"):
        yield from command("go on", f"cuda-llm resume {spell_run(run)}")
    if history.resumed:
        yield from labelled("resumed", plural(history.resumed, "time"))
    if history.calls:
        failed = sum(call.outcome != "ok" for call in history.calls)
        bad = f", {failed} of them in vain" if failed else ""
        yield from labelled("models", f"{describe_call_totals(total_calls(history.calls))}{bad}")
    yield from _winner(run, history, state)


def _winner(run: RunFolder, history: RunHistory, state: RunState) -> Iterator[str]:
    best = history.attempts.get(history.incumbent or "")
    if best is None:
        if state == "finished":
            yield from labelled("result", f"{describe_no_winner(history)}; the baseline stands")
            yield from _failed_checks(history)
        return
    speedup = final_speedup(history)
    modelled = (
        " (modelled)" if history.started and history.started.time_source == "modelled" else ""
    )
    over = describe_over(best.objective, len(best.times_us))
    faster = f": {speedup:.2f}x the baseline's speed{over}{modelled}" if speedup else ""
    idea = f" ({best.idea})" if best.idea else ""
    label = "winner" if state == "finished" else "best so far"
    yield from labelled(label, f"{best.id}{idea}, written by {best.written_by}{faster}")
    if stands := describe_no_gain(speedup, best.spread):
        yield from labelled("", stands)
        if state == "finished" and history.started is not None:
            yield from labelled("next", advise_next(history.started.generator))
    choices = [one.choice for one in history.rounds.values() if one.choice is not None]
    if choices and choices[-1].incumbent == best.id:
        yield from labelled("because", choices[-1].reason)
    elif choices and choices[-1].incumbent in history.rechecked:
        yield from labelled("because", f"{choices[-1].incumbent} failed its last check")
    yield from _failed_checks(history)
    again = history.rechecked.get(best.id)
    if again is not None and again.stands:
        yield from labelled("measured", f"once more, {CHECK}: {describe_check(again, over)}")
    if history.baseline is not None:
        times = again.times_us if again and again.stands and again.times_us else best.times_us
        compared = describe_times(history.baseline.sizes, times, history.baseline.times_us)
        yield from labelled("times", compared)
    solution = run.best / SOLUTION
    lies = solution if solution.exists() else run.candidate(best.id) / "source.cu"
    yield from labelled("source", "")
    yield from verbatim(str(lies))
    if state == "finished":
        for label, form in (("use it", "cu"), ("", "cupy"), ("", "torch")):
            yield from command(label, f"cuda-llm export {spell_run(run)} --to {form}")


def describe_no_winner(history: RunHistory) -> str:
    """Describe why a finished run has no winner."""
    if any(not one.stands for one in history.rechecked.values()):
        return "no kernel passed its last check"
    return "no candidate passed"


def _failed_checks(history: RunHistory) -> Iterator[str]:
    """Yield every kernel that passed in its round and failed when it was to be the winner."""
    for again in history.rechecked.values():
        if not again.stands:
            text = f"{again.attempt} had passed, then {CHECK}: {describe_check(again)}"
            yield from labelled("last check", text)


def describe_check(again: WinnerRemeasured, over: str = "") -> str:
    """Describe what the last check found: `WRONG_RESULT; 2 of 9 cases: ...`.

    `over` follows a speed-up, as `describe_over` says it.
    """
    how = f", {again.speedup:.2f}x{over}" if again.speedup else ""
    detail = f"; {again.detail}" if again.detail else ""
    return f"{again.code}{how}{detail}"


def command(label: str, line: str) -> Iterator[str]:
    """Yield a command line in one piece, however long it is."""
    yield f"  {label:<{LABEL}}{printable(line)}"


def describe_skipped(trace: Trace) -> Iterator[str]:
    """Yield what of the events could not be read."""
    if trace.torn:
        yield f"({plural(trace.torn, 'line')} of the trace cut off or damaged, and skipped)"
    if trace.unknown:
        yield f"({plural(trace.unknown, 'line')} of the trace written by a newer cuda-llm, skipped)"
