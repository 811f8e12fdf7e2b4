"""Messages of nvcc and of what it runs, as values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuda_llm.outcomes import Diagnostic
from cuda_llm.tools.compiler.build_faults import with_fault
from cuda_llm.tools.compiler.command import PTX
from cuda_llm.tools.compiler.names import OUTSIDE, Places, demangle

MOST_DIAGNOSTICS = 20
MOST_MESSAGE_CHARACTERS = 400
MOST_TOTAL_CHARACTERS = 6000

EDG = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning)"
    r"(?: #\d+(?:-D)?)?: (?P<message>.*)"
)
GCC = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? "
    r"(?P<severity>fatal error|error|warning|Error|Warning): (?P<message>.*)"
)
PTXAS_LINE = re.compile(
    r"ptxas (?P<file>.+), line (?P<line>\d+); (?P<severity>error|warning|fatal)\s*: (?P<message>.*)"
)
TOOL = re.compile(
    r"(?P<tool>ptxas|nvcc|nvlink|cicc|cudafe\+\+)\s+(?P<severity>error|fatal|warning)\s*: "
    r"(?P<message>.*)"
)
LINKER = re.compile(r"(?:\S*/)?ld: (?P<message>.*)")
SPEAKERS = {EDG: "nvcc", GCC: "g++", PTXAS_LINE: "ptxas", LINKER: "ld"}

MANGLED = re.compile(r"\b_Z\w+")

SUMMARY = ("Ptx assembly aborted", "ld returned ", "error detected", "errors detected")


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Errors in their order, then warnings in theirs, bounded."""

    kept: tuple[Diagnostic, ...]
    omitted: int

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors alone."""
        return tuple(d for d in self.kept if d.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings alone."""
        return tuple(d for d in self.kept if d.severity == "warning")


def parse_diagnostics(output: str, places: Places) -> Diagnostics:
    """Every message of `output`, once each."""
    found: list[Diagnostic] = []
    for line in output.splitlines():
        diagnostic = _parse(line, places)
        if diagnostic is not None:
            found.append(diagnostic)
        elif found and line.startswith(" " * 10) and line.strip(" ^"):
            # EDG breaks long messages onto deeply indented lines.
            last = found[-1]
            found[-1] = replace(last, message=f"{last.message}; {line.strip()}")
    return bound(dict.fromkeys(found))


async def readable(diagnostics: Diagnostics, places: Places) -> Diagnostics:
    """The same with functions named as in the source and found there, and each message's fault.

    ptxas speaks in symbols.
    """
    symbols = {s for d in diagnostics.kept for s in MANGLED.findall(d.message)}
    names = await demangle(sorted(symbols))
    kept = (with_fault(_named(one, names, places)) for one in diagnostics.kept)
    return replace(diagnostics, kept=tuple(kept))


def _named(diagnostic: Diagnostic, names: Mapping[str, str], places: Places) -> Diagnostic:
    found = MANGLED.search(diagnostic.message)
    if found is None:
        return diagnostic
    return replace(
        diagnostic,
        message=MANGLED.sub(lambda match: names[match[0]], diagnostic.message),
        spot=diagnostic.spot or places.definition(names[found[0]]),
    )


def bound(diagnostics: Iterable[Diagnostic]) -> Diagnostics:
    """Errors first, and no more than a person or a prompt can take."""
    ordered = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    kept: list[Diagnostic] = []
    room = MOST_TOTAL_CHARACTERS
    for diagnostic in ordered[:MOST_DIAGNOSTICS]:
        message = diagnostic.message
        if len(message) > MOST_MESSAGE_CHARACTERS:
            message = message[:MOST_MESSAGE_CHARACTERS] + " ..."
        room -= len(message) + len(diagnostic.spot.text if diagnostic.spot else "")
        if room < 0:
            break
        kept.append(replace(diagnostic, message=message))
    return Diagnostics(kept=tuple(kept), omitted=len(ordered) - len(kept))


def _parse(line: str, places: Places) -> Diagnostic | None:
    for pattern in (PTXAS_LINE, TOOL, EDG, GCC, LINKER):
        match = pattern.fullmatch(line.rstrip())
        if match is None or any(words in line for words in SUMMARY):
            continue
        parts = match.groupdict()
        severity = "warning" if parts.get("severity", "").lower() == "warning" else "error"
        file, number = parts.get("file"), int(parts.get("line") or 0)
        if pattern is LINKER and not re.search(r"error|undefined|multiple|cannot", line):
            return None
        if pattern is PTXAS_LINE and file is not None:
            file, number = _ptx_origin(places.folder / PTX, number)
        spot = places.spot(file, number) if file else None
        message = parts["message"]
        if spot is not None and spot.file == OUTSIDE:
            message = "this file is outside the kernel's folder"
        return Diagnostic(
            severity=severity,
            message=places.clean(message),
            spot=spot,
            tool=parts.get("tool") or SPEAKERS[pattern],
        )
    return None


def _ptx_origin(ptx: Path, line: int) -> tuple[str | None, int]:
    """Source file and line that a line of the PTX was generated from."""
    try:
        text = ptx.read_text(errors="replace").splitlines()
    except OSError:
        return None, 0
    files = {n: file for n, file in _matches(r'\s*\.file\s+(\d+)\s+"([^"]+)"', text)}
    for n, at in reversed(list(_matches(r"\s*\.loc\s+(\d+)\s+(\d+)", text[:line]))):
        return files.get(n), int(at)
    return None, 0


def _matches(pattern: str, lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    return ((m[1], m[2]) for line in lines if (m := re.match(pattern, line)))
