"""What `run` and `resume` print when a run ends: for a person, and as JSON
(docs/schemas/run.schema.json).
"""

import os
import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from cuda_llm.agents.llm.budget import Spent
from cuda_llm.cli.json_text import json_text
from cuda_llm.cli.run_progress import outcome_text, time_text
from cuda_llm.figure_wording import (
    advise_next,
    describe_attempt_speed,
    describe_no_gain,
    describe_over,
    name_bottleneck,
)
from cuda_llm.graph.runs.replay import ReplayAccount
from cuda_llm.graph.runs.result import Result
from cuda_llm.outcomes import Duplicate
from cuda_llm.redaction import printable
from cuda_llm.search import Attempt
from cuda_llm.traces.ending_text import describe_check
from cuda_llm.traces.text import LABEL, describe_end, describe_time_source, duration, plural, tokens

RUN_SCHEMA = 1
MOST_NAMED = 4


def run_document(result: Result, account: ReplayAccount | None = None) -> str:
    """Spell a run as one JSON text. Numbers that are not finite become null."""
    whole = {
        "schema": RUN_SCHEMA,
        "run_id": result.run_id,
        "run_dir": str(result.run_dir),
        "task": result.task,
        "device": result.device,
        "hardware": result.hardware,
        "time_source": result.time_source,
        "l2": result.l2,
        "generator": result.generator,
        "model": result.model,
        "strategy": result.strategy,
        "seed": result.seed,
        "note": result.note,
        "finished": result.finished,
        "reason": result.reason,
        "rounds": round_fields(result.attempts),
        "best": best_fields(result),
        "usage": usage_fields(result.usage),
        "seconds": dict(result.seconds),
        "launches_to_pay": payback_fields(result),
        "replay": None if account is None else replay_fields(account),
    }
    return json_text(whole)


def payback_fields(result: Result) -> dict[str, Any]:
    """Return the launches after which the search has paid, over all timed sizes and at each."""
    return {
        "time_source": result.time_source,
        "all_sizes": result.launches_to_pay(),
        "sizes": [result.launches_to_pay(place) for place, _ in enumerate(result.baseline_us)],
    }


def replay_fields(account: ReplayAccount) -> dict[str, Any]:
    """Return how far the record of another run answered."""
    return {
        "of": str(account.of),
        "measurements": account.measurements,
        "answered": account.answered,
        "unanswered": list(account.unanswered),
        "prompts_differ": list(account.prompts_differ),
        "unjudged": list(account.unjudged),
    }


