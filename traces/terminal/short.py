"""A run at a glance: a line a candidate, best so far, failures by kind, time and money spent."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cuda_llm.figure_wording import describe_over, name_bottleneck
from cuda_llm.profile import Objective
from cuda_llm.redaction import printable
from cuda_llm.search import Kind
from cuda_llm.traces.ending_text import command, describe_ending
from cuda_llm.traces.find import spell_run
from cuda_llm.traces.history import RunHistory
from cuda_llm.traces.report.candidates import CandidateReader
from cuda_llm.traces.report.gather import view_run
from cuda_llm.traces.report.view import Row, RunView
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.summary import RunState, total_calls
from cuda_llm.traces.text import (
    LABEL,
    Line,
    Tone,
    describe_call_totals,
    describe_review,
    duration,
    labelled,
    us,
)

BAR = 20
"""Characters of the bar of the fastest kernel, and of the longest share of the time."""
LISTED = 6
"""Candidates of one kind of failure that are named."""
ORDERS: Mapping[str, str] = {
    Kind.FIRST: "first",
    Kind.FIX: "fix of {}",
    Kind.IMPROVE: "improves {}",
    Kind.DEPART: "departs from {}",
    Kind.TUNE: "tunes {}",
    Kind.COMPOSE: "composed of {}",
    Kind.START: "brought",
}
"""What a candidate was to be, beside its parent's id."""


def describe_in_short(folder: RunFolder) -> Iterator[Line]:
    """Yield the lines about a run. Whoever prints them may cut a line at its end, never an id."""
    run, history, _, _ = view_run(CandidateReader(folder))
    state: RunState = run.state  # type: ignore[assignment]
    yield (f"run {printable(run.run_id)}", "strong"), (f" · {printable(run.state_text)}", "")
    for label, text in run.facts:
        if label in {"task", "device", "written by", "search", "forked", "note"}:
            yield from plain(labelled(label, text))
    if run.rows:
        over = describe_over(objective_of(run.rows), sizes_of(run.rows))
        yield from head(f"candidates: speed-up{over}, time at the largest")
        failed = {one.attempt: one.code for one in history.rechecked.values() if not one.stands}
        yield from describe_rows(run.rows, run.best, failed)
    yield from describe_rounds(run)
    yield from describe_reviews(history)
    yield from describe_failures(run.rows)
    yield from describe_costs(run, history)
    yield from plain([""])
    yield from plain(describe_ending(folder, history, state))
    for missing in run.missing:
        yield (("  not there  ", "bad"), (printable(missing), ""))
    name = spell_run(folder)
    yield from plain(command("more", f"cuda-llm trace show {name} --long"))
    if run.best:
        yield from plain(command("", f"cuda-llm trace candidate {name} {run.best}"))


def plain(lines: Iterable[str]) -> Iterator[Line]:
    """Yield lines of one part each."""
    return (((line, ""),) for line in lines)


def head(text: str) -> Iterator[Line]:
    """Yield an empty line and a heading."""
    yield (("", ""),)
    yield ((text, "strong"),)


def describe_rows(
    rows: Sequence[Row], best: str | None, failed: Mapping[str, str]
) -> Iterator[Line]:
    """Yield a line a candidate: id, outcome, what it was to be, and its idea or why it failed.

    `failed` are those that failed their last check, with the code of that verdict.
    """
    names = max(len(printable(row.id)) for row in rows)
    outcomes = max(len(outcome_of(row)) for row in rows)
    orders = max(len(order_of(row)) for row in rows)
    limits = max(len(limit_of(row)) for row in rows)
    for row in rows:
        mark = "*" if row.id == best else " "
        detail = row.summary if row.failed else row.idea or row.direction
        yield (
            (f"{mark} ", "good"),
            (f"{printable(row.id):<{names}}", "strong" if row.id == best else ""),
            (f"  {outcome_of(row):<{outcomes}}", "bad" if row.id in failed else tone_of(row, best)),
            (f"  {order_of(row):<{orders}}", "faint"),
            (f"  {limit_of(row):<{limits}}", ""),
            (f"  last check: {failed[row.id]}" if row.id in failed else "", "bad"),
            (f"  {printable(' '.join(detail.split()))}".rstrip(), ""),
        )


def objective_of(rows: Sequence[Row]) -> Objective:
    """Return how sizes make the speed-ups of a run."""
    return next((row.objective for row in rows if row.times_us), "geomean")


def sizes_of(rows: Sequence[Row]) -> int:
    """Return how many sizes were timed."""
    return max((len(row.times_us) for row in rows), default=0)


