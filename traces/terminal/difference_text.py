"""The difference of two candidates for a terminal."""

from collections.abc import Iterator, Sequence

from cuda_llm.traces.terminal.difference import CandidatePair, Difference, SectionDifference, Value
from cuda_llm.traces.text import Line, plural, us

PARTS = ("resources", "profile", "source", "prompts")
"""What a person may ask for alone."""
MOST_BESIDE = 32
"""Characters of a text that still has the other one beside it, not below."""
MOST_LINES = 24
"""Of one section of the prompts, unless prompts alone are asked for."""


def describe_difference(found: Difference, run: str, only: str | None = None) -> Iterator[Line]:
    """Yield the lines; `only` one of PARTS, where it is given."""
    yield (f"{found.a} -> {found.b}", "strong"), (f" of run {run}", "")
    yield from _table(found.outcome)
    if only is None:
        yield from _titled("times", found.times)
    for title, pairs in (("resources", found.resources), ("profile", found.profile)):
        if only in {None, title}:
            yield from _titled(title, pairs)
    if only in {None, "source"}:
        yield from _title("source", "" if found.source else "the same")
        yield from map(_diff_line, found.source)
    if only in {None, "prompts"}:
        yield from _prompts(found, MOST_LINES if only is None else None)
    for one in found.missing:
        yield (("  not there  ", "bad"), (one, ""))


def _title(title: str, note: str = "") -> Iterator[Line]:
    yield (("", ""),)
    yield ((title, "strong"), (f": {note}" if note else "", "faint"))


def _titled(title: str, pairs: Sequence[CandidatePair]) -> Iterator[Line]:
    yield from _title(title, "" if pairs else "no difference known")
    yield from _table(pairs)


def _table(pairs: Sequence[CandidatePair]) -> Iterator[Line]:
    names = [f"{one.about}: {one.name}" if one.about else one.name for one in pairs]
    width = max(map(len, names), default=0)
    lengths = [len(_spell(one.a, one.unit)) for one in pairs]
    first = max((length for length in lengths if length <= MOST_BESIDE), default=0)
    for name, one in zip(names, pairs, strict=True):
        before, after = _spell(one.a, one.unit), _spell(one.b, one.unit)
        if len(before) > MOST_BESIDE:
            yield (f"  {name:<{width}}  ", "faint"), (before, "")
            yield (f"  {'':<{width}}", "faint"), (" -> ", "faint"), (after, "")
            continue
        yield (
            (f"  {name:<{width}}  ", "faint"),
            (f"{before:<{first}}", ""),
            (" -> ", "faint"),
            (after, ""),
            (_change(one), "faint"),
        )


def _spell(value: Value, unit: str) -> str:
    if value is None:
        return "none"
    if isinstance(value, str):
        return " ".join(value.split())
    match unit:
        case "us":
            return us(value)
        case "%":
            return f"{value:.0f}%"
        case "x":
            return f"{value:.2f}x"
        case _:
            return f"{value:,.0f} {unit}".rstrip()


def _change(one: CandidatePair) -> str:
    """Return how many times as fast, of a time that both have."""
    is_time = one.name == "time" and isinstance(one.a, float) and isinstance(one.b, float)
    return f"  {float(one.a) / float(one.b):.2f}x" if is_time and one.a and one.b else ""


def _diff_line(line: str) -> Line:
    tone = {"+": "good", "-": "bad", "@": "faint"}.get(line[:1], "")
    return ((f"  {line}", tone),)  # type: ignore[return-value]


def _prompts(found: Difference, most: int | None) -> Iterator[Line]:
    if not found.prompts:
        yield from _title("prompts", "not of both")
        return
    yield from _title("prompts", "each section, and the channels of the state behind it")
    width = max(len(one.heading) for one in found.prompts)
    for one in found.prompts:
        yield _section_line(one, min(width, 60))
        shown = one.lines[2:] if most is None else one.lines[2 : 2 + most]
        yield from map(_diff_line, shown)
        left = max(0, len(one.lines) - 2 - len(shown))
        if left:
            yield ((f"  ... {plural(left, 'more line')}: --only prompts shows all", "faint"),)


def _section_line(one: SectionDifference, width: int) -> Line:
    texts = one.lines[2:]
    added, gone = (sum(line.startswith(mark) for line in texts) for mark in "+-")
    counts = f" +{added} -{gone}" if texts else ""
    behind = ", ".join(one.channels) or "no channel: the template's own"
    return (
        (f"  {one.heading[:width]:<{width}}  ", "" if one.state == "same" else "strong"),
        (f"{one.state + counts:<20}", "faint" if one.state == "same" else "good"),
        (f"  {behind}", "faint"),
    )