def round_fields(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Return the candidates by round, in order."""
    found: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        found[attempt.round].append(attempt)
    return [
        {"round": number, "candidates": [candidate_fields(one) for one in found[number]]}
        for number in sorted(found)
    ]


def candidate_fields(attempt: Attempt) -> dict[str, Any]:
    """Return the short form of one candidate."""
    return {
        "id": attempt.id,
        "kind": attempt.kind.value,
        "parent": attempt.parent,
        "written_by": attempt.written_by,
        "code": attempt.code,
        "speedup": attempt.speedup,
        "limited_by": attempt.limited_by,
    }


def best_fields(result: Result) -> dict[str, Any] | None:
    """Return the fastest kernel; None while none has passed."""
    if result.best is None:
        return None
    again = result.remeasured
    return {
        "candidate": result.best.id,
        "speedup": result.best.speedup,
        "objective": result.best.objective,
        "times_us": list(result.best.times_us),
        "remeasured_speedup": None if again is None else again.speedup,
        "written_by": result.best.written_by,
        "source": result.source,
        "file": str(result.file),
    }


def usage_fields(spent: Spent) -> dict[str, Any]:
    """Return the sum of all model calls; `usd` is None where the price of one is unknown."""
    return {**asdict(spent), "usd": None if spent.unpriced_calls else spent.usd}


Row = tuple[str, str]
"""Label on the left, text on the right."""


def show_run(run: Result, account: ReplayAccount | None = None) -> None:
    """Print what won, by how much, on what, and where everything lies."""
    device = f"{run.device} ({describe_time_source(run.time_source, run.l2)})"
    typer.echo(printable(f"{run.task} · {device} · {run.strategy}, seed {run.seed}"))
    for label, text in (*report_rows(run), *replay_rows(run, account)):
        typer.echo(f"  {label:<{LABEL}} {printable(text)}")


def report_rows(run: Result) -> Iterator[Row]:
    """Yield the rows of the report, top down."""
    yield from best_rows(run)
    passed = sum(one.passed for one in run.attempts)
    tried = f"{plural(len(run.attempts), 'candidate')} in {plural(run.rounds, 'round')}"
    yield "tried", f"{tried}, {passed} passed"
    yield "spent", spent(run)
    yield "ended", describe_end(run.reason) or "it has not"
    if run.note:
        yield "note", run.note
    folder = shlex.quote(short_path(run.run_dir))
    if run.file is not None:
        yield "kernel", short_path(run.file)
        yield "verify", f"sh {shlex.quote(short_path(run.run_dir / 'best/verify.sh'))}"
    if run.finished:
        yield "trace", f"cuda-llm trace show {folder}"
    else:
        yield "go on", f"cuda-llm resume {folder}"


def replay_rows(run: Result, account: ReplayAccount | None) -> Iterator[Row]:
    """Yield how far the record of another run answered this one; nothing where none did."""
    if account is None:
        return
    fed = "kernels, replies and measurements" if account.measurements else "kernels and replies"
    yield (
        "replay",
        f"{fed} of {account.of.name}: nothing was asked; tokens and money are those recorded",
    )
    if account.answered or account.unanswered:
        calls = plural(account.answered, "call")
        left = f"{len(account.unanswered)} not{names_text(account.unanswered)}"
        yield "", f"{calls} answered by the record, {left}"
        yield "", f"{plural(len(account.prompts_differ), 'prompt')} not as recorded"
    if account.differs_at:
        old, new = (short_path(one / account.differs_at) for one in (account.of, run.run_dir))
        yield "", f"diff -r {shlex.quote(old)} {shlex.quote(new)}"
    if account.unjudged:
        kernels = plural(len(account.unjudged), "kernel")
        yield "", f"{kernels} never judged there{names_text(account.unjudged)}"


def names_text(names: Sequence[str]) -> str:
    """Return the first of some names behind a colon, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f": {', '.join(names[:MOST_NAMED])}{more}" if names else ""


def best_rows(run: Result) -> Iterator[Row]:
    """Yield what won, by how much, and who wrote it."""
    best = run.best
    if best is None:
        again = run.remeasured
        if again is not None and not again.stands:
            yield "best", "no kernel passed its last check; the baseline is still the answer"
            yield "", f"{again.attempt}: {describe_check(again)}"
            return
        yield "best", "no candidate has passed; the baseline is still the answer"
        judged = [one for one in run.attempts if one.code != Duplicate.code]
        if judged:
            last = judged[-1]
            yield (
                "",
                f"{last.id}: {outcome_text(last)}" + (f", {last.summary}" if last.summary else ""),
            )
        return
    kind = "modelled" if run.time_source == "modelled" else "measured"
    faster = describe_attempt_speed(best, " the baseline's speed")
    yield "best", f"{faster} ({kind}), {time_text(best)}"
    again = run.remeasured
    final = again.speedup if again and again.speedup else best.speedup
    if stands := describe_no_gain(final, best.spread):
        yield "", stands
        if run.finished:
            yield "next", advise_next(run.generator)
    if again is not None:
        over = describe_over(best.objective, len(best.times_us))
        faster = f", {again.speedup:.2f}x{over}" if again.speedup else ""
        yield "", f"judged once more: {again.code}{faster}"
    idea = best.idea or best.direction
    yield "written by", f"{author(run)}: {best.id}" + (f", {idea}" if idea else "")
    if best.limited_by:
        yield "limited by", name_bottleneck(best.limited_by)


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
    used = f"{tokens(usage.input_tokens + usage.output_tokens)} tokens"
    used += f" ({tokens(usage.cached_tokens)} cached)" if usage.cached_tokens else ""
    money = "price unknown" if usage.unpriced_calls else f"${usage.usd:.2f}"
    return f"{took}, {plural(usage.model_calls, 'model call')}, {used}, {money}"


def short_path(path: Path) -> str:
    """Return the path relative to the current folder where that is shorter."""
    try:
        near = os.path.relpath(path)
    except (OSError, ValueError):
        return str(path)
    return str(path) if near.startswith("..") else near