def outcome_of(row: Row) -> str:
    """Return `57.09x  8.42 us`, the code of what it failed with, or what it is at."""
    if row.speedup is not None and row.times_us:
        return f"{row.speedup:>7.2f}x {us(row.times_us[-1]):>8}"
    return printable(row.code or row.state)


def tone_of(row: Row, best: str | None) -> Tone:
    """Return how the outcome is shown."""
    if row.id == best or row.outcome == "won":
        return "good"
    return "bad" if row.failed else ""


def order_of(row: Row) -> str:
    """Return what it was to be: `fix of r1-c2`."""
    return printable(ORDERS.get(row.kind, row.kind).format(row.parent or "the baseline"))


def limit_of(row: Row) -> str:
    """Return what limits it, in words."""
    return printable(name_bottleneck(row.limited_by))


def describe_rounds(run: RunView) -> Iterator[Line]:
    """Yield the best so far after each round, with a bar as long as it is fast."""
    if not run.steps:
        return
    yield from head(
        f"best so far: speed-up{describe_over(objective_of(run.rows), sizes_of(run.rows))}"
    )
    fastest = max((step.speedup or 0.0 for step in run.steps), default=0.0)
    names = max(len(printable(step.candidate or "the baseline")) for step in run.steps)
    before: str | None = None
    for step in run.steps:
        tried = [row for row in run.rows if row.round == step.round]
        passed = sum(row.passed for row in tried)
        share = (step.speedup or 0.0) / fastest if fastest else 0.0
        bar = "█" * max(round(BAR * share), 1 if step.speedup else 0)
        factor = f"{step.speedup:.2f}x" if step.speedup else ""
        new = step.candidate != before
        yield (
            (f"  round {step.round:<3} {passed:>3} of {len(tried):<3} passed  ", ""),
            (f"{printable(step.candidate or 'the baseline'):<{names}}", "good" if new else ""),
            (f" {factor:>8} ", "good" if new else ""),
            (f"{bar:<{BAR}}", "good" if new else "faint"),
            (f"  {printable(step.reason)}", "" if new else "faint"),
        )
        before = step.candidate


def describe_reviews(history: RunHistory) -> Iterator[Line]:
    """Yield what a person changed before each round."""
    reviews = {
        number: one for round_ in history.rounds.values() for number, one in round_.reviews.items()
    }
    if not reviews:
        return
    yield from head("reviewed")
    for number, one in reviews.items():
        for line in describe_review(one):
            text = " ".join(line.split())
            yield ((f"  round {number:<3} {printable(one.by)}: {printable(text)}", ""),)


def describe_failures(rows: Sequence[Row]) -> Iterator[Line]:
    """Yield each kind of failure: how often, whose, and the last one's message."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        if row.failed:
            kinds.setdefault(row.code, []).append(row)
    if not kinds:
        return
    yield from head("failures by kind")
    codes = max(map(len, kinds))
    for code, found in sorted(kinds.items(), key=lambda one: -len(one[1])):
        names = ", ".join(row.id for row in found[:LISTED])
        more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
        last = " ".join(found[-1].summary.split())
        yield (
            (f"  {printable(code):<{codes}}", "bad"),
            (f" {len(found):>4}  {printable(names)}{more}", ""),
            (f"  {found[-1].id}: {printable(last)}" if last else "", "faint"),
        )


def describe_costs(run: RunView, history: RunHistory) -> Iterator[Line]:
    """Yield how long each kind of work kept the clock going, and what each agent's calls cost."""
    if not run.shares:
        return
    yield from head(f"where time and money went: {seconds(run.wall_s)}")
    for share in run.shares:
        bar = "█" * round(BAR * share.share)
        busy = f"{seconds(share.busy_s)} of work" if share.busy_s > share.wall_s * 1.05 else ""
        yield (
            (f"  {share.name:<22}{seconds(share.wall_s):>12} {share.share:>5.0%} ", ""),
            (f"{bar:<{BAR}}", "good"),
            (f"  {'; '.join(filter(None, (busy, share.note)))}".rstrip(), "faint"),
        )
    for agent in dict.fromkeys(call.agent for call in history.calls):
        spent = total_calls(call for call in history.calls if call.agent == agent)
        yield ((f"  {printable(agent):<{LABEL + 10}}{describe_call_totals(spent)}", ""),)


def seconds(spent_s: float) -> str:
    """Return `0.4 s`, `12 s` or `2 min 10 s`."""
    return duration(spent_s, tenths=True)
