"""Text for a person: figures in words, wrapped and indented, unable to control the terminal."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from cuda_llm.figure_wording import describe_dims
from cuda_llm.redaction import printable
from cuda_llm.traces.decisions import RunInterrupted, StopCause

if TYPE_CHECKING:
    from cuda_llm.predictions import Prediction, Record
    from cuda_llm.profile import SizeTime
    from cuda_llm.traces.decisions import HintsTried, RoundReviewed, Routed
    from cuda_llm.traces.summary import CallTotals

WIDTH = 100
Tone = Literal["", "strong", "faint", "good", "bad"]
"""What a part of a line is, for a terminal that has colours."""
Line = tuple[tuple[str, Tone], ...]
"""The parts of one line."""
LABEL = 12
"""Width of the left column."""

STOPPED: Mapping[StopCause, str] = {
    StopCause.REVIEW: "stopped for review",
    StopCause.CANCELLED: "interrupted",
    StopCause.ERROR: "an error",
}


def wrapped(text: str, *, first: str = "", indent: int = 0) -> Iterator[str]:
    """Wrap `text` behind `first`, further lines indented alike; its own line ends stay."""
    lead = " " * indent + printable(first)
    for paragraph in text.expandtabs(4).splitlines() or [""]:
        plain = printable(paragraph)
        hang = " " * (len(lead) + len(plain) - len(plain.lstrip()))
        yield from textwrap.wrap(
            lead + plain,
            WIDTH,
            subsequent_indent=hang,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        ) or [lead.rstrip()]
        lead = " " * len(lead)


def labelled(label: str, text: str, *, indent: int = 2) -> Iterator[str]:
    """Wrap `text` behind a label of the left column."""
    return wrapped(text, first=f"{label:<{LABEL}}", indent=indent)


def verbatim(text: str, *, indent: int = 4) -> Iterator[str]:
    """Yield text that must keep its lines, such as source code."""
    return (" " * indent + printable(line.expandtabs(4)) for line in text.splitlines())


def plural(count: int, what: str) -> str:
    """Return count and noun: `1 round`, `3 rounds`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def us(time_us: float) -> str:
    """Return a time with three significant digits."""
    number = f"{time_us:#.3g} us" if abs(time_us) < 1000 else f"{time_us / 1000:,.3f} ms"
    return number.replace(". ", " ")


def tokens(count: int) -> str:
    """Return a count in short: `950`, `38k`, `1.2M`."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.3g}k" if count < 999_500 else f"{count / 1e6:.3g}M"


def clock(at: str) -> str:
    """Return a time as `2026-01-31 10:00:00`."""
    return at[:19].replace("T", " ")


def duration(seconds: float, *, tenths: bool = False) -> str:
    """Return seconds in short: `12 s`, `2 min 10 s`; of few also `0.4 s`."""
    if tenths and seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def describe_call_totals(spend: "CallTotals") -> str:
    """Return the totals in words: `12 calls, 38k tokens in (21k cached), 9.1k out, $0.06`."""
    price = "price unknown" if spend.usd is None else f"${spend.usd:,.4g}"
    cached = f" ({tokens(spend.cached_tokens)} cached)" if spend.cached_tokens else ""
    return (
        f"{plural(spend.calls, 'call')}, {tokens(spend.input_tokens)} tokens in{cached}, "
        f"{tokens(spend.output_tokens)} out, {price}"
    )


def describe_skipped(torn: int, unknown: int) -> Iterator[str]:
    """Yield what of a run's events could not be read."""
    if torn:
        yield f"events.jsonl: {plural(torn, 'line')} cut off, damaged or about a lost file"
    if unknown:
        yield f"events.jsonl: {plural(unknown, 'line')} written by a newer cuda-llm"


def describe_end(reason: str) -> str:
    """Describe why a run ended."""
    return "its rounds were done" if reason == "rounds" else reason


def describe_stop(event: RunInterrupted) -> str:
    """Describe why a run stopped before its end."""
    return event.reason or STOPPED[event.cause]


def list_names(names: tuple[str, ...]) -> str:
    """List a few names; of many the first and the last."""
    if len(names) < 4:
        return ", ".join(names) or "nothing"
    return f"{len(names)} points ({names[0]} to {names[-1]})"


def describe_prediction(one: "Prediction") -> str:
    """Describe what an order should have saved beside what was saved."""
    had = "no time to compare" if one.had_us is None else f"saved {us(one.had_us)}"
    what = one.code.replace("_", " ")
    who = "predicted" if one.by == "diagnosis" else f"predicted by a {one.by}"
    return f"{who}: {us(one.saved_us)} of {us(one.time_us)} saved without {what}; {had}"


