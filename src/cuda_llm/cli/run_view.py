"""What a person reads when a run ends."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import typer

from cuda_llm.cli.run_board import duration, result, times
from cuda_llm.graph.runs.result import Result
from cuda_llm.outcomes import Duplicate
from cuda_llm.traces.figures import plural, say_end, say_times_of, tokens
from cuda_llm.wording import printable

LABEL = 12

Row = tuple[str, str]
"""Label on the left, text on the right."""


def show_run(run: Result) -> None:
    """Print what won, by how much, on what, and where everything lies."""
    device = f"{run.device} ({say_times_of(run.time_source, run.l2)})"
    typer.echo(printable(f"{run.task} · {device} · {run.strategy}, seed {run.seed}"))
    for label, text in rows(run):
        typer.echo(f"  {label:<{LABEL}} {printable(text)}")


def rows(run: Result) -> Iterator[Row]:
    """Yield the rows of the report, top down."""
    yield from best_rows(run)
    passed = sum(one.passed for one in run.attempts)
    tried = f"{plural(len(run.attempts), 'candidate')} in {plural(run.rounds, 'round')}"
    yield "tried", f"{tried}, {passed} passed"
    yield "spent", spent(run)
    yield "ended", say_end(run.reason) or "it has not"
    if run.note:
        yield "note", run.note
    folder = shlex.quote(shown(run.run_dir))
    if run.file is not None:
        yield "kernel", shown(run.file)
        yield "verify", f"sh {shlex.quote(shown(run.run_dir / 'best/verify.sh'))}"
    if run.finished:
        yield "trace", f"cuda-llm trace show {folder}"
    else:
        yield "go on", f"cuda-llm resume {folder}"


def best_rows(run: Result) -> Iterator[Row]:
    """Yield what won, by how much, and who wrote it."""
    best = run.best
    if best is None:
        yield "best", "no candidate has passed; the baseline is still the answer"
        told = [one for one in run.attempts if one.code != Duplicate.code]
        if told:
            last = told[-1]
            yield "", f"{last.id}: {result(last)}" + (f", {last.summary}" if last.summary else "")
        return
    kind = "modelled" if run.time_source == "modelled" else "measured"
    yield "best", f"{best.speedup or 0:.2f}x the baseline's speed ({kind}), {times(best)}"
    again = run.remeasured
    final = again.speedup if again and again.speedup else best.speedup
    if final and final < 1:
        yield "", "slower than the baseline, which stays the answer"
    if again is not None:
        faster = f", {again.speedup:.2f}x" if again.speedup else ""
        yield "", f"judged once more: {again.code}{faster}"
    idea = best.idea or best.direction
    yield "written by", f"{author(run)}: {best.id}" + (f", {idea}" if idea else "")
    if best.limited_by:
        yield "limited by", best.limited_by.replace("_", " ")


def author(run: Result) -> str:
    """Name who wrote the best kernel."""
    if run.written_by == "model":
        return f"the model {run.model}".rstrip()
    return {"human": "a person", "playbook": "the playbook"}[run.written_by]


def spent(run: Result) -> str:
    """Describe time spent, and tokens and money where a model was asked."""
    took = duration(run.seconds["total"])
    usage = run.usage
    if not usage.model_calls:
        return took
    used = tokens(usage.input_tokens + usage.output_tokens)
    money = "price unknown" if usage.unpriced_calls else f"${usage.usd:.2f}"
    return f"{took}, {plural(usage.model_calls, 'model call')}, {used} tokens, {money}"


def shown(path: Path) -> str:
    """Return the path relative to the current folder where that is shorter."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return str(path)
    return str(path) if near.startswith("..") else near
