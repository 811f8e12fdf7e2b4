"""Lines of runs that a pattern is found in: sources, prompts, replies, logs, and hints."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.traces.files import read_text
from cuda_llm.traces.report.candidates import harmless
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import Line

TEXTS = {
    "source": ("candidates/*/source.cu",),
    "prompt": ("**/prompt.md",),
    "reply": ("**/reply.md",),
    "log": ("candidates/*/build.log",),
    "idea": ("candidates/*/attempt.json",),
    "hint": ("hints/*.json",),
    "event": ("events.jsonl",),
}
"""Files of a run's folder by what a person calls them, in the order in which they are read."""
DEFAULT = ("source", "prompt", "reply", "log", "idea", "hint")
"""What is searched unless the user says otherwise: events repeat much of it."""
FIELDS = (
    *("idea", "direction", "summary", "code", "limited_by"),
    *("cause", "text", "evidence", "hardware_text", "avoid"),
)
"""Of an attempt or a hint, that hold text."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """One line in which it was found."""

    run: str
    file: str
    """Below the run's folder."""
    line: int
    """From 1."""
    text: str
    start: int
    end: int
    """Of the first place in the line, in characters."""


def compile_pattern(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    """Return the regular expression. Raises UsageError where it is none."""
    try:
        return re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise UsageError(f"{pattern!r}: {error}; expected a regular expression") from None


def find_matches(
    runs: Iterable[RunFolder], pattern: re.Pattern[str], kinds: Iterable[str] = DEFAULT
) -> Iterator[Match]:
    """Yield the lines, run by run and file by file; a file that cannot be read has none."""
    wanted = tuple(kinds)
    for run in runs:
        for kind in TEXTS:
            for glob in TEXTS[kind] if kind in wanted else ():
                for path in sorted(run.path.glob(glob), key=_natural):
                    yield from _in_file(run, path, kind, pattern)


def _in_file(run: RunFolder, path: Path, kind: str, pattern: re.Pattern[str]) -> Iterator[Match]:
    for number, line in _lines(run, path, kind):
        text = harmless(line.expandtabs(4))
        found = pattern.search(text)
        if found is not None:
            yield Match(
                run=run.name,
                file=str(path.relative_to(run.path)),
                line=number,
                text=text,
                start=found.start(),
                end=found.end(),
            )


def _lines(run: RunFolder, path: Path, kind: str) -> Iterator[tuple[int, str]]:
    try:
        if kind in {"idea", "hint"}:
            value = run.attempt(path.parent.name) if kind == "idea" else run.hint(path.stem)
            texts = (getattr(value, name, "") for name in FIELDS)
            parts = (each for one in texts for each in ((one,) if isinstance(one, str) else one))
            yield from ((1, line) for one in parts for line in one.splitlines())
        else:
            yield from enumerate((read_text(path) or "").split("\n"), start=1)
    except (UsageError, OSError, ValueError):
        return


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a sort key in which digits count as numbers: `r2-c10` after `r2-c9`."""
    return [
        (int(part), "") if part.isdigit() else (-1, part)
        for part in re.split(r"(\d+)", str(path))
        if part
    ]


def describe_matches(found: Iterable[Match], *, name_runs: bool) -> Iterator[Line]:
    """Yield `candidates/r1-c2/source.cu:12: text`, with the run before it where there are many."""
    for one in found:
        run = f"{one.run}/" if name_runs else ""
        text = one.text
        yield (
            (f"{run}{one.file}:{one.line}: ", "faint"),
            (text[: one.start].lstrip(), ""),
            (text[one.start : one.end], "good"),
            (text[one.end :].rstrip(), ""),
        )