def describe_review(event: "RoundReviewed") -> Iterator[str]:
    """Yield what a reviewer changed, a line each, and how much stays as it was."""
    for one in event.changes:
        if one.part in {"hint", "order"}:
            done = f"{one.id} rejected: {one.before}" if one.id else f"a hint added: {one.after}"
        else:
            done = f"{one.id}: {one.part} {one.before or 'none'} -> {one.after or 'none'}"
        yield done.removesuffix(": ")
    if event.accepted:
        yield f"{', '.join(event.accepted)} accepted"


def describe_hints_tried(event: "HintsTried") -> str:
    """Return what hints promised beside what was had."""
    hints = ", ".join(
        f"{name} ({part:.0%} promised)" if part else name for name, part in event.predicted.items()
    )
    if event.gained is None:
        came = "it did not pass"
    elif event.gained < 0:
        came = f"{-event.gained:.0%} slower than {event.parent}"
    else:
        came = f"{event.gained:.0%} of the time of {event.parent} saved"
    return f"{event.candidate} tried {hints}: {came}"


def describe_route(event: "Routed") -> str:
    """Return where the run goes next, and why."""
    return (
        f"another round: {event.reason}"
        if event.to == "strategy"
        else (f"the end: {describe_end(event.reason)}")
    )


def describe_records(records: "Sequence[Record]") -> Iterator[str]:
    """Yield the table of what was predicted and what was had; nothing without any."""
    yield from ("", "what diagnoses and critiques predicted, and what was had") if records else ()
    for one in records:
        saved = f"{us(one.saved_us)} predicted, {us(one.had_us)} had"
        trust = f"{one.came_true} within a factor of two; trust {one.trust:.2f}"
        by = "" if one.by == "diagnosis" else f"by a {one.by}, "
        yield from labelled(one.code, f"{by}{plural(one.tried, 'time')}: {saved}; {trust}")


def describe_idea(idea: str, tunables: Mapping[str, int]) -> str:
    """Return the idea of a kernel, with the values of its tunables where it does not name them."""
    if all(name in idea for name in tunables):
        return idea
    values = ", ".join(f"{name} = {value}" for name, value in tunables.items())
    return f"{idea}; {values}" if idea else values


def describe_seconds(seconds: Mapping[str, float]) -> str:
    """Return seconds by stage: `generate 0.1 s, compile 1.2 s`."""
    return ", ".join(f"{stage} {spent:.1f} s" for stage, spent in seconds.items())


def describe_times(
    sizes: Sequence[Mapping[str, int]],
    times_us: Sequence[float],
    baseline_us: Sequence[float] = (),
) -> str:
    """Return one line a size: its dims, its time and, where known, the baseline's."""
    lines = []
    for index, (dims, time_us) in enumerate(zip(sizes, times_us, strict=False)):
        line = f"{describe_dims(dims)}: {us(time_us)}"
        if index < len(baseline_us) and time_us:
            base_us = baseline_us[index]
            line += f", baseline {us(base_us)}, {base_us / time_us:.2f}x"
        lines.append(line)
    return "\n".join(lines)


def describe_time_source(source: str, l2: str = "") -> str:
    """Describe the source of times: `times are modelled`, `times are measured, L2 cold`."""
    return f"times are {source}" + (f", L2 {l2}" if l2 else "")


def describe_circumstances(sizes: "Sequence[SizeTime]") -> str:
    """Describe clocks, heat and memory of measured sizes; empty where none were read or planned."""
    read = [size.clocks for size in sizes if size.clocks]
    parts = []
    if read:
        low = min(one["sm_mhz_low"] for one in read)
        high = max(one["sm_mhz_high"] for one in read)
        celsius, watts = (max(one[name] for one in read) for name in ("celsius", "watts"))
        parts.append(f"{low:,.0f} to {high:,.0f} MHz, at most {celsius:.0f} °C and {watts:.0f} W")
        held_down = sum(int(one["throttled_blocks"]) for one in read)
        parts += [f"held down in {plural(held_down, 'block')}"] if held_down else []
    peak = max((size.peak_bytes for size in sizes), default=0)
    parts += [f"{peak / 1e9:.1f} GB of its memory planned at most"] if peak else []
    return "; ".join(parts)


def describe_inspection(code: str, notes: Sequence[str], not_inspected: str) -> str:
    """Return the code of the verdict or that nothing was found, with the notes, on one line."""
    missed = f"not inspected: {not_inspected}" if not_inspected else ""
    found = code or ("" if missed else "nothing found")
    return "; ".join(filter(None, (found, missed, *notes)))


def inspection_lines(name: str, code: str, not_inspected: str) -> Iterator[str]:
    """Yield what who watches a run has to know of an inspection; nothing where all went well."""
    if code:
        yield f"{name} may not be the incumbent: {code}"
    elif not_inspected:
        yield f"{name} is not inspected: {not_inspected}"
