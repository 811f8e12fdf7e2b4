"""Threads that do not wait for each other, or wait for ever."""

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext
from cuda_llm.failures import DataRace, InvalidSync, TimedOut

_MISSING = (
    "missing barrier",
    "__syncthreads() is missing between the two accesses: every thread must pass it after the "
    "writes and before any other thread reads them.",
)


def data_race(verdict: DataRace, context: FailureContext) -> Diagnosis:
    """Two accesses of shared memory with no barrier between them."""
    here, before = verdict.spot, verdict.other
    cause, text = _why_race(verdict, context)
    against = f"against {context.quote_line(before)}" if before else ""
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            f"{verdict.kind} at {context.quote_line(here)}" if here else verdict.kind,
            against,
            _barriers(verdict, context),
            context.known_of(verdict.error, verdict.replay, placed=True),
        ),
    )


def invalid_sync(verdict: InvalidSync, context: FailureContext) -> Diagnosis:
    """A barrier or a collective that some of its threads never reach."""
    line = verdict.spot.line if verdict.spot else 0
    seen = ""
    if verdict.kind == "partial-mask":
        cause = "partial mask"
        text = (
            "A warp collective needs every lane of its mask to arrive: call it outside the branch "
            "that some lanes skip, or build the mask with __ballot_sync before the branch."
        )
    elif line and (branch := context.source.branch_around(line)):
        cause = "barrier in a branch"
        text = (
            "The barrier stands under a branch that not all threads take: move it out of the "
            "branch, and let the branch guard the work alone."
        )
        seen = f"under line {branch.first}{context.quote(branch.header)}"
    elif line and (early := context.source.left_early(line)):
        cause = "early return"
        text = (
            "Threads return before a barrier that the others wait at: keep all threads alive to "
            "the last barrier, and guard the loads and stores instead."
        )
        seen = f"return in line {early}"
    elif line and context.source.around(line, "for", "while"):
        cause = "barrier in an uneven loop"
        text = (
            "The barrier stands in a loop that threads leave after different numbers of turns: "
            "let all threads make the same number of turns and guard the body."
        )
        seen = f"in the loop of line {context.source.around(line, 'for', 'while')[0].first}"
    else:
        cause = verdict.kind
        text = "Not all threads reach the same barrier: give every thread one way through it."
    return Diagnosis(
        code=verdict.code,
        cause=cause,
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            seen,
            context.known_of(verdict.error, verdict.replay, placed=True),
        ),
    )


def timed_out(verdict: TimedOut, context: FailureContext) -> Diagnosis:
    """Something that does not end, or that is far too much work."""
    line = verdict.spot.line if verdict.spot else 0
    loop = next(iter(context.source.around(line, "for", "while", "do")), None) if line else None
    seen = f"in the loop of line {loop.first}{context.quote(loop.header)}" if loop else ""
    match verdict.stage:
        case "compile":
            text = "Compiling takes too long: unroll less, instantiate fewer templates."
        case "host":
            text = (
                "The host part of `solve` does not return: look for loops that wait for the "
                "device or whose bound never comes."
            )
        case _ if verdict.crowded or (loop and loop.kind == "while" and context.source.atomics):
            text = (
                "Threads spin for others that may never run: a lock inside a warp, or waiting for "
                "blocks that are not resident, never ends. Do without the lock."
            )
        case _:
            text = (
                "The kernel does not end or does far too much: check that each loop moves towards "
                "its bound (a zero step, unsigned i >= 0), and that the work is spread over the "
                "whole grid."
            )
    return Diagnosis(
        code=verdict.code,
        cause=one_line(verdict.stage, 20),
        text=text,
        evidence=join_parts(
            context.quote_line(verdict.spot),
            seen,
            "more blocks than are resident at once" if verdict.crowded else "",
            context.launch_of(verdict.kernel) if not (verdict.spot or verdict.error) else "",
            context.known_of(verdict.error, verdict.replay, placed=verdict.spot is not None),
        ),
    )


def _why_race(verdict: DataRace, context: FailureContext) -> tuple[str, str]:
    here, before = verdict.spot, verdict.other
    if here is None or before is None:
        return _MISSING
    if here.line == before.line and verdict.kind == "write-write":
        return "same word", (
            "Several warps write the same shared word in one line: give each its own word, or use "
            "an atomic."
        )
    if here.line == before.line:
        return "turns of one line", (
            "Threads read in that line what others write there: a __syncthreads() that all threads "
            "reach belongs between its turns, outside the branch that picks the workers."
        )
    loops = context.source.around(here.line, "for", "while")
    same_loop = any(loop.first <= before.line <= loop.last for loop in loops)
    separated = bool(context.source.barriers_between(here.line, before.line))
    if same_loop and (verdict.kind == "read-write" or separated):
        return "next turn overwrites", (
            "The next turn of the loop overwrites shared memory that other threads still read: a "
            "second __syncthreads() belongs at the end of the loop body, or use two buffers."
        )
    return _MISSING


def _barriers(verdict: DataRace, context: FailureContext) -> str:
    here, before = verdict.spot, verdict.other
    if here is None or before is None or here.line == before.line:
        return ""
    between = context.source.barriers_between(here.line, before.line)
    if not between:
        return "no barrier stands between them in the text"
    return f"barriers between them in the text: line {', '.join(map(str, between))}"
