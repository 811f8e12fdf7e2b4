"""Two runs side by side: what was asked, what came of it, round by round, and what it cost."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cuda_llm.redaction import printable
from cuda_llm.traces.report.view import RunView
from cuda_llm.traces.terminal.difference import CandidatePair
from cuda_llm.traces.text import Line, duration, tokens, us

SPELLINGS: dict[str, Callable[[float], str]] = {
    "s": lambda value: duration(value, tenths=True),
    "us": us,
    "x": lambda value: f"{value:.2f}x",
    "usd": lambda value: f"${value:,.4g}",
    "tokens": lambda value: tokens(round(value)),
    "": lambda value: f"{value:,.0f}",
}
"""By unit."""
REMEDY = "their speed-ups stand on different scales: task, device or source of times differ"


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Two runs. Pairs hold what either has, None where one lacks it."""

    a: str
    b: str
    comparable: bool
    """Task, device, source of times and L2 agree."""
    settings: tuple[CandidatePair, ...]
    """Those that differ."""
    outcome: tuple[CandidatePair, ...]
    times: tuple[CandidatePair, ...]
    """Of the best kernel at each size."""
    best: tuple[CandidatePair, ...]
    """Speed-up of the best so far after each round."""
    failures: tuple[CandidatePair, ...]
    """Candidates by the code they failed with."""
    spent: tuple[CandidatePair, ...]
    missing: tuple[str, ...]


def compare_runs(one: RunView, other: RunView) -> RunComparison:
    """Return what two runs differ in, and their outcomes, times and failures side by side."""
    names = dict.fromkeys((*one.settings, *other.settings))
    values = [(name, one.settings.get(name), other.settings.get(name)) for name in names]
    return RunComparison(
        a=one.run_id,
        b=other.run_id,
        comparable=bool(one.comparable) and one.comparable == other.comparable,
        settings=tuple(
            CandidatePair(about="", name=name, a=a or None, b=b or None)
            for name, a, b in values
            if a != b
        ),
        outcome=tuple(_outcome(one, other)),
        times=_joined([_times(each) for each in (one, other)], "us"),
        best=_joined(
            [{f"round {s.round}": s.speedup for s in each.steps} for each in (one, other)], "x"
        ),
        failures=_joined([_failures(each) for each in (one, other)], ""),
        spent=tuple(_spent(one, other)),
        missing=tuple(f"{each.run_id}: {text}" for each in (one, other) for text in each.missing),
    )


def _joined(sides: Sequence[dict[str, float | None]], unit: str) -> tuple[CandidatePair, ...]:
    one, other = sides
    return tuple(
        CandidatePair(about="", name=name, unit=unit, a=one.get(name), b=other.get(name))
        for name in dict.fromkeys((*one, *other))
    )


def _outcome(one: RunView, other: RunView) -> Iterator[CandidatePair]:
    for name in ("task", "device", "model"):
        a, b = (str(getattr(each, name)) or None for each in (one, other))
        yield CandidatePair(about="", name=name, a=a, b=b)
    yield CandidatePair(about="", name="state", a=one.state_text, b=other.state_text)
    yield CandidatePair(about="", name="best", a=one.best, b=other.best)
    yield CandidatePair(about="", name="speed-up", unit="x", a=one.speedup, b=other.speedup)
    passed = [sum(row.passed for row in each.rows) for each in (one, other)]
    yield CandidatePair(about="", name="candidates", a=len(one.rows), b=len(other.rows))
    yield CandidatePair(about="", name="passed", a=passed[0], b=passed[1])


def _times(run: RunView) -> dict[str, float | None]:
    best = next((row for row in run.rows if row.id == run.best), None)
    times = best.times_us if best else ()
    return {label: time for (label, _), time in zip(run.baseline, times, strict=False)}


def _failures(run: RunView) -> dict[str, float | None]:
    codes = Counter(row.code for row in run.rows if row.failed)
    return {code: float(count) for code, count in sorted(codes.items())}


def _spent(one: RunView, other: RunView) -> Iterator[CandidatePair]:
    yield CandidatePair(about="", name="time", unit="s", a=one.wall_s, b=other.wall_s)
    shares = [{share.name: share.wall_s for share in each.shares} for each in (one, other)]
    for name in dict.fromkeys((*shares[0], *shares[1])):
        yield CandidatePair(
            about="time", name=name, unit="s", a=shares[0].get(name), b=shares[1].get(name)
        )
    calls = [sum(spend.calls for spend in each.spends) for each in (one, other)]
    if any(calls):
        yield CandidatePair(about="", name="calls", a=calls[0], b=calls[1])
        used = [
            sum(spend.input_tokens + spend.output_tokens for spend in each.spends)
            for each in (one, other)
        ]
        yield CandidatePair(about="", name="tokens", unit="tokens", a=used[0], b=used[1])
        money = [_money(each) for each in (one, other)]
        yield CandidatePair(about="", name="cost", unit="usd", a=money[0], b=money[1])


def _money(run: RunView) -> float | None:
    """Return dollars; None where a price is unknown."""
    prices = [spend.usd for spend in run.spends]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def describe_comparison(found: RunComparison) -> Iterator[Line]:
    """Yield a table of both."""
    parts = (
        ("", found.outcome),
        ("settings that differ", found.settings),
        ("time of the best kernel", found.times),
        ("best so far", found.best),
        ("failures by kind", found.failures),
        ("time and money", found.spent),
    )
    pairs = [pair for _, some in parts for pair in some]
    label = max(len(_name(pair)) for pair in pairs)
    width = max(len(found.a), *(min(len(_spell(pair, pair.a)), 40) for pair in pairs))
    heading = f"  {'':<{label}}  {printable(found.a):<{width}}  {printable(found.b)}"
    yield ((heading, "strong"),)
    if not found.comparable:
        yield ((f"  ({REMEDY})", "bad"),)
    for title, some in parts:
        if title and some:
            yield (("", ""),)
            yield ((title, "strong"),)
        for pair in some:
            yield (
                (f"  {_name(pair):<{label}}  ", "faint"),
                (f"{_spell(pair, pair.a):<{width}}", ""),
                (f"  {_spell(pair, pair.b)}", ""),
            )
    for one in found.missing:
        yield (("  not there  ", "bad"), (printable(one), ""))


def _name(pair: CandidatePair) -> str:
    return printable(f"{pair.about}: {pair.name}" if pair.about else pair.name)


def _spell(pair: CandidatePair, value: float | str | None) -> str:
    if value is None:
        return "-"
    return printable(value) if isinstance(value, str) else SPELLINGS[pair.unit](value)
